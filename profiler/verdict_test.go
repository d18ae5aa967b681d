package profiler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// verdict takes a block in the paper's state through all steps before timing.
func (b bench) verdict(code []byte, frames int) (*mapping.MappedBlock, verdict.Reason) {
	b.t.Helper()
	require.NoError(b.t, b.ready())
	b.opts.Frames = frames
	all := b.states
	defer func() { b.states = all }()
	b.states = all[:1]
	m, err := b.prepareBlock(Block{Code: code})
	return m, rejectionOf(b.t, err).Reason
}

// TestTraceVerdicts: blocks that just break a rule and that just do not, on one frame and on as many as they need.
func TestTraceVerdicts(t *testing.T) {
	b := openBench(t)
	for _, row := range require.Table(t, "verdicts.txt") {
		b.cpu.Core = invariants.Core{L1DWays: 8, StoreBuffer: 56, WayPredicted: row[2] == "predicted"}
		frames := map[string]int{"one": 1, "auto": AutoFrames}[row[1]]
		if r, got := b.verdict(require.Hex(t, row[0]), frames); string(got) != row[3] {
			t.Errorf("%v: %q; %d pages", row, got, len(r.Pages))
		}
	}
}

// TestFullSet: eight pages with a line each in one set, which bbprof's clock readings use too.
func TestFullSet(t *testing.T) {
	b := openBench(t)
	code := require.Hex(t, "488d9800feffff 488b0b 488b8b00100000 488b8b00200000 488b8b00300000 488b8b00400000 488b8b00500000 488b8b00600000 488b8b00700000")
	b.cpu.Core = invariants.Core{L1DWays: 1 << 10, StoreBuffer: 56}
	r, _ := b.verdict(code, layout.MaxFrames)
	own := b.ownLines(r)[(initial.Paper().GPR[asm.RAX]-0x200)%layout.PageSize/64]
	if own == 0 {
		t.Fatal("none of bbprof's lines is in the set")
	}
	for _, c := range []struct {
		ways, frames int
		want         verdict.Reason
	}{{8 + own, 8, ""}, {7 + own, 8, verdict.L1DMiss}, {4 + own, 4, ""}, {3 + own, 4, verdict.L1DMiss}} {
		b.cpu.Core.L1DWays = c.ways
		if _, got := b.verdict(code, c.frames); got != c.want {
			t.Errorf("%d ways, %d of them ours, %d frames: %q, want %q", c.ways, own, c.frames, got, c.want)
		}
	}
}

// TestWarnings: if popf may set the direction, single steps replace the log, and the result reports this and what they cannot see. It also
// reports a block that moves on with each copy.
func TestWarnings(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		text, hex string
		warnings  []string // how each begins
		accesses  int      // a copy
	}{
		{"pushf; popf; lodsb", "9c 9d ac", []string{"traced by single steps"}, 3},
		{"pushf; popf; lodsb; vpgatherdd xmm0, [rbx+xmm1*4], xmm2", "9c 9d ac c4e26990048b",
			[]string{"traced by single steps", "the trace lacks what vpgatherdd"}, 3},
		{"lodsb", "ac", nil, 1},
		{"mov rax, [rbx]; add rbx, 32", "488b03 4883c320", []string{"it touches new pages"}, 1},
	} {
		r, reason := b.verdict(require.Hex(t, c.hex), AutoFrames)
		if reason != "" || len(r.Trace.Accesses) != c.accesses*r.Trace.Copies || !slices.EqualFunc(r.Warnings(), c.warnings, strings.HasPrefix) {
			t.Errorf("%s: %q, %d accesses in %d copies, %q", c.text, reason, len(r.Trace.Accesses), r.Trace.Copies, r.Warnings())
		}
	}
}

// TestTolerate: only a tolerated reason of the trace is a warning, and a broken rule is no evidence.
func TestTolerate(t *testing.T) {
	b := openBench(t)
	code := require.Hex(t, "48890b488b8b00100000") // mov [rbx], rcx; mov rcx, [rbx+0x1000]
	b.opts.Tolerate = []verdict.Reason{verdict.AliasFrame}
	r, one := b.verdict(code, 1)
	_, two := b.verdict(code, 2)
	if text := fmt.Sprint(r.Warnings()); one != "" || two != verdict.Alias4K || strings.Count(text, "alias_frame") != 1 ||
		slices.ContainsFunc(r.Evidence, func(e invariants.Evidence) bool { return e.Invariant == verdict.AliasFrame }) {
		t.Errorf("on one frame %q, on two %q; warnings %s, %+v", one, two, text, r.Evidence)
	}
}

// TestAsWritten: a rejection names the instruction with the displacement that the user wrote, and does not blame the CPU for an extension
// that the operating system did not enable.
func TestAsWritten(t *testing.T) {
	r := &verdict.Rejection{Inst: &verdict.Inst{Index: 0, Text: "movdqa xmm0, xmmword ptr [rip+0x8]"}}
	reportAsWritten(r, Block{Code: require.Hex(t, "660f6f05 01000000")}, asm.Features{}) // movdqa xmm0, [rip+1]
	require.Equal(t, "it", "movdqa xmm0, xmmword ptr [rip+0x1]", r.Inst.Text)
	const cpu = "this CPU does not run the instruction"
	avx, avx512 := asm.Features{AVX: true}, asm.Features{AVX512: true}
	for _, c := range []struct {
		hex      string
		reason   verdict.Reason
		disabled asm.Features
		want     string
	}{
		{"c5fc5807", verdict.SIGILL, avx, "does not enable AVX, which this CPU has"},
		{"c5fc5807", verdict.SIGILL, avx512, cpu},
		{"c5fc5807", verdict.SIGSEGV, avx, cpu},
		{"62f17c485807", verdict.SIGILL, avx512, "does not enable AVX-512"},
		{"c5f845c0", verdict.SIGILL, avx512, cpu},                       // not an instruction that exists: left alone
		{"c5f890c0", verdict.SIGILL, avx512, "does not enable AVX-512"}, // kmovw k0, k0
		{"0f5807", verdict.SIGILL, asm.Features{AVX: true, AVX512: true}, cpu},
		{"c4e2f8f2c0", verdict.SIGILL, avx, cpu}, // andn, whose prefix is AVX's and whose registers are not
	} {
		r := &verdict.Rejection{Reason: c.reason, Detail: cpu, Inst: &verdict.Inst{}}
		if reportAsWritten(r, Block{Code: require.Hex(t, c.hex)}, c.disabled); !strings.Contains(r.Detail, c.want) {
			t.Errorf("%s, %s with %+v disabled: %q, want %q", c.hex, c.reason, c.disabled, r.Detail, c.want)
		}
	}
}

// A block is tried again after noise, but not because of its speeds, which every try has.
func TestNoisy(t *testing.T) {
	for reason, want := range map[verdict.Reason][]bool{verdict.Unstable: {true, true, false}, verdict.Nonlinear: {false, false, false}} {
		for speeds, want := range want {
			r := Result{Rejection: &verdict.Rejection{Reason: reason}, Speeds: make([]Speed, speeds)}
			require.Equal(t, fmt.Sprintf("%s with %d speeds: noisy", reason, speeds), want, r.Noisy())
		}
	}
}

// TestImpossible: the whole interval must lie below the core's limit.
func TestImpossible(t *testing.T) {
	for _, c := range []struct {
		name, hex    string
		width        int
		cycles, half float64
		want         Impossible
		says         string
	}{
		{"two nops at six a cycle", "9090", 6, 0.32, 0.0084, "", ""},
		{"and a little less", "9090", 6, 0.32, 0.0082, BelowDispatch, "fewer than the 0.333 that 2 instructions and fused pairs need on a core that renames 6 a cycle"},
		{"on a core of eight", "9090", 8, 0.32, 0.01, "", ""},
		{"on one that is not known", "9090", 0, 0.1, 0.01, "", ""},
		{"a pair is one operation", "90904839d87505", 6, 0.5, 0.001, "", ""},
		{"but not apart", "909048ffc089d97505", 6, 0.5, 0.001, BelowDispatch, "5 instructions"},
		{"two branches a cycle", "4839d87505", 6, 0.45, 0.01, BelowBranches, "1 branch needs on a core that executes 2 a cycle"},
		{"three loads a cycle", "488b03488b4b08", 6, 0.624, 0.002, BelowMemory, "2 loads need on a core that executes 3 a cycle"},
		{"stores", "488903", 6, 0.47, 0.002, BelowMemory, "1 stores"},
		{"a chain on one that is not known", "4801c0", 0, 0.001, 0.0005, BelowLatency, "the 1 that a chain"},
		{"an imul", "480fafc0", 6, 2.94, 0.016, "", ""},
		{"one that is too fast", "480fafc0", 6, 2.94, 0.014, BelowLatency, "fewer than the 3 that a chain through registers takes"},
		{"both: the higher limit is not the first", "4801c0", 6, 0.1, 0.01, BelowDispatch, "0.167"},
	} {
		insts := require.Get(asm.Decode(require.Hex(t, c.hex)))(t)
		s := &session{}
		s.cpu.DispatchWidth = c.width
		if c.width > 0 {
			s.cpu.LoadsPerCycle, s.cpu.StoresPerCycle, s.cpu.BranchesPerCycle = 3, 2, 2
		}
		m := &mapping.MappedBlock{ImageBuilder: mapping.ImageBuilder{Program: mapping.Program{Insts: insts}}}
		timed := timing.Timed{Estimate: stat.Estimate{Value: c.cycles, Half: c.half}}
		got, why := s.impossible(m, timed)
		if got != c.want || (why == nil) != (got == "") || why != nil && (why.Reason != verdict.Unstable || !strings.Contains(why.Detail, c.says)) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, why, c.want)
		}
	}
	// One layout far below the limit: an image of it was in another state.
	s := &session{}
	s.cpu.BranchesPerCycle = 2
	loop := unroll.OwnLoop(1, unroll.Exit{}, unroll.Factors{Short: 2, Long: 4})
	m := &mapping.MappedBlock{ImageBuilder: mapping.ImageBuilder{Program: mapping.Program{Insts: require.Get(asm.Decode(require.Hex(t, "49ffcf75fb")))(t), Loop: &loop}}}
	for cycles, want := range map[float64]Impossible{0.017: BelowBranches, 0.522: BelowBranches, 0.95: "", 1: ""} {
		timed := timing.Timed{Estimate: stat.Estimate{Value: 1, Half: 0.02}, Design: stat.Design{Cells: []stat.Cell{{Mean: 1.1}, {Number: 7, Mean: cycles}}}}
		if got, why := s.impossible(m, timed); got != want {
			t.Errorf("a layout of %g cycles of a loop of one: %q, %v", cycles, got, why)
		}
	}
}

// TestEmulated: an emulated machine measures nothing, whatever else it could do.
func TestEmulated(t *testing.T) {
	tcg := func(leaf, _ uint32) (eax, ebx, ecx, edx uint32) { // QEMU without KVM
		if leaf == 0x4000_0000 {
			return 0x4000_0001, 0x54474354, 0x43544743, 0x47435447
		}
		return 0, 0, 0, 0
	}
	_, err := newProfiler(t.Context(), Options{}, simulated.Machine{CPUID: tcg})
	if lacks, ok := errors.AsType[*verdict.HostError](err); !ok || lacks.Busy || !strings.Contains(lacks.Missing, "emulated") {
		t.Error(err)
	}
}

// TestReachesZero: an interval or a speed that reaches 0 is a rejection on any core, because the shorter image was slow by itself.
// `8323ef5b` was accepted with -2.065 cycles in 7 of 24 layouts, and -0.019 in the mean.
func TestReachesZero(t *testing.T) {
	for _, c := range []struct {
		cycles, half, slowest float64
		rejected              bool
	}{
		{0.01, 0.01, 0.01, true}, {0.01, 0.0099, 0.01, false}, {-0.1, 0.01, 0.001, true}, {0.083, 0.01, 0.083, false},
		{1, 0, -2.065, true}, {1, 0, 0, true}, {1, 0, 0.001, false},
	} {
		timed := timing.Timed{Estimate: stat.Estimate{Value: c.cycles, Half: c.half}}
		r := job{}.unstable(timed, []Speed{{Cycles: c.slowest, Layouts: []int{1, 6}}, {Cycles: 1.017, Layouts: []int{0, 2}}})
		if (r != nil) != c.rejected || r != nil && r.Reason != verdict.Unstable {
			t.Errorf("%+v: %v", c, r)
		}
	}
}

// TestStrictRemedy: only a rejection by Strict advises against that.
func TestStrictRemedy(t *testing.T) {
	speeds := []Speed{{Cycles: 1, Layouts: []int{1, 6}}, {Cycles: 2, Layouts: []int{0, 2}}}
	strict := job{Options: Options{Strict: true}}
	if r := strict.unstable(timing.Timed{Estimate: stat.Estimate{Value: 1.5, Half: 0.01}}, speeds); r == nil || !strings.Contains(r.Remedy, "without -strict") {
		t.Errorf("several modes: %+v", r)
	}
	if r := strict.unstable(timing.Timed{Estimate: stat.Estimate{Value: 1.5, Half: 1}}, speeds); r == nil || r.Remedy != "" {
		t.Errorf("a wide interval: %+v", r)
	}
}

// TestWhyOnce: JSON omits a counter's why only if it equals that of the counter before.
func TestWhyOnce(t *testing.T) {
	var r Result
	for _, why := range []string{"none", "none", "none", "doubled", "doubled", "", "none"} {
		r.Counters = append(r.Counters, CounterReport{Why: why})
	}
	text := require.Get(json.Marshal(r))(t)
	var parsed struct{ Counters []CounterReport }
	require.NoError(t, json.Unmarshal(text, &parsed))
	for i, want := range []string{"none", "", "", "doubled", "", "", "none"} {
		require.Equal(t, i, want, parsed.Counters[i].Why)
	}
	require.Equal(t, "the result itself", "none", r.Counters[1].Why)
}
