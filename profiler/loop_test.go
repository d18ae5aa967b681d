package profiler

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// both measures a block in a loop and in a row until the intervals show that neither was disturbed.
func both(t *testing.T, p *Profiler, block []byte) Result {
	t.Helper()
	for range 10 {
		r := measuredBy(t, p, block)
		loop := stat.Estimate{Value: r.Cycles, Half: (r.CIHigh - r.CILow) / 2}
		copies := stat.Estimate{Value: r.RowCycles, Half: (r.RowCIHigh - r.RowCILow) / 2}
		if r.RowCycles > 0 && timing.Steady(copies) && timing.Steady(loop) {
			return r
		}
	}
	require.Skip(t, require.Idle, "the core is not left alone for long enough to measure a loop")
	return Result{}
}

// TestDecoders: from the decoders a block takes what it takes in a row that the op cache cannot hold, which no flag
// has any part in; a block bound by latency takes the same as in a loop.
func TestDecoders(t *testing.T) {
	require.Slow(t)
	decoded := start(t, Options{Mode: Both, FrontEnd: Decode})
	const most = 24 << 10 // bytes, of 32 KB of L1I; an instruction a three bytes, they are more than any op cache holds
	for name, code := range map[string]string{
		"short instructions": "488d4c24084889c24889c64889c74889c04889c231db90",
		"wide moves":         "488bd0488bf0488bf84c8bc0",
		"a chain":            "480fafc0",
	} {
		copies := 2 * most / len(code)
		row := start(t, Options{Unroll: &unroll.Factors{Short: copies * 3 / 4, Long: copies}, Tolerate: []verdict.Reason{verdict.L1IMiss, verdict.Nonlinear}})
		lasting(t, func() string {
			r, long := both(t, decoded, require.Hex(t, code)), measuredBy(t, row, require.Hex(t, code))
			felt := max(long.Cycles/r.Cycles, 1) - 1 // that the op cache does not serve the row
			if got := r.RowCycles/r.Cycles - 1; r.FrontEnd != Decode || got < 0.5*felt-0.03 {
				return fmt.Sprintf("%s: front end %s, decoders %.4f, loop %.4f, a row of %d copies %.4f cycles", name, r.FrontEnd, r.RowCycles, r.Cycles, copies, long.Cycles)
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
		walks     bool // and so has as few turns as copies were checked, not CountedTurns
		counter   string
		pages     int // at least, of a walk
		within    float64
	}{
		{"adds", "4801c04801c94801d24801f64801ff4d01c04d01c94d01d2", false, "r15", 0, 0.05},
		{"loads", "488b0b488b5308", false, "r15", 1, 0.05},
		// vzeroall and ldmxcsr are restored before each run, and once kept these copies in the
		// decoders: 1.44 cycles against 1.01.
		{"a load, a moved scalar, a product", "8b8424bc010000c5fb108c24f8010000c5f359d883f803", false, "r15", 1, 0.05},
		{"a chain", "4801c0", false, "r15", 0, 0.02},
		{"push walks down", "50", true, "r15", 2, 0.03},
		{"a walk in steps of 32 bytes", "4883c320488903", true, "r15", 2, 0.03},
		{"all registers in use", "4889c14889ca4889d34889dd4889ee4889f74d89c14d89ca4d89d34d89dc4d89e54d89ee4d89f7", false, "memory", 0, 0.05},
		{"and rdi's, stored", "48893b4889c14889ca4889ee4d89c14d89ca4d89d34d89dc4d89e54d89ee4d89f7", false, "memory", 1, 0.05},
	} {
		if strings.Contains(c.hex, "c5fb") && !host.Detect().Features.AVX {
			t.Logf("%s: not on this CPU", c.name)
			continue
		}
		var r Result
		lasting(t, func() string {
			r = both(t, p, require.Hex(t, c.hex))
			if r.Cycles > r.RowCycles+math.Max(c.within*r.Cycles, 0.03) { // a row may run from the decoders
				return fmt.Sprintf("%s: unrolled %.4f, loop %.4f cycles: want the loop no slower, within %g or 0.03", c.name, r.RowCycles, r.Cycles, c.within)
			}
			return ""
		})
		few := r.Loop.IterationsShort != unroll.CountedTurns
		if few != c.walks || r.Loop.Counter != c.counter || r.Pages != c.pages && !(c.walks && r.Pages > c.pages) {
			t.Errorf("%s: %d pages, the loop is %+v; want %d, few turns: %v, counted in %s", c.name, r.Pages, *r.Loop, c.pages, c.walks, c.counter)
		}
	}
}

// TestSlowLoop: a loop of which one run is a sample, and that other work never left alone, is tried again with fewer iterations.
func TestSlowLoop(t *testing.T) {
	disturbed := &verdict.Rejection{Reason: verdict.ContextSwitch}
	for _, c := range []struct {
		err  error
		runs int
		want bool
	}{
		{disturbed, 1, true}, {disturbed, 12, false}, {disturbed, 0, false}, {nil, 1, false},
		{&verdict.Rejection{Reason: verdict.Unstable}, 1, false}, {&verdict.Rejection{Reason: verdict.Nonlinear}, 1, false},
	} {
		require.Equal(t, fmt.Sprintf("%v in samples of %d runs", c.err, c.runs), c.want, tooLong(c.err, measurement{timed: timing.Timed{Spent: timing.Spent{RunsPerSample: c.runs}}}))
	}
	r := require.Get(start(t, Options{Mode: Loop, Budget: 400 * time.Millisecond}).Profile(t.Context(), Block{Code: require.Hex(t, "d9fe")}))(t) // fsin
	if r.Rejection != nil && r.Rejection.Reason.Noise() && r.Rejection.Reason != verdict.Unstable && r.Loop.IterationsShort == unroll.CountedTurns {
		t.Errorf("%v: the loop still has %d turns", r.Rejection, unroll.CountedTurns)
	}
}

// Mode loop reports the same loop as mode both, and runs the block as often as -unroll sets.
func TestModeLoop(t *testing.T) {
	want := unroll.Factors{Short: 512, Long: 1024}
	p := start(t, Options{Mode: Loop, Unroll: &want})
	var r Result
	lastingly(t, "imul", 0.02, func() (got, want float64) {
		r = measuredBy(t, p, require.Hex(t, "480fafc0"))
		return r.Cycles, 3
	})
	if r.RowCycles != 0 || r.Mode != Loop || r.FrontEnd != OpCache || r.UnrollLong != r.Loop.CopiesLong*r.Loop.IterationsLong {
		t.Errorf("mode %s, front end %s: %+v", r.Mode, r.FrontEnd, r)
	}
	require.Equal(t, "iterations", want, unroll.Factors{Short: r.UnrollShort, Long: r.UnrollLong})
	require.Equal(t, "turns", r.Loop.IterationsShort, r.Loop.IterationsLong)
}

// TestBranchTaken checks the cycles of loops that their own branch closes, which hold for any core, and the exit that ends them.
func TestBranchTaken(t *testing.T) {
	p := start(t, Options{})
	for _, row := range require.Table(t, "loops.txt") {
		code, counter, name := require.Hex(t, row[0]), row[2], row[3]
		cycles, err := strconv.ParseFloat(row[1], 64)
		lasting(t, func() string {
			var r Result
			if err != nil {
				r = require.Get(p.Profile(require.Context(t), Block{Code: code}))(t)
			} else {
				r = measuredBy(t, p, code)
			}
			if r.Branch.As != Taken || r.Mode != Loop || r.Loop.Counter != counter {
				t.Errorf("%s: %+v counted in %s, mode %s; want a loop counted in %s", name, r.Branch, r.Loop.Counter, r.Mode, counter)
			}
			if err == nil && (r.CILow > 1.02*cycles || r.CIHigh < 0.98*cycles) {
				return fmt.Sprintf("%s: %.4f cycles, %.4f to %.4f, want %g", name, r.Cycles, r.CILow, r.CIHigh, cycles)
			}
			return ""
		})
	}
}

// TestBranchBoth: after copies in a row were timed, the loop is observed on the frames that it started from: the first stores to where it loads.
// The other stands where it stands in its program: on Zen 4 it takes 1 or 2 cycles there.
func TestBranchBoth(t *testing.T) {
	alone, p := start(t, Options{}), start(t, Options{Mode: Both})
	// So few iterations may have no one time (Golden Cove).
	r := require.Get(p.Profile(require.Context(t), Block{Code: require.Hex(t, "0fb60e4883c601c6040a0184c975f1")}))(t)
	if r.Branch.As != Taken || r.Reason == verdict.LoopExit {
		t.Errorf("%+v: %v", r.Branch, r.Rejection)
	}
	for _, at := range []uint64{0x1200, 0x1234} {
		lastingly(t, fmt.Sprintf("at %#x, alone and in mode both", at), 0.1, func() (got, want float64) {
			b := Block{Code: require.Hex(t, "4489c229c24883c0018850ff4839c875ef"), Setup: Setup{Address: &at}}
			one, both := require.Get(alone.Profile(t.Context(), b))(t), require.Get(p.Profile(t.Context(), b))(t)
			if one.Cycles == 0 || both.Cycles == 0 { // rejected for noise
				return 0, 0
			}
			return both.Cycles, one.Cycles
		})
	}
}

// TestCapturedLoops: what ends a loop in a program's state. A loop may also start nearer to where that state ends it.
func TestCapturedLoops(t *testing.T) {
	p := start(t, Options{})
	for _, c := range []struct {
		name, hex string
		at        uint64 // in rbx
		counter   string // "": rejected
	}{
		{"to a zero byte", "48ffc3803b0075f8", heapPage + 0x80, "rbx"},
		{"a counter in memory", "480fafc8ff0b75f8", heapPage + 0x80, "[0x555555768080]"},
		{"to a zero byte, near the start of what was captured", "48ffc3803b0075f8", heapPage + 0xff0, ""},
	} {
		state := &initial.Captured{Address: pieCode, Pages: []initial.Page{{Address: heapPage, Writable: true}, {Address: heapPage + 4096, Writable: true}}}
		for i := range 4096 {
			state.Pages[0].Data[i], state.Pages[1].Data[i] = 1, 1
		}
		state.Pages[0].Data[0xff8] = 0
		state.MXCSR, state.GPR[asm.RBX], state.GPR[asm.RCX] = initial.DefaultMXCSR, c.at, 3
		if c.counter == "" {
			clear(state.Pages[0].Data[:0xff0]) // a loop from there ends at once
		}
		r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, c.hex), Setup: Setup{Captured: state}}))(t)
		near := r.Reason == verdict.LoopExit && strings.Contains(r.Rejection.Detail, "ends after 8 iterations")
		if counted := r.Loop != nil && r.Loop.Counter == c.counter; !counted && !near && !r.Reason.Noise() || near != (c.counter == "") {
			t.Errorf("%s: %v, loop %+v; want one counted in %q", c.name, r.Rejection, r.Loop, c.counter)
		}
	}
}

// TestBranchNotTaken: copies in a row have their branches, inverted if the state takes them.
func TestBranchNotTaken(t *testing.T) {
	p := start(t, Options{Branch: NotTaken})
	for _, c := range []struct {
		name, hex string
		inverted  []int
	}{
		{"falls through", "4839d87505", nil},
		{"inverted", "4839d87405", []int{0}},
		{"from the third copy on", "48ffc04883c302488d4b024839d87505", []int{0}},
		{"by turns", "4883f001a8017405", []int{1, 2, 3}},
		{"jrcxz", "4801d8e305", nil},
	} {
		r := measuredBy(t, p, require.Hex(t, c.hex))
		if got := r.Branch.Inverted; len(got) < len(c.inverted) || len(c.inverted) == 0 && len(got) > 0 || !slices.Equal(got[:len(c.inverted)], c.inverted) {
			t.Errorf("%s: inverted at %v, want %v", c.name, got, c.inverted)
		}
	}
}

// TestBranchRejected: loops that no state ends, and blocks that work neither way.
func TestBranchRejected(t *testing.T) {
	p := start(t, Options{})
	for _, row := range require.Table(t, "branches.txt") {
		r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, row[0]), Setup: Setup{Branch: Branch(row[1])}}))(t)
		require.Equal(t, row[3], row[2], string(r.Reason))
	}
}

// TestBranchUnroll: a loop runs the block as often as the user says. With two copies the detail names their number as the cause.
func TestBranchUnroll(t *testing.T) {
	p := start(t, Options{})
	for _, c := range []struct {
		short, long, copies int
		says                string
	}{
		{8, 16, 1, ""}, {8, 16, 4, ""}, {1, 3, 1, ""}, {1, 2, 1, "fewer than 3 copies"},
		{6, 16, 4, "positive multiples of 4"}, {0, 16, 1, "at least once"},
	} {
		want := unroll.Factors{Short: c.short, Long: c.long}
		r := require.Get(p.Profile(t.Context(), Block{require.Hex(t, "480fafc348ffc975f7"), Setup{Unroll: &want, Copies: c.copies}}))(t)
		if c.says != "" {
			if r.Reason != verdict.LoopExit || !strings.Contains(r.Rejection.Detail, c.says) {
				t.Errorf("%+v: %s %+v", c, r.Status, r.Rejection)
			}
		} else if ran := (unroll.Factors{Short: r.UnrollShort, Long: r.UnrollLong}); !r.Reason.Noise() && (ran != want || r.Loop.IterationsLong*c.copies != c.long) {
			t.Errorf("%+v: %v by %+v, %v", c, ran, r.Loop, r.Rejection)
		}
	}
}

// TestBranchCopies measures the block without its branch, and several bodies before one.
func TestBranchCopies(t *testing.T) {
	for name, opts := range map[string]Options{"dropped": {Branch: Drop}, "four": {Copies: 4}} {
		var r Result
		p := start(t, opts)
		lastingly(t, name, 0.02, func() (got, want float64) {
			r = measuredBy(t, p, require.Hex(t, "480fafc348ffc975f7"))
			return r.Cycles, 3
		})
		if name == "four" && r.Loop.CopiesLong != 4 || name == "dropped" && (r.Instructions != 2 || r.Branch.As != Drop) {
			t.Errorf("%s: %d instructions, %+v; %+v", name, r.Instructions, r.Branch, r.Loop)
		}
	}
}

// TestHostileBranches: random instructions and a random branch. None escapes, and bbprof never fails.
func TestHostileBranches(t *testing.T) {
	p := start(t, Options{Budget: 200 * time.Millisecond, Precision: 0.2})
	rng := rand.New(rand.NewPCG(41, 1))
	outcomes := map[verdict.Reason]int{}
	for i := range hostile.Scaled(60, 1000) {
		b := Block{Code: randomBranch(rng)}
		if i%2 > 0 {
			b.Setup.Captured = somewhere(rng, pieCode, heapPage, heapPage+4096, stackPage)
			for _, r := range []asm.Reg{asm.RAX, asm.RBX, asm.RDI, asm.RSP} {
				b.Setup.Captured.GPR[r] = heapPage + rng.Uint64()%8192
			}
		}
		r := require.Get(p.Profile(t.Context(), b))(t)
		if r.Status == Failed {
			t.Errorf("%x: %s", b.Code, r.Failure)
		}
		outcomes[r.Reason]++
	}
	t.Log(outcomes)
}

// randomBranch returns a block of random instructions and a branch.
func randomBranch(rng *rand.Rand) (code []byte) {
	parts := []string{"48ffc8", "ffc9", "4839d8", "4883c008", "488b03", "488903", "48890c13", "48f7d8", "480fb6c0", "d1e8",
		"4885c0", "83f964", "ff0b", "833b00", "4831c0", "9d", "50", "5b", "48c1e103", "488b00", "f3aa", "0f94c0", "f7f1"}
	for range 1 + rng.IntN(6) {
		part, _ := hex.DecodeString(parts[rng.IntN(len(parts))])
		code = append(code, part...)
	}
	opcode := []byte{0xe2, 0xe0, 0xe1, 0xe3, 0xeb}[rng.IntN(5)]
	if rng.IntN(4) > 0 {
		opcode = 0x70 | byte(rng.IntN(16))
	}
	disp := byte(-(len(code) + 2))
	if rng.IntN(4) == 0 {
		disp = byte(rng.IntN(256))
	}
	return append(code, opcode, disp)
}

// TestFusedBranch: beside four moves cmp and jne take one slot where they are neighbours, and two where a move stands
// between them, on any core on which six moves take six fifths of what five take.
func TestFusedBranch(t *testing.T) {
	p := start(t, Options{})
	five, six := measuredBy(t, p, require.Hex(t, "4889c14889c24889c64889c74989c0")), measuredBy(t, p, require.Hex(t, "4889c14889c24889c64889c74989c04989c1"))
	if ratio := six.Cycles / five.Cycles; math.Abs(ratio-1.2) > 0.03 {
		require.Skip(t, require.CPU, "slots are not what limits moves here: five take %.3f and six %.3f cycles", five.Cycles, six.Cycles)
	}
	lastingly(t, "five slots beside six", 0.1, // without fusion both take six
		func() (got, want float64) {
			fused := measuredBy(t, p, require.Hex(t, "4889c14889c24889c64889c74839d87505"))
			split := measuredBy(t, p, require.Hex(t, "4889c14889c24889c64839d84889c77505"))
			return fused.Cycles, split.Cycles * 5 / 6
		})
}

// TestOneImage: the longer image alone, by Equation 1 of the paper, has what runs around its copies in its cycles.
func TestOneImage(t *testing.T) {
	p, alone := start(t, Options{}), start(t, Options{Mode: Unroll, Unroll: &unroll.Factors{Long: 100}})
	if r := require.Get(alone.Profile(t.Context(), Block{Code: require.Hex(t, "480fafc0")}))(t); r.Rejection != nil && strings.Contains(r.Rejection.Detail, "NaN") {
		t.Fatal(r.Rejection)
	}
	lasting(t, func() string {
		chain, one := measuredBy(t, p, require.Hex(t, "480fafc0")).Cycles, measuredBy(t, alone, require.Hex(t, "480fafc0")).Cycles
		if !(one > chain && one < 2*chain) {
			return fmt.Sprintf("%.3f cycles, and by two images %.3f", one, chain)
		}
		return ""
	})
}
