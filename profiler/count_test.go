package profiler

import (
	"context"
	"testing"

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
