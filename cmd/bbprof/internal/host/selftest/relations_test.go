package selftest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// drawn is a core that nobody has met: its latencies are drawn from a seed.
type drawn struct {
	random    *rand.Rand
	latencies map[string]float64 // by mnemonic
	multiply  float64            // by the clock's cross-check
	shared    bool               // independent multiplies wait for their unit
	wrong     func(insts []asm.Inst, mode profiler.Mode) float64
}

func newDrawn(seed uint64) *drawn {
	d := &drawn{random: rand.New(rand.NewPCG(seed, 9)), latencies: map[string]float64{}}
	for _, name := range []string{"add", "neg", "not", "imul", "bswap", "mov", "mulsd"} {
		d.latencies[name] = float64(1 + d.random.IntN(9))
	}
	d.latencies["imul"] += clock.LeastMultiply - 1
	d.multiply, d.shared = d.latencies["imul"], seed%2 == 0
	return d
}

// Profile measures chains, within a few permille.
func (d *drawn) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	insts, err := asm.Decode(b.Code)
	if err != nil {
		return profiler.Result{}, err
	}
	cycles := 0.0
	for i := range insts {
		cycles += d.latencies[insts[i].Mnemonic]
	}
	if string(b.Code) == string(imulRAX)+string(imulRCX) && !d.shared {
		cycles /= 2
	}
	if d.wrong != nil {
		cycles *= d.wrong(insts, b.Setup.Mode)
	}
	r := ok(cycles * (1 + 0.001*d.random.NormFloat64()))
	r.Clock = &profiler.ClockReport{MultiplyCycles: d.multiply}
	return r, nil
}

// TestRelationsHoldOnAnyCore: a hundred cores that nobody has met pass, whatever their latencies.
func TestRelationsHoldOnAnyCore(t *testing.T) {
	for seed := range uint64(100) {
		outcomes := require.Get(run(context.Background(), newDrawn(seed), cpu.Unknown, hasAll, nil, relations(), Full))(t)
		for _, o := range outcomes {
			if o.Status != Pass {
				t.Errorf("seed %d: %s: %s: %.3f cycles, expected %v: %s", seed, o.Text, o.Status, o.Cycles, o.Expected(), o.Why)
			}
		}
	}
}

// TestRelationsFindFaults: a multiply that takes another time than the clock's, a sum that is none, and a row that is
// no loop fail, on any core.
func TestRelationsFindFaults(t *testing.T) {
	for name, fault := range map[string]func(*drawn){
		"imul takes a cycle less than by the clock": func(d *drawn) { d.multiply++ },
		"long blocks take 5 % more": func(d *drawn) {
			d.wrong = func(insts []asm.Inst, _ profiler.Mode) float64 { return 1 + 0.05*float64(min(len(insts)-1, 1)) }
		},
		"loops take 5 % more": func(d *drawn) {
			d.wrong = func(_ []asm.Inst, mode profiler.Mode) float64 {
				return 1 + 0.05*map[profiler.Mode]float64{profiler.Loop: 1}[mode]
			}
		},
	} {
		for seed := range uint64(100) {
			d := newDrawn(seed)
			fault(d)
			if tally := Count(require.Get(run(context.Background(), d, cpu.Unknown, hasAll, nil, relations(), Full))(t)); tally.Fail == 0 {
				t.Errorf("%s, seed %d: %v", name, seed, tally)
			}
		}
	}
}

// TestRelationWithoutIdleStart: a start by which an imul takes no whole number of cycles was disturbed, and says nothing of what is measured later.
func TestRelationWithoutIdleStart(t *testing.T) {
	d := newDrawn(1)
	d.multiply -= 0.26
	o := require.Get(run(context.Background(), d, cpu.Unknown, hasAll, nil, []relation{asClock(imulRAX)}, Full))(t)[0]
	require.Equal(t, "status", Disturbed, o.Status)
}

// TestRelationDisturbed: a relation whose blocks cannot be measured is disturbed or fails, and names the block.
func TestRelationDisturbed(t *testing.T) {
	noise := &fake{results: []profiler.Result{rejected("busy_core"), rejected("busy_core"), rejected("busy_core")}}
	o := require.Get(run(context.Background(), noise, cpu.Unknown, hasAll, nil, []relation{asLoop(false, imulRAX)}, Full))(t)[0]
	require.Equal(t, "status", Disturbed, o.Status)
	require.Equal(t, "why", "imul rax, rax: busy_core: why", o.Why)
}
