package profiler

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/stat"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// start gives a Profiler, or skips the test on a machine that cannot measure.
func start(t *testing.T, opts Options) *Profiler {
	t.Helper()
	p, err := New(opts)
	var host *verdict.HostError
	if errors.As(err, &host) {
		t.Skip(host)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// measured profiles until the result is not one that only a neighbour on the core explains.
func measured(t *testing.T, p *Profiler, block []byte) Result {
	t.Helper()
	for try := 0; ; try++ {
		r, err := p.Profile(context.Background(), Block{Code: block})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == OK {
			return r
		}
		if r.Reason != verdict.Unstable && r.Reason != verdict.ContextSwitch {
			t.Fatalf("%s: %v%s", r.Status, r.Rejection, r.Failure)
		}
		if try == 5 {
			t.Skipf("the core is not left alone: %v", r.Rejection)
		}
	}
}

// Latencies are those of uops.info and the vendors' optimization manuals; where cores
// differ, any of the integers that some core has.
var chains = []struct {
	name, hex string
	cycles    []float64
}{
	{"add rax, rax", "4801c0", []float64{1}},
	{"neg rax", "48f7d8", []float64{1}},
	{"imul rax, rax", "480fafc0", []float64{3}},
	{"mov rax, [rax]", "488b00", []float64{4, 5}},
	{"push rax", "50", []float64{1}},
	{"shl rax, 3", "48c1e003", []float64{1}},
	{"lea rax, [rax+rax]", "488d0400", []float64{1}},
	{"paddd xmm0, xmm0", "660ffec0", []float64{1}},
	{"mulsd xmm0, xmm0", "f20f59c0", []float64{3, 4, 5}},
	{"vaddps ymm0, ymm0, ymm0", "c5fc58c0", []float64{2, 3, 4}},
	{"add rax, rax; imul rax, rax; neg rax", "4801c0480fafc048f7d8", []float64{5}},
	{"addsd xmm0, xmm0", "f20f58c0", []float64{2, 3, 4}},
}

// TestKnownAnswers holds ten runs of each chain against its documented latency.
func TestKnownAnswers(t *testing.T) {
	p := start(t, Options{})
	avx := host.Detect().Features.AVX
	for _, c := range chains {
		t.Run(c.name, func(t *testing.T) {
			block := unhex(t, c.hex)
			if block[0] == 0xc5 && !avx {
				t.Skip("this CPU has no AVX")
			}
			worst := 0.0
			for range 10 {
				got := measured(t, p, block).Cycles
				want := slices.MinFunc(c.cycles, func(a, b float64) int {
					return cmp.Compare(math.Abs(a-got), math.Abs(b-got))
				})
				worst = max(worst, math.Abs(got-want)/want)
				if math.Abs(got-want) > math.Max(0.015*want, 0.02) {
					t.Errorf("%.4f cycles, want one of %v within 1.5 %% or 0.02", got, c.cycles)
				}
			}
			t.Logf("worst of ten is off by %.2f %%", 100*worst)
		})
	}
}

// TestHotLoop holds blocks that are bound by throughput against a real loop of 16 of their
// copies, timed in the same run.
func TestHotLoop(t *testing.T) {
	for _, c := range []struct{ name, hex string }{
		{"adds", "4801c04801c94801d24801f64801ff4d01c04d01c94d01d2"},
		{"leas", "488d4c2408488d542410488d742418"},
		{"moves", "4889c14889c24889c6"},
		{"loads", "488b0b488b5308"},
		{"stores", "48890b48895308"},
		{"vectors", "660ffec8660ffed0660ffed8"},
		{"mixed", "488d4c24084889c24889c64889c74989c031db"},
	} {
		t.Run(c.name, func(t *testing.T) {
			block := unhex(t, c.hex)
			p := start(t, Options{})
			unrolled := measured(t, p, block).Cycles
			loop := hotLoop(t, block)
			t.Logf("unrolled %.4f, hot loop %.4f cycles", unrolled, loop)
			if math.Abs(unrolled-loop) > math.Max(0.05*loop, 0.03) {
				t.Errorf("unrolled %.4f, hot loop %.4f cycles: want them within 5 %% or 0.03", unrolled, loop)
			}
		})
	}
}

// hotLoop times 16 copies of a block in a counted loop that its registers r15 drives.
func hotLoop(t *testing.T, block []byte) float64 {
	t.Helper()
	const copies, shortTurns, longTurns = 16, 50, 150
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpus, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSession(Options{CPUs: cpus, Budget: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	insts, err := asm.Decode(block)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{session: s, insts: insts, reset: resetFor(insts), factors: unroll.Factors{Short: copies * shortTurns, Long: copies * longTurns}}
	r.plan = mapper.Plan{Insts: insts, Init: s.inits[0], Frames: 1, Pages: maxPages, Limit: runLimit, Fresh: s.fresh}
	frame := r.frame()
	if r.short, err = unroll.BuildLoop(s.images, insts, copies, shortTurns, asm.R15, frame); err != nil {
		t.Fatal(err)
	}
	if r.long, err = unroll.BuildLoop(r.short.End(), insts, copies, longTurns, asm.R15, frame); err != nil {
		t.Fatal(err)
	}
	r.place(r.short)
	r.place(r.long)
	s.child.SetRestore(nil)
	if r.mapping, err = mapper.Map(s.child, r.plan, r.long); err != nil {
		t.Fatal(err)
	}
	r.dirty = r.mapping.Dirty(s.child, s.inits[0])
	if err := r.findDirty(); err != nil {
		t.Fatal(err)
	}
	var cycles []float64
	for try := 0; len(cycles) < 6; try++ {
		r.plan.Refill(s.child)
		w, err := s.window(windowPlan{
			setup: r.mapping.Remap(),
			short: timedImage{r.short.At, 1, 1}, long: timedImage{r.long.At, 1, 1},
			samples: windowSamples, polls: windowPolls, quiet: s.quietTicks(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if w.switches > 0 || w.samples() < windowSamples {
			if err := s.relocate(); err != nil {
				t.Fatal(err)
			}
			if try > 1000 {
				t.Skip("the core is not left alone")
			}
			continue
		}
		s.rate = w.rate(s.clock).Value
		cycles = append(cycles, w.throughput(r.factors, s.clock.Step()).Value/s.rate)
	}
	return stat.MidMean(cycles).Value
}
