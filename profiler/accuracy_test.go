package profiler

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// start returns a Profiler, or skips the test on a machine that cannot measure.
func start(t *testing.T, opts Options) *Profiler {
	t.Helper()
	require.Patience(t)
	p, err := New(t.Context(), opts)
	require.Measure(t, err)
	t.Cleanup(p.Close)
	return p
}

// undisturbed profiles until other work on the machine does not explain that something is missing.
func undisturbed(t *testing.T, p *Profiler, b Block, whole func(Result) bool) Result {
	t.Helper()
	var waited require.Tries
	for {
		began := time.Now()
		r := require.Get(p.Profile(require.Context(t), b))(t)
		if whole(r) {
			return r
		}
		waited.Again(t, time.Since(began), fmt.Sprint(r.Rejection, r.Warnings))
	}
}

// measuredBy profiles until other work on the machine cannot explain the result.
func measuredBy(t *testing.T, p *Profiler, block []byte) Result {
	t.Helper()
	var waited require.Tries
	for try := 0; ; try++ {
		began := time.Now()
		r, err := p.Profile(require.Context(t), Block{Code: block})
		require.Measure(t, err)
		suspect := (r.Reason == verdict.Nonlinear || r.Reason == verdict.Timeout) && try < 5
		switch {
		case r.Status == OK:
			return r
		case suspect:
		case r.Reason.Noise():
			waited.Again(t, time.Since(began), r.Rejection)
		default:
			t.Fatalf("%x: %s: %v%s", block, r.Status, r.Rejection, r.Failure)
		}
	}
}

// lasting fails the test if check complains in more than one of three runs: other work seldom disturbs two
// measurements in the same way.
func lasting(t *testing.T, check func() string) {
	t.Helper()
	require.AtMost(t, 1, 3, check)
}

// lastingly is lasting for a number of cycles that must be within a share of another.
func lastingly(t *testing.T, name string, share float64, measure func() (got, want float64)) {
	t.Helper()
	lasting(t, func() string {
		if got, want := measure(); math.Abs(got-want) > share*want {
			return fmt.Sprintf("%s: %.4f cycles, want %.4f within %g", name, got, want, share*want)
		}
		return ""
	})
}

// Latencies from uops.info and the vendors' manuals; if cores differ, any of their integers.
var chains = []struct {
	name, hex string
	cycles    []float64
}{
	{"add rax, rax", "4801c0", []float64{1}},
	{"neg rax", "48f7d8", []float64{1}},
	{"imul rax, rax", "480fafc0", []float64{3}},
	{"mov rax, [rax]", "488b00", []float64{4, 5}},
	{"push rax", "50", []float64{1, 0.5}}, // one or two stores a cycle
	{"shl rax, 3", "48c1e003", []float64{1}},
	{"lea rax, [rax+rax]", "488d0400", []float64{1}},
	{"paddd xmm0, xmm0", "660ffec0", []float64{1, 2}},
	{"mulsd xmm0, xmm0", "f20f59c0", []float64{3, 4, 5}},
	{"vaddps ymm0, ymm0, ymm0", "c5fc58c0", []float64{2, 3, 4}},
	{"add rax, rax; imul rax, rax; neg rax", "4801c0480fafc048f7d8", []float64{5}},
	{"addsd xmm0, xmm0", "f20f58c0", []float64{2, 3, 4}},
}

// TestKnownAnswers compares each chain with its documented latency; other work may disturb one of five runs.
func TestKnownAnswers(t *testing.T) {
	p := start(t, Options{})
	avx := host.Detect().Features.AVX
	for _, c := range chains {
		block := require.Hex(t, c.hex)
		if block[0] == 0xc5 && !avx {
			t.Logf("%s: this CPU has no AVX", c.name)
			continue
		}
		require.AtMost(t, 1, 5, func() string {
			got := measuredBy(t, p, block).Cycles
			if slices.ContainsFunc(c.cycles, func(want float64) bool { return math.Abs(got-want) <= math.Max(0.015*want, 0.02) }) {
				return ""
			}
			return fmt.Sprintf("%s: %.4f cycles, want one of %v within 1.5 %% or 0.02", c.name, got, c.cycles)
		})
	}
}

// TestAnyNumberOfCopies: a copy takes the same time with few copies and with many.
func TestAnyNumberOfCopies(t *testing.T) {
	require.Slow(t)
	const steady = 32 // copies after which a prologue of 13 instructions goes on at one speed: 32 on Zen 3, 16 on Zen 5, 8 elsewhere
	for _, c := range []struct {
		hex       string
		few, many unroll.Factors
	}{
		// Instructions of a function's prologue, of whose many copies more than 256 words are restored. 8 and 40 copies took 3.4 to 4.2
		// cycles, by layout, when a loop restored one word per iteration, and on Zen 4 3.69 instead of 3.10 when all words were restored
		// through the first page of their frame.
		{"415741564989d641554989cd41544989fc554889f553bb640000004883ec28448b4608",
			unroll.Factors{Short: steady, Long: steady + 32}, unroll.Factors{Short: steady, Long: steady + 64}},
		// Stores, of which those of 24 copies fit into the store buffer on most cores. Before images waited for their stores, 16 and 48
		// copies of either block took 0.99 cycles each instead of 2. On Zen 3 the first 16 take less in any case.
		{"4889c18b43104889cf48894c2468c6040100", unroll.Factors{Short: 24, Long: 56}, unroll.Factors{Short: 128, Long: 256}},
		{"48898424a0000000498b4424184c89e64889ef48898424c0000000", unroll.Factors{Short: 24, Long: 56}, unroll.Factors{Short: 128, Long: 256}},
	} {
		few, many := start(t, Options{Unroll: &c.few}), start(t, Options{Unroll: &c.many})
		lastingly(t, fmt.Sprint(c), 0.04, func() (slower, faster float64) {
			a, b := measuredBy(t, few, require.Hex(t, c.hex)).Cycles, measuredBy(t, many, require.Hex(t, c.hex)).Cycles
			return max(a, b), min(a, b)
		})
	}
}
