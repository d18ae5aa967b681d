package sweep

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool/pooltest"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestKernels: the kernels of the paper on aliasing alias where their addresses predict, a page apart.
func TestKernels(t *testing.T) {
	ctx := require.Context(t)
	p := pooltest.New(t, profiler.Options{Detail: true}).Profiler // a number too much disturbed has its predictions
	input := initial.Paper()
	input.GPR[asm.RDX] = 0x30000000
	base := profiler.Setup{CodeOffset: new(0), Init: &input, Frames: 16,
		Tolerate: []verdict.Reason{verdict.Alias4K, verdict.AliasFrame, verdict.Nonlinear, verdict.Unstable}}
	stack := func(v []int) (Factor, error) { return Of("data", base, []asm.Reg{asm.RBP}, v) }
	output := func(v []int) (Factor, error) { return Of("distance", base, []asm.Reg{asm.RSI, asm.RDI}, v) }
	for _, c := range []struct {
		file   string
		factor func([]int) (Factor, error)
		values []int
		loads  []float64 // alias one of the last 64 stores, which Zen 4's store buffer holds
		far    int       // from this value on, the number depends on the store buffer
	}{
		{"statics", stack, []int{2608, 6704, 2624, 6720, 2640}, []float64{0, 0, 3, 3, 0}, 5},
		{"statics-path", stack, []int{2608, 6704, 2624, 6720, 2640}, []float64{0, 0, 3, 3, 0}, 5},
		{"convolution", output, []int{4080, 4096, 4112, 4144, 4176}, []float64{0, 1, 5, 4, 0}, 3},
		{"convolution-path", output, []int{4080, 4096, 4112, 4144, 4176}, []float64{0, 1, 5, 4, 0}, 3},
	} {
		t.Run(c.file, func(t *testing.T) {
			text := require.Get(os.ReadFile("../../../../../testdata/kernels/" + c.file + ".hex"))(t)
			code := require.Get(hex.DecodeString(strings.TrimSpace(string(text))))(t)
			f := require.Get(c.factor(c.values))(t)
			stores := host.Detect().Core.StoreBuffer // a larger one reaches older stores
			require.AtMost(t, 1, 2, func() string {
				results, err := Run(ctx, p, code, f, experiment.Plan{Rounds: 3, Seed: 1})
				require.Measure(t, err)
				for i, r := range results {
					if r.Reason == verdict.Timeout {
						require.Skip(t, require.Idle, "the machine stood still: %v", r.Rejection)
					}
					if r.Predicted == nil {
						t.Fatalf("%d: %s: %v", f.Values[i], r.Status, r.Rejection)
					}
					t.Logf("%d: %.3f cycles, %g loads alias, %d and %d copies", f.Values[i], r.Cycles, r.Predicted.Alias4K, r.UnrollShort, r.UnrollLong)
					far := r.UnrollShort >= 8 // else, as with a small op cache, there are no such old stores
					if got, want := r.Predicted.Alias4K, c.loads[i]; far && got != want && (i < c.far || (got > want) != (stores > 64)) {
						t.Errorf("%d: %g loads alias, want %g", f.Values[i], r.Predicted.Alias4K, c.loads[i])
					}
				}
				if err := cmp.Or(results[0].Err(), results[2].Err()); err != nil {
					require.Skip(t, require.Idle, "the core was not left alone: %v", err)
				}
				// What aliasing costs is the core's affair; a gain it is not.
				if ratio := results[2].Cycles / results[0].Cycles; ratio < 0.97 {
					return fmt.Sprintf("%.3f times the cycles where loads alias", ratio)
				}
				return ""
			})
		})
	}
}
