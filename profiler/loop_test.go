package profiler

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/expect"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
)

// both measures a block unrolled and in a loop until neither was disturbed: beside other work some
// mappings are slow as long as they last. The interval shows this, and two such numbers cannot be
// compared.
func both(t *testing.T, p *Profiler, block []byte) Result {
	t.Helper()
	for range 10 {
		r := measuredBy(t, p, block)
		copies := stat.Estimate{Value: r.Cycles, Half: (r.CIHigh - r.CILow) / 2}
		loop := stat.Estimate{Value: r.LoopCycles, Half: (r.LoopCIHigh - r.LoopCILow) / 2}
		if r.LoopCycles > 0 && timing.Steady(copies) && timing.Steady(loop) {
			return r
		}
	}
	require.Skip(t, require.Idle, "the core is not left alone for long enough to measure a loop")
	return Result{}
}

// skipFull skips copies that use all slots of a cycle on cores whose loops of them are slower. Blocks of many instructions also do
// not reach steady state there in as many copies as fit.
func skipFull(t *testing.T) {
	t.Helper()
	if !expect.Here().FullSlots {
		require.Skip(t, require.CPU, "on %s copies that fill all slots differ from a loop of them", host.Detect().Microarchitecture)
	}
}

// TestDecoders: a block bound by 16 bytes per cycle runs slower from the decoders than in a loop, and a
// block bound by latency does not. From Golden Cove on the decoders take 32 bytes and six instructions per
// cycle (Intel Optimization Reference Manual, "Golden Cove Microarchitecture"), as many as rename.
func TestDecoders(t *testing.T) {
	require.Slow(t)
	p := start(t, Options{Mode: Both, FrontEnd: Decode})
	for _, c := range []struct {
		name, hex   string
		least, most float64 // ratio of unrolled to loop
	}{
		// Eight instructions in 23 bytes: a decoder of 16 bytes a cycle needs 1.5 cycles and
		// any core with room for six a cycle fewer; four-wide ones are held by their predecoder.
		{"short instructions", "488d4c24084889c24889c64889c74889c04889c231db90", 1.1, 3},
		{"lea, 4 mov, xor with wide encodings", "488d8c2408000000488bd0488bf0488bf84c8bc048c7c300000000", 1.02, 3},
		{"a chain", "480fafc0", 0.98, 1.02},
	} {
		if c.least > 1 && !expect.Here().SlowDecoders {
			t.Logf("%s: the decoders of %s are as fast as what else serves it", c.name, host.Detect().Microarchitecture)
			continue
		}
		lasting(t, func() string {
			r := both(t, p, unhex(t, c.hex))
			if ratio := r.Cycles / r.LoopCycles; r.FrontEnd != Decode || ratio < c.least || ratio > c.most {
				return fmt.Sprintf("%s: front end %s, decoders %.4f, loop %.4f cycles, want %g to %g times as many", c.name, r.FrontEnd, r.Cycles, r.LoopCycles, c.least, c.most)
			}
			return ""
		})
	}
}

// TestLoopAgrees compares blocks with a real loop of their copies: blocks bound by throughput or latency; blocks that move on, which
// must not move further than the copies; and blocks without a free register for the counter.
func TestLoopAgrees(t *testing.T) {
	require.Slow(t)
	p := start(t, Options{Mode: Both})
	for _, c := range []struct {
		name, hex string
		full      bool // takes six slots a cycle or more, where the core has them
		walks     bool // and so has as few iterations as copies were checked, not CountedIterations in the shorter image
		counter   string
		pages     int // at least, of a walk
		within    float64
	}{
		{"adds", "4801c04801c94801d24801f64801ff4d01c04d01c94d01d2", false, false, "r15", 0, 0.05},
		{"mixed", "488d4c24084889c24889c64889c74989c031db", true, false, "r15", 0, 0.05},
		{"loads", "488b0b488b5308", false, false, "r15", 1, 0.05},
		{"stores", "48890b48895308", false, false, "r15", 1, 0.05},
		// vzeroall and ldmxcsr are restored before each run, and once kept these copies in the
		// decoders: 1.44 cycles against 1.01.
		{"a load, a moved scalar, a product", "8b8424bc010000c5fb108c24f8010000c5f359d883f803", false, false, "r15", 1, 0.05},
		{"a chain", "4801c0", false, false, "r15", 0, 0.02},
		{"a chain through memory", "488b00", false, false, "r15", 1, 0.02},
		{"push walks down", "50", false, true, "r15", 2, 0.03},
		{"a walk in steps of 32 bytes", "4883c320488903", false, true, "r15", 2, 0.03},
		{"all registers in use", "4889c14889ca4889d34889dd4889ee4889f74d89c14d89ca4d89d34d89dc4d89e54d89ee4d89f7", true, false, "memory", 0, 0.05},
		{"and rdi's, stored", "48893b4889c14889ca4889ee4d89c14d89ca4d89d34d89dc4d89e54d89ee4d89f7", true, false, "memory", 1, 0.05},
	} {
		if strings.Contains(c.hex, "c5fb") && !host.Detect().Features.AVX || c.full && !expect.Here().FullSlots {
			t.Logf("%s: not on this CPU", c.name)
			continue
		}
		var r Result
		lasting(t, func() string {
			r = both(t, p, unhex(t, c.hex))
			if math.Abs(r.Cycles-r.LoopCycles) > math.Max(c.within*r.Cycles, 0.03) {
				return fmt.Sprintf("%s: unrolled %.4f, loop %.4f cycles: want them within %g or 0.03", c.name, r.Cycles, r.LoopCycles, c.within)
			}
			return ""
		})
		few := r.Loop.IterationsShort != unroll.CountedIterations
		if few != c.walks || r.Loop.Counter != c.counter || r.Pages != c.pages && !(c.walks && r.Pages > c.pages) {
			t.Errorf("%s: %d pages, the loop is %+v; want %d, few iterations: %v, counted in %s", c.name, r.Pages, *r.Loop, c.pages, c.walks, c.counter)
		}
	}
}

// Mode loop reports the same loop as mode both, and runs the block as often as -unroll sets.
func TestModeLoop(t *testing.T) {
	want := unroll.Factors{Short: 512, Long: 1024}
	p := start(t, Options{Mode: Loop, Unroll: &want})
	var r Result
	lasting(t, func() string {
		if r = measuredBy(t, p, unhex(t, "480fafc0")); math.Abs(r.Cycles-3) > 0.06 {
			return fmt.Sprintf("%.4f cycles", r.Cycles)
		}
		return ""
	})
	if r.LoopCycles != 0 || r.Mode != Loop || r.FrontEnd != OpCache || r.UnrollLong != r.Loop.Copies*r.Loop.IterationsLong {
		t.Errorf("mode %s, front end %s: %+v", r.Mode, r.FrontEnd, r)
	}
	if got := (unroll.Factors{Short: r.UnrollShort, Long: r.UnrollLong}); got != want || r.Loop.IterationsShort >= unroll.CountedIterations {
		t.Errorf("%v iterations by %+v, want %v", got, *r.Loop, want)
	}
}
