package values

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool/pooltest"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestOnThisCore asks the core how much two values of an operand differ, by a block of the test's own that sets the
// other operands itself and waits for them, and holds the outcome to that: values that differ by 3 % must be found, and where these differ
// by less than 0.5 %, there must be no effect.
func TestOnThisCore(t *testing.T) {
	ctx := require.Context(t)
	for _, c := range []struct {
		name, code, input string
		subnormals        bool // computed
		own, a, b         string
	}{
		{"div rcx", "48f7f1", "rcx", false, "4883e000 4c09c0 4883e200 4c09ca 48f7f1", "r8=0x12341040,r9=0,rcx=1", "r8=0x12341040,r9=0,rcx=0x12341040"},
		{"mulsd xmm0, xmm1", "f20f59c1", "xmm1", true, "0f54c3 0f56c2 f20f59c1", "xmm2=0x3ff8000000000000,xmm1=0x1", "xmm2=0x3ff8000000000000,xmm1=0x3ff8000000000000"},
		{"imul rax, rbx", "480fafc3", "rbx", false, "480fafc3", "rbx=0", "rbx=-1"},
	} {
		p := pooltest.New(t, profiler.Options{Mode: profiler.Unroll, NoFTZ: c.subnormals, Detail: true})
		code, _ := decode(t, c.code)
		own, _ := decode(t, c.own)
		at := func(set string) (float64, error) {
			r, err := pool.Number(ctx, p, profiler.Block{Code: own, Setup: profiler.Setup{Set: require.Get(initial.ParseSet(set))(t)}})
			return r.Cycles, err
		}
		require.AtMost(t, 1, 2, func() string {
			a, err := at(c.a)
			require.Measure(t, err)
			b, err := at(c.b)
			require.Measure(t, err)
			s, err := Run(ctx, p, profiler.Block{Code: code}, experiment.Plan{Rounds: 6, Seed: 1})
			require.Measure(t, err)
			require.Measure(t, s.Base.Err())
			differ := max(a, b)/min(a, b) - 1
			for _, f := range s.Inputs {
				wrong := differ > 0.03 && f.Outcome != Depends || differ < 0.005 && f.Outcome != NoEffect
				if f.Name == c.input && wrong {
					return fmt.Sprintf("%s: %.3f and %.3f cycles, and the outcome is %q", c.name, a, b, f.Outcome)
				}
			}
			return ""
		})
	}
}
