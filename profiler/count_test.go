package profiler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestCountInstructions(t *testing.T) {
	for _, c := range []struct {
		code   string
		want   int
		reason verdict.Reason
	}{
		{"90", 1, ""},
		{"4801c0488b034829c8", 3, ""},
		{"b910000000f3a4", 2, ""},   // mov ecx,16; rep movsb
		{"31c9f3a4", 2, ""},         // xor ecx,ecx; rep movsb
		{"b903000000f2ae90", 3, ""}, // mov ecx,3; repne scasb; nop
		{"0f28430190", 0, verdict.UnalignedOperand},
		{"ebfe", 0, verdict.ControlFlow},
		{"", 0, verdict.BadHex},
	} {
		got, err := CountInstructions(context.Background(), Block{Code: unhex(t, c.code)})
		for try := 0; got.Rejection != nil && got.Rejection.Reason == verdict.Timeout && try < 5; try++ { // the machine may have stood still
			got, err = CountInstructions(context.Background(), Block{Code: unhex(t, c.code)})
		}
		require.Host(t, err)
		if err != nil || got.Instructions != c.want || (got.Rejection != nil) != (c.reason != "") {
			t.Errorf("%s: %+v, %v, want %d", c.code, got, err, c.want)
			continue
		}
		if got.Rejection != nil && got.Rejection.Reason != c.reason {
			t.Errorf("%s: %v", c.code, got.Rejection)
		}
	}
}

// TestCountRejections: what a block is rejected for is its own doing, and names it as the user wrote it.
func TestCountRejections(t *testing.T) {
	for _, c := range []struct {
		code, says string
	}{
		{"ff2503000000", "jmp qword ptr [rip+0x3]"},
		{"b9a08601004889dff3aa", "did not end within"}, // mov ecx,100000; mov rdi,rbx; rep stosb
	} {
		got, err := countWithin(t.Context(), Block{Code: unhex(t, c.code)}, 50*time.Millisecond)
		require.Host(t, err)
		if err != nil || got.Rejection == nil || !strings.Contains(got.Rejection.Error(), c.says) {
			t.Errorf("%s: %+v, %v, want %q", c.code, got, err, c.says)
		}
	}
}
