package profiler

import (
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// TestCountInstructions: an instruction counts once, with any number of repetitions. A rejection names the instruction as the user
// wrote it.
func TestCountInstructions(t *testing.T) {
	for _, c := range []struct {
		code   string
		want   int
		reason verdict.Reason
		says   string
	}{
		{"90", 1, "", ""},
		{"b910000000f3a4", 2, "", ""},   // mov ecx,16; rep movsb
		{"31c9f3a4", 2, "", ""},         // xor ecx,ecx; rep movsb
		{"b903000000f2ae90", 3, "", ""}, // mov ecx,3; repne scasb; nop
		{"0f28430190", 0, verdict.UnalignedOperand, ""},
		{"", 0, verdict.BadHex, ""},
		{"ff2503000000", 0, verdict.ControlFlow, "jmp qword ptr [rip+0x3]"},
		{"b9a08601004889dff3aa", 0, verdict.Timeout, "did not end within"}, // mov ecx,100000; mov rdi,rbx; rep stosb
	} {
		within := time.Minute
		if c.reason == verdict.Timeout {
			within = 50 * time.Millisecond
		}
		got, err := countWithin(t.Context(), Block{Code: unhex(t, c.code)}, within)
		require.Host(t, err)
		if err != nil || got.Instructions != c.want || (got.Rejection != nil) != (c.reason != "") {
			t.Errorf("%s: %+v, %v, want %d", c.code, got, err, c.want)
		} else if got.Rejection != nil && (got.Rejection.Reason != c.reason || !strings.Contains(got.Rejection.Error(), c.says)) {
			t.Errorf("%s: %v, want %s, %q", c.code, got.Rejection, c.reason, c.says)
		}
	}
}
