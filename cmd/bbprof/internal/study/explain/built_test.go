package explain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool/pooltest"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// built lists blocks with a cause that is built in. Whether it costs anything is the core's affair: the test asks, by a
// partner that differs in the cause alone, or else as asks does. A block with neither has no such cause.
var built = []struct {
	name, cause, hex string
	setup            func(*profiler.Setup)
	partner          string                // other code
	without          func(*profiler.Setup) // or another set-up
}{
	// mov [rbx], rcx; mov rdx, [rdi]; and rdx, 0; add rdi, rdx: the load's latency is critical
	{name: "a load after a store with equal low 12 bits", cause: "4K aliasing", hex: "48890b 488b17 4883e200 4801d7",
		setup:   func(s *profiler.Setup) { s.Init.GPR[asm.RDI] += 0x1000 },
		without: func(s *profiler.Setup) { s.Init.GPR[asm.RDI] += 3 * 64 }},
	// mov [rbx], rcx; mov rdx, [rbx+0x1000], or +0x10c0; and rdx, 0; add rbx, rdx: no pointer to move
	{name: "an alias of one pointer", cause: "4K aliasing", hex: "48890b 488b9300100000 4883e200 4801d3", partner: "48890b 488b93c0100000 4883e200 4801d3"},
	// mov rax, [rbx]; mov rcx, [rbx+0x1000]: no store, so nothing aliases on two frames
	{name: "loads of one line through two pages", cause: "frame sharing", hex: "488b03 488b8b00100000", setup: func(s *profiler.Setup) { s.Frames = 1 }},
	// mov [rbx], cl, or rcx; mov rdx, [rbx]; and rdx, 0; add rcx, rdx
	{name: "a narrow store and a wide load", cause: "store forwarding", hex: "880b 488b13 4883e200 4801d1", partner: "48890b 488b13 4883e200 4801d1"},
	// mov [rbx], ecx; mov [rbx+4], ecx, or mov [rbx], rcx and a store elsewhere; mov rcx, [rbx]
	{name: "two stores and a load of both", cause: "store forwarding", hex: "890b 894b04 488b0b", partner: "48890b 894b40 488b0b"},
	{name: "the same beside a longer chain", cause: "store forwarding", hex: "880b 488b13" + multiplies, partner: "48890b 488b13" + multiplies},
	{name: "a store and a load of it", cause: "store forwarding", hex: "48890b 488b0b"},
	// movss xmm0, [rdi]; addss xmm0, xmm1; movss [rsi], xmm0
	{name: "a sum through equal pointers", cause: "equal addresses", hex: "f30f1007 f30f58c1 f30f1106",
		without: func(s *profiler.Setup) { s.Init.GPR[asm.RSI] += 0x1040 }},
	// mov rax, [rbx+0x3d]; and rax, 0; add rbx, rax
	{name: "a load across lines", cause: "line splits", hex: "488b433d 4883e000 4801c3",
		without: func(s *profiler.Setup) { s.Init.GPR[asm.RBX] += 32 }},
	// 64 bytes of nops of 10, 10, 12, 6, 6, 6, 7 and 7 bytes: how an op-cache entry meets a line
	{name: "long and short nops", cause: "code alignment",
		hex: strings.Repeat("66660f1f840000000000", 2) + "666666660f1f840000000000" + strings.Repeat("660f1f440000", 3) + strings.Repeat("0f1f8000000000", 2)},
	// add ebx, 1; cmp eax, ebx: two slots per copy, so the parity of the slots before counts
	{name: "a sum and a comparison", cause: "rename phase", hex: "83c301 39d8"},
	// add esi, 1; add rdx, r8; cmp esi, edi: three slots, so the slots before count modulo 3
	{name: "two sums and a comparison", cause: "rename phase", hex: "83c601 4c01c2 39fe"},
	// mulsd xmm1, [rbx]; addsd xmm1, [rbx]: memory holds a subnormal. 16 andpd xmm1, xmm1 follow because the two
	// alone also depend on alignment while they compute subnormals
	{name: "a chain of subnormals", cause: "subnormals", hex: "f20f590b f20f580b" + strings.Repeat("660f54c9", 16), setup: computed},
	// vaddps ymm5, ymm6, ymm7; sqrtps xmm3, xmm4, or vsqrtps
	{name: "legacy beside wide", cause: "SSE and AVX mixed", hex: "c5cc58ef 0f51dc", partner: "c5cc58ef c5f851dc"},
	// the same beside a chain of eight vmulps ymm0, ymm0, ymm1
	{name: "the same beside a longer chain of vectors", cause: "SSE and AVX mixed", hex: "c5cc58ef 0f51dc" + strings.Repeat("c5fc59c1", 8),
		partner: "c5cc58ef c5f851dc" + strings.Repeat("c5fc59c1", 8)},
	// vaddps xmm5, xmm6, xmm7; sqrtps xmm3, xmm4
	{name: "legacy beside narrow", cause: "SSE and AVX mixed", hex: "c5c858ef 0f51dc"},
	// add rax, rcx; two nops: 16 bytes, one cycle of latency, 306 times. 300 copies are 1.4 MB
	{name: "more code than L2 holds", cause: "L1I residency", hex: strings.Repeat("4801c8 6666660f1f840000000000 6690", 306),
		setup: func(s *profiler.Setup) {
			s.Unroll, s.FrontEnd = &unroll.Factors{Short: 100, Long: 300}, profiler.Decode
		},
		without: func(s *profiler.Setup) { s.Unroll = &unroll.Factors{Short: 1, Long: 3} }},
}

var multiplies = strings.Repeat("480fafc0", 12) // imul rax, rax

func computed(s *profiler.Setup) { s.NoFTZ, s.Init.MXCSR = true, initial.DefaultMXCSR }

// A core must feel a cause by mustName for explain to have to name it, and by less than mayNotName for it not to.
const (
	mustName   = 0.03
	mayNotName = 0.01
)

// asking measures what a cause costs on this core, by pairs of set-ups of its own.
type asking struct {
	t     *testing.T
	p     *pooltest.Profiler
	code  []byte
	setup profiler.Setup
}

// asks are what a cause costs that any block may have, at least and at most.
var asks = map[string]func(asking) (least, most float64){
	"frame sharing": func(a asking) (least, most float64) {
		return a.without(a.code, func(s *profiler.Setup) { s.Frames = FramesEach })
	},
	"subnormals": func(a asking) (least, most float64) {
		return a.without(a.code, func(s *profiler.Setup) { s.NoFTZ, s.Init.MXCSR = false, initial.Paper().MXCSR })
	},
	"code alignment": func(a asking) (least, most float64) {
		return a.spread(16, 0, func(q question, n int) profiler.Setup { return q.at(4*n, leastNops) }, cycles)
	},
	"rename phase": func(a asking) (least, most float64) { // of one slow phase explain need not say anything: see differ
		return a.spread(host.Detect().DispatchWidth, 1, func(q question, n int) profiler.Setup { return q.at(0, leastNops+n) }, firstPhase)
	},
}

// median measures a set-up five times: beside a neighbour two may be disturbed.
func (a asking) median(code []byte, s profiler.Setup, of func(profiler.Result) float64) float64 {
	var all []float64
	for range 5 {
		all = append(all, of(a.undisturbed(func(ctx context.Context) (profiler.Result, error) {
			return a.p.Profile(ctx, profiler.Block{Code: code, Setup: s})
		})))
	}
	return stat.Median(all)
}

// undisturbed measures until other work has left a measurement alone; a.p ends a test that waits for too long.
func (a asking) undisturbed(measure func(context.Context) (profiler.Result, error)) profiler.Result {
	a.t.Helper()
	for {
		r, err := measure(require.Context(a.t))
		if require.Measure(a.t, err); !r.Noisy() {
			require.Measure(a.t, r.Err())
			return r
		}
	}
}

func cycles(r profiler.Result) float64 { return r.Cycles }

// without is the share by which other code or another set-up differs.
func (a asking) without(code []byte, change func(*profiler.Setup)) (share, same float64) {
	other, init := a.setup, *a.setup.Init
	other.Init = &init
	if change != nil {
		change(&other)
	}
	with, without := a.median(a.code, a.setup, cycles), a.median(code, other, cycles)
	share = math.Abs(with-without) / min(with, without)
	return share, share
}

// spread is the share by which the slowest of some set-ups differs from the fastest: without so many at either end, and
// of all.
func (a asking) spread(n, cut int, at func(q question, n int) profiler.Setup, of func(profiler.Result) float64) (least, most float64) {
	var all []float64
	for i := range n {
		all = append(all, a.median(a.code, at(question{setup: a.setup}, i), of))
	}
	if slices.Sort(all); n == 0 {
		return 0, math.Inf(1)
	}
	return all[n-1-cut]/all[cut] - 1, all[n-1]/all[0] - 1
}

// wrong says what is wrong with an outcome where the cause costs at least and at most so much.
func (a asking) wrong(f experiment.Finding, least, most float64) string {
	a.t.Logf("%s costs %.1f to %.1f %%: %s", f.Hypothesis, 100*least, 100*most, f.Outcome)
	named := f.Outcome == stat.Confirmed
	switch {
	case named && most > mayNotName, !named && (least < mustName || f.Outcome == experiment.Untested):
		return ""
	case f.Outcome == stat.Unclear:
		require.Skip(a.t, require.Idle, "the core was too busy to tell whether %s costs anything", f.Hypothesis)
	}
	return fmt.Sprintf("it costs %.1f to %.1f %%, and %+v; ", 100*least, 100*most, f)
}

// start gives a profiler and the set-up that blocks have unless they say otherwise.
func start(t *testing.T) (*pooltest.Profiler, profiler.Setup) {
	t.Helper()
	require.Slow(t)
	p := pooltest.New(t, profiler.Options{Mode: profiler.Unroll, Detail: true, NoRescue: true, Precision: 0.01})
	return p, profiler.Setup{CodeOffset: new(0), Init: new(initial.Paper()), Frames: FramesEach, Tolerate: []verdict.Reason{
		verdict.Alias4K, verdict.AliasFrame, verdict.Misaligned, verdict.L1IMiss, verdict.Nonlinear, verdict.Unstable}}
}

// TestBuilt: of the cause that is built into a block, explain says what this core says.
func TestBuilt(t *testing.T) {
	p, usual := start(t)
	for _, b := range built {
		t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			a := asking{t, p.In(t), require.Hex(t, b.hex), usual}
			a.setup.Init = new(initial.Paper())
			if b.setup != nil {
				b.setup(&a.setup)
			}
			ask := asks[b.cause]
			if b.partner != "" || b.without != nil {
				ask = func(a asking) (least, most float64) {
					return a.without(require.Hex(t, cmp.Or(b.partner, b.hex)), b.without)
				}
			}
			require.AtMost(t, 1, 2, func() string {
				f := only(a, b.cause)
				tested := f.Effect != nil || f.Outcome == stat.Unclear || b.cause == "rename phase" // which no layout may show
				switch {
				case ask == nil && f.Outcome == experiment.Absent:
					return ""
				case ask == nil || !tested:
					return fmt.Sprintf("%+v", f)
				}
				least, most := ask(a)
				return a.wrong(f, least, most)
			})
		})
	}
}

// TestNothingBuilt: of a block into which no cause is built, explain names what any block may have, where this core
// feels that, and nothing else.
func TestNothingBuilt(t *testing.T) {
	p, usual := start(t)
	computed(&usual)
	usual.Frames = 1
	for name, hex := range map[string]string{
		"a store and its load": "48890b 488b0b", // mov [rbx], rcx; mov rcx, [rbx]
		"sums of subnormals":   "f20f580b",      // addsd xmm1, [rbx]: subnormals at no cost
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			a := asking{t, p.In(t), require.Hex(t, hex), usual}
			require.AtMost(t, 1, 2, func() (wrong string) {
				for _, f := range findings(a) {
					if ask := asks[f.Hypothesis]; ask != nil {
						least, most := ask(a)
						wrong += a.wrong(f, least, most)
					} else if f.Outcome == stat.Confirmed && f.Hypothesis != "operand values" { // which cost what they do
						wrong += fmt.Sprintf("%+v is named; ", f)
					}
				}
				return wrong
			})
		})
	}
}

func findings(a asking) (found []experiment.Finding) {
	a.t.Helper()
	a.undisturbed(func(ctx context.Context) (profiler.Result, error) {
		e, err := Explain(ctx, a.p, a.code, a.setup, plan(0))
		found = e.Findings
		return e.Base, err
	})
	return found
}

// only is what explain finds of one hypothesis.
func only(a asking, cause string) experiment.Finding {
	a.t.Helper()
	all := hypotheses
	defer func() { hypotheses = all }()
	for i, h := range all {
		if h.name == cause {
			hypotheses = all[i : i+1]
		}
	}
	return findings(a)[0]
}
