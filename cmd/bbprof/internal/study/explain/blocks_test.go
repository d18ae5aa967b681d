package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/expect"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// aliasWaits skips cores on which aliasing loads do not wait: see expect.Core.
func aliasWaits(c expect.Core) bool { return c.AliasWaits }

// built lists blocks with exactly one cause each, in a naive set-up unless given.
var built = []struct {
	name  string
	hex   string
	setup func(*profiler.Setup)
	cause string
	only  func(expect.Core) bool // cores on which it is a cause; nil: all
	// second is a weaker cause on some cores, see expect.Core.
	second string
}{
	// mov [rbx], rcx; mov rdx, [rdi]; and rdx, 0; add rdi, rdx: the load's latency is critical
	{"a load after a store with equal low 12 bits", "48890b 488b17 4883e200 4801d7",
		func(s *profiler.Setup) { s.Frames, s.Init.GPR[asm.RDI] = 16, s.Init.GPR[asm.RDI]+0x1000 }, "4K aliasing", aliasWaits, ""},
	// mov rax, [rbx]; mov rcx, [rbx+0x1000]: no store, so nothing aliases on two frames
	{"loads of one line through two pages", "488b03 488b8b00100000", nil,
		"frame sharing", func(expect.Core) bool { return host.Detect().Core.WayPredicted }, "rename phase"},
	// mov rax, [rbx+0x3d]; and rax, 0; add rbx, rax
	{"a load across lines", "488b433d 4883e000 4801c3", nil, "line splits", nil, ""},
	// 64 bytes of nops of 10, 10, 12, 6, 6, 6, 7 and 7 bytes: how an op-cache entry meets a line
	{"long and short nops",
		strings.Repeat("66660f1f840000000000", 2) + "666666660f1f840000000000" + strings.Repeat("660f1f440000", 3) + strings.Repeat("0f1f8000000000", 2), nil,
		"code alignment", func(c expect.Core) bool { return c.EntryLines }, ""},
	// mulsd xmm1, [rbx]; addsd xmm1, [rbx]: memory holds a subnormal. 16 andpd xmm1, xmm1 follow because the two
	// alone also depend on alignment while they compute subnormals
	{"a chain of subnormals", "f20f590b f20f580b" + strings.Repeat("660f54c9", 16), nil, "subnormals", aliasWaits, "code alignment"},
	// add rax, rcx; two nops: 16 bytes, one cycle of latency, 306 times. 300 copies are 1.4 MB
	{"more code than L2 holds", strings.Repeat("4801c8 6666660f1f840000000000 6690", 306),
		func(s *profiler.Setup) { s.Unroll = &unroll.Factors{Short: 100, Long: 300} },
		"L1I residency", func(c expect.Core) bool { return c.DecodersStarve }, ""},
	// add ebx, 1; cmp eax, ebx: two slots per copy, so the parity of the slots before counts
	{"a sum and a comparison", "83c301 39d8", nil, "rename phase", func(c expect.Core) bool { return c.PairedSlots }, ""},
	// add esi, 1; add rdx, r8; cmp esi, edi: three slots, so the slots before count modulo 3
	{"two sums and a comparison", "83c601 4c01c2 39fe", nil, "rename phase", func(c expect.Core) bool { return c.PairedSlots }, ""},

	{"a chain of multiplications", "480fafc0", nil, "", nil, ""},       // imul rax, rax
	{"a chain of loads", "488b1b", nil, "", nil, ""},                   // mov rbx, [rbx]
	{"a chain through flags and a swap", "480fc8", nil, "", nil, ""},   // bswap rax
	{"a store and its load", "48890b 488b0b", nil, "", aliasWaits, ""}, // mov [rbx], rcx; mov rcx, [rbx]
	{"sums of subnormals", "f20f580b", nil, "", nil, ""},               // addsd xmm1, [rbx]: subnormals at no cost
	{"a chain of vectors", "660ffec1", nil, "", nil, ""},               // paddd xmm0, xmm1
}

// TestBuiltBlocks: explain names each block's cause, and none where there is none.
func TestBuiltBlocks(t *testing.T) {
	require.Slow(t)
	require.Patience(t)
	p, err := profiler.New(t.Context(), profiler.Options{Detail: true, NoRescue: true, Precision: 0.01, Budget: 10 * time.Second})
	require.Measure(t, err)
	t.Cleanup(p.Close)
	here := expect.Here()
	for _, b := range built {
		t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			if b.only != nil && !b.only(here) {
				require.Skip(t, require.CPU, "%s: what it depends on is not known on %s", b.name, host.Detect().Microarchitecture)
			}
			init := initial.Paper()
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
			want := slices.DeleteFunc([]string{b.cause}, func(cause string) bool { return cause == "" })
			require.AtMost(t, 1, 3, func() string {
				found := findings(t, p, unhex(t, b.hex), setup, plan)
				got := experiment.Confirmed(found)
				if here.SecondCause && b.second != "" {
					got = slices.DeleteFunc(got, func(cause string) bool { return cause == b.second })
				}
				if slices.Equal(got, want) {
					return ""
				}
				if slices.ContainsFunc(found, func(f experiment.Finding) bool { return f.Outcome == stat.Unclear }) {
					require.Skip(t, require.Idle, "the core was too busy to tell: %q", got)
				}
				return fmt.Sprintf("%q, want %q: %+v", got, want, found)
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
