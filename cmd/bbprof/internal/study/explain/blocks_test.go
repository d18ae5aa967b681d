package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// built lists blocks with a cause that is built in, in a naive set-up unless given. Whether it costs anything is the
// core's affair, and so is which other cause there is: the test asks.
var built = []struct {
	name  string
	hex   string
	setup func(*profiler.Setup)
	cause string
	// without takes the cause away and leaves all else; nil: one of asks does.
	without func(*profiler.Setup)
}{
	// mov [rbx], rcx; mov rdx, [rdi]; and rdx, 0; add rdi, rdx: the load's latency is critical
	{"a load after a store with equal low 12 bits", "48890b 488b17 4883e200 4801d7",
		func(s *profiler.Setup) { s.Frames, s.Init.GPR[asm.RDI] = 16, s.Init.GPR[asm.RDI]+0x1000 },
		"4K aliasing", func(s *profiler.Setup) { s.Init.GPR[asm.RDI] += 3 * 64 }},
	// mov rax, [rbx]; mov rcx, [rbx+0x1000]: no store, so nothing aliases on two frames
	{"loads of one line through two pages", "488b03 488b8b00100000", nil, "frame sharing", nil},
	// movss xmm0, [rdi]; addss xmm0, xmm1; movss [rsi], xmm0
	{"a sum through equal pointers", "f30f1007 f30f58c1 f30f1106", nil, "equal addresses", func(s *profiler.Setup) { s.Init.GPR[asm.RSI] += 0x1040 }},
	// mov rax, [rbx+0x3d]; and rax, 0; add rbx, rax
	{"a load across lines", "488b433d 4883e000 4801c3", nil, "line splits", func(s *profiler.Setup) { s.Init.GPR[asm.RBX] += 32 }},
	// 64 bytes of nops of 10, 10, 12, 6, 6, 6, 7 and 7 bytes: how an op-cache entry meets a line
	{"long and short nops",
		strings.Repeat("66660f1f840000000000", 2) + "666666660f1f840000000000" + strings.Repeat("660f1f440000", 3) + strings.Repeat("0f1f8000000000", 2), nil,
		"code alignment", nil},
	// mulsd xmm1, [rbx]; addsd xmm1, [rbx]: memory holds a subnormal. 16 andpd xmm1, xmm1 follow because the two
	// alone also depend on alignment while they compute subnormals
	{"a chain of subnormals", "f20f590b f20f580b" + strings.Repeat("660f54c9", 16), nil, "subnormals", nil},
	// add rax, rcx; two nops: 16 bytes, one cycle of latency, 306 times. 300 copies are 1.4 MB
	{"more code than L2 holds", strings.Repeat("4801c8 6666660f1f840000000000 6690", 306),
		func(s *profiler.Setup) {
			s.Unroll, s.FrontEnd = &unroll.Factors{Short: 100, Long: 300}, profiler.Decode
		},
		"L1I residency", func(s *profiler.Setup) { s.Unroll = &unroll.Factors{Short: 1, Long: 3} }},
	// add ebx, 1; cmp eax, ebx: two slots per copy, so the parity of the slots before counts
	{"a sum and a comparison", "83c301 39d8", nil, "rename phase", nil},
	// add esi, 1; add rdx, r8; cmp esi, edi: three slots, so the slots before count modulo 3
	{"two sums and a comparison", "83c601 4c01c2 39fe", nil, "rename phase", nil},

	{"a chain of multiplications", "480fafc0", nil, "", nil},     // imul rax, rax
	{"a chain of loads", "488b1b", nil, "", nil},                 // mov rbx, [rbx]
	{"a chain through flags and a swap", "480fc8", nil, "", nil}, // bswap rax
	{"a store and its load", "48890b 488b0b", nil, "", nil},      // mov [rbx], rcx; mov rcx, [rbx]
	{"sums of subnormals", "f20f580b", nil, "", nil},             // addsd xmm1, [rbx]: subnormals at no cost
	{"a chain of vectors", "660ffec1", nil, "", nil},             // paddd xmm0, xmm1
}

// asks take a cause away that any block may have.
var asks = map[string]func(s *profiler.Setup){
	"frame sharing": func(s *profiler.Setup) { s.Frames = FramesEach },
	"subnormals": func(s *profiler.Setup) {
		s.NoFTZ, s.Init.MXCSR = false, initial.Paper().MXCSR
	},
}

// A core must feel a cause by mustName for explain to have to name it, and by less than mayNotName for it not to.
const (
	mustName   = 0.03
	mayNotName = 0.01
)

// asking measures what a cause costs on this core, by pairs of set-ups of its own.
type asking struct {
	t    *testing.T
	p    *profiler.Profiler
	code []byte
}

// median measures a set-up five times: beside a neighbour two may be disturbed.
func (a asking) median(s profiler.Setup, of func(profiler.Result) float64) float64 {
	var all []float64
	for range 5 {
		r, err := pool.Number(require.Context(a.t), a.p, profiler.Block{Code: a.code, Setup: s})
		require.Measure(a.t, err)
		all = append(all, of(r))
	}
	return stat.Median(all)
}

func cycles(r profiler.Result) float64 { return r.Cycles }

// without is the share by which the two set-ups differ.
func (a asking) without(s profiler.Setup, change func(*profiler.Setup)) float64 {
	other, init := s, *s.Init
	other.Init = &init
	change(&other)
	with, without := a.median(s, cycles), a.median(other, cycles)
	return math.Abs(with-without) / min(with, without)
}

// spread is the share by which the slowest of some set-ups differs from the fastest, without so many at either end.
func (a asking) spread(n, cut int, at func(n int) profiler.Setup, of func(profiler.Result) float64) float64 {
	var all []float64
	for i := range n {
		all = append(all, a.median(at(i), of))
	}
	slices.Sort(all)
	return all[n-1-cut]/all[cut] - 1
}

// costs returns what each cause that can be asked for costs.
func (a asking) costs(s profiler.Setup, cause string, without func(*profiler.Setup)) map[string]float64 {
	costs := map[string]float64{}
	if without != nil {
		costs[cause] = a.without(s, without)
	}
	if s.Unroll != nil { // too much code to ask for the rest
		return costs
	}
	for cause, change := range asks {
		costs[cause] = a.without(s, change)
	}
	q := question{setup: s}
	costs["code alignment"] = a.spread(16, 0, func(n int) profiler.Setup { return q.at(4*n, leastNops) }, cycles)
	if width := host.Detect().DispatchWidth; width > 0 {
		costs["rename phase"] = a.spread(width, 1, func(n int) profiler.Setup { return q.at(0, leastNops+n) }, firstPhase) // as explain looks at layouts: see differ
	}
	return costs
}

// TestBuiltBlocks: explain names each block's causes that this core feels, and no others.
func TestBuiltBlocks(t *testing.T) {
	require.Slow(t)
	require.Patience(t)
	p, err := profiler.New(t.Context(), profiler.Options{Mode: profiler.Unroll, Detail: true, NoRescue: true, Precision: 0.01, Budget: 10 * time.Second})
	require.Measure(t, err)
	t.Cleanup(p.Close)
	for _, b := range built {
		t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			init := initial.Paper()
			init.MXCSR = initial.DefaultMXCSR
			setup := profiler.Setup{CodeOffset: new(0), Init: &init, Frames: 1, NoFTZ: true, Tolerate: []verdict.Reason{
				verdict.Alias4K, verdict.AliasFrame, verdict.Misaligned, verdict.L1IMiss, verdict.Nonlinear, verdict.Unstable,
			}}
			if b.setup != nil {
				b.setup(&setup)
			}
			plan := plan(0)
			if setup.Unroll != nil {
				plan.Rounds = 5 // a megabyte of code is slow
			}
			require.AtMost(t, 1, 3, func() (wrong string) {
				costs := asking{t, p, require.Hex(t, b.hex)}.costs(setup, b.cause, b.without)
				found := findings(t, p, require.Hex(t, b.hex), setup, plan)
				named := experiment.Confirmed(found)
				for _, f := range found {
					switch cost, asked := costs[f.Hypothesis]; {
					case slices.Contains(named, f.Hypothesis) && asked && cost < mayNotName:
						wrong += fmt.Sprintf("%s is named and costs %.1f %%; ", f.Hypothesis, 100*cost)
					case f.Hypothesis == "operand values": // TestBuiltCode asks
					case slices.Contains(named, f.Hypothesis) && !asked && setup.Unroll == nil:
						wrong += fmt.Sprintf("%s is named; ", f.Hypothesis)
					case !slices.Contains(named, f.Hypothesis) && f.Outcome != experiment.Untested && cost > mustName:
						wrong += fmt.Sprintf("%s is not named and costs %.1f %%; ", f.Hypothesis, 100*cost)
					}
				}
				t.Logf("%q is named; costs: %.3v", named, costs)
				if wrong != "" && slices.ContainsFunc(found, func(f experiment.Finding) bool { return f.Outcome == stat.Unclear }) {
					require.Skip(t, require.Idle, "the core was too busy to tell: %s", wrong)
				}
				return wrong
			})
		})
	}
}

func findings(t *testing.T, p *profiler.Profiler, code []byte, setup profiler.Setup, plan experiment.Plan) []experiment.Finding {
	t.Helper()
	e, err := Explain(require.Context(t), p, code, setup, plan)
	require.Measure(t, err)
	if e.Base.Reason.Noise() {
		require.Skip(t, require.Idle, "the core was not left alone: %s", e.Base.Rejection.Detail)
	}
	if e.Base.Status != profiler.OK {
		t.Fatalf("%s: %v", e.Base.Status, e.Base.Rejection)
	}
	return e.Findings
}
