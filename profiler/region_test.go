package profiler

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// atHeader is a state at a loop's header, with two pages of heap.
func atHeader(header int) *initial.Captured {
	c := &initial.Captured{Address: pieCode + uint64(header), Header: &header,
		Pages: []initial.Page{{Address: heapPage, Writable: true}, {Address: heapPage + 4096, Writable: true}}}
	c.MXCSR = initial.DefaultMXCSR
	return c
}

// imulOrNot is 1: test bl, 1; jz 2f; imul rax, rax; 2: dec rcx; jnz 1b.
const imulOrNot = "f6c301" + "7404" + "480fafc0" + "48ffc9" + "75f2"

// TestRegion: a loop of several blocks runs as it stands, from where the program was: what a branch passes over takes no time.
func TestRegion(t *testing.T) {
	p := start(t, Options{})
	measure := func(bl uint64) Result {
		state := atHeader(0)
		state.GPR[asm.RBX], state.GPR[asm.RCX] = bl, 200
		r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, imulOrNot), Setup: Setup{Captured: state}}))(t)
		if r.Region == nil || r.Region.Iterations != 200 || len(r.Region.Branches) != 2 || r.Region.Branches[0].Taken != int(200*(1-bl)) ||
			r.Region.Branches[1] != (BranchedReport{12, "jne .-0xe", 199, 200}) {
			t.Errorf("bl %d: %+v, %v", bl, r.Region, r.Rejection)
		}
		return r
	}
	lastingly(t, "an imul or none", 0.35, func() (got, want float64) {
		with, without := measure(1), measure(0)
		if with.Cycles == 0 || without.Cycles == 0 { // rejected for noise
			return 0, 0
		}
		chain := measuredBy(t, p, require.Hex(t, "480fafc0")).Cycles
		if with.Cycles < 0.9*chain {
			t.Errorf("a chain of imuls takes %.3f cycles, and in a loop %.3f", chain, with.Cycles)
		}
		return with.Cycles - without.Cycles, chain - 1
	})
}

// TestRegionAsItStands: what asks for another number of copies, or another way, is said not to count.
func TestRegionAsItStands(t *testing.T) {
	p := start(t, Options{Budget: 100 * time.Millisecond})
	for name, setup := range map[string]Setup{"": {}, "numbers of copies": {Unroll: &unroll.Factors{Short: 10, Long: 20}}, "a branch": {Branch: Drop}} {
		state := atHeader(0)
		state.GPR[asm.RCX] = 200
		setup.Captured = state
		r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, imulOrNot), Setup: setup}))(t)
		said := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "as it stands") })
		if r.Region == nil || r.Region.Iterations != 200 || said != (name != "") {
			t.Errorf("%s: %+v, %v, %v", name, r.Region, r.Rejection, r.Warnings)
		}
	}
}

// TestUntrainedLayouts: where layouts differ, first runs, which have others, are not compared with later ones.
func TestUntrainedLayouts(t *testing.T) {
	two := measurement{timed: timing.Timed{Speeds: make([][]stat.Cell, 2)}}
	if u, err := untrained(nil, timing.Plan{}, two); u != nil || err != nil {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestSameAgain: a loop whose layouts differ by chance has no number, and one timed again beside other work keeps its own.
func TestSameAgain(t *testing.T) {
	timed := func(value float64) timing.Timed {
		return timing.Timed{Estimate: stat.Estimate{Value: value, Half: 0.05}}
	}
	unstable, busy := &verdict.Rejection{Reason: verdict.Unstable}, &verdict.Rejection{Reason: verdict.BusyCore}
	for _, c := range []struct {
		name  string
		again timing.Timed
		err   error
		want  verdict.Reason
	}{
		{"as before", timed(2.09), nil, ""},
		{"disjoint", timed(2.11), nil, verdict.Unstable},
		{"unstable", timing.Timed{}, unstable, verdict.Unstable},
		{"busy", timing.Timed{}, busy, ""},
	} {
		err := sameAgain(timed(2), c.again, c.err)
		if (err == nil) != (c.want == "") || verdict.ReasonOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if failure := errors.New("failed"); sameAgain(timed(2), timed(2), failure) != failure {
		t.Error("a failure of bbprof is lost")
	}
}

// onBytes is 1: mov al, [rbx]; test al, 1; jz 2f; inc rdx; 2: inc rbx; dec ecx; jnz 1b.
const onBytes = "8a03" + "a801" + "7403" + "48ffc2" + "48ffc3" + "ffc9" + "75f0"

// onRandomBytes is a state for so many iterations of it; without random, its branch is never taken.
func onRandomBytes(iterations uint64, random *rand.Rand) *initial.Captured {
	state := atHeader(0)
	state.GPR[asm.RBX], state.GPR[asm.RCX] = heapPage, iterations
	for at := uint64(0); at < iterations; at += 8 {
		word := ^uint64(0)
		if random != nil {
			word = random.Uint64()
		}
		state.Put(initial.Word{Address: heapPage + at, Value: word})
	}
	return state
}

// TestUntrained: a branch on random data costs until the predictor has learnt them, and one that always goes one way does not.
func TestUntrained(t *testing.T) {
	p := start(t, Options{})
	extra := func(code string, state *initial.Captured) float64 {
		r := undisturbed(t, p, Block{Code: require.Hex(t, code), Setup: Setup{Captured: state}},
			func(r Result) bool { return r.Region != nil && r.Region.Untrained != nil })
		u := r.Region.Untrained
		if !(u.CILow <= u.Cycles && u.Cycles <= u.CIHigh) {
			t.Errorf("%+v", u)
		}
		return u.Cycles - r.Cycles
	}
	lasting(t, func() string { // half of the iterations are mispredicted, for more than ten cycles on any core
		same, random := extra(onBytes, onRandomBytes(1000, nil)), extra(onBytes, onRandomBytes(1000, rand.New(rand.NewPCG(1, 2))))
		if math.Abs(same) > 1 || random < 5 {
			return fmt.Sprintf("before the predictor has learnt random data, an iteration takes %.2f cycles more, and with equal data %.2f", random, same)
		}
		return ""
	})
	few := atHeader(0)
	few.GPR[asm.RSP], few.GPR[asm.RCX] = heapPage, 24
	lasting(t, func() string { // 1: mov rax, [rsp]; add rsp, 8; dec ecx; jnz 1b
		const mispredicted = 25 // cycles, at most: the exit, and some turns until the branch is known
		if longer := extra("488b0424"+"4883c408"+"ffc9"+"75f4", few); 24*longer > 20*mispredicted {
			return fmt.Sprintf("a loop of 24 iterations without other branches takes %.2f cycles more: as if most were mispredicted", longer)
		}
		return ""
	})
}

// TestForgotten: what the predictor learns from one first run it has forgotten at the next.
func TestForgotten(t *testing.T) {
	p := start(t, Options{})
	const runs = 80
	b := Block{Code: require.Hex(t, onBytes), Setup: Setup{Captured: onRandomBytes(1000, rand.New(rand.NewPCG(1, 2)))}}
	var waited require.Tries
	lasting(t, func() string {
		for {
			var extra []float64
			var err error
			began := time.Now()
			refused := p.onThread(require.Context(t), func(s *session) {
				_, err = s.withChild(t.Context(), b, func() error {
					j := s.job(b)
					r, err := s.profileRegion(j, b.Setup.Captured)
					if timer, ok := s.timer.(*timing.TSC); ok && err == nil {
						extra, err = timeFirstRuns(timer, j.plan(r.block), r.measurement, runs)
					}
					return err
				})
				if err != nil && verdict.ReasonOf(err) == "" {
					t.Error(err)
				}
			})
			require.NoError(t, refused)
			if len(extra) < runs {
				waited.Again(t, time.Since(began), fmt.Sprintf("%d first runs of %d; %v", len(extra), runs, err))
				continue
			}
			if first, last := stat.Median(extra[:runs/4]), stat.Median(extra[3*runs/4:]); last < 0.7*first {
				return fmt.Sprintf("the first runs take %.0f cycles more than learnt ones, the last ones %.0f", first, last)
			}
			return ""
		}
	})
}

// TestNoRoom: a loop so large that no images of first runs fit keeps its result.
func TestNoRoom(t *testing.T) {
	p := start(t, Options{Tolerate: []verdict.Reason{verdict.L1IMiss, verdict.Unstable}})
	const gap = 450 << 10 // of the 2 MiB for code
	code := binary.LittleEndian.AppendUint32([]byte{0xe9}, gap)
	code = append(code, bytes.Repeat([]byte{0x90}, gap)...)
	code = append(code, 0xff, 0xc9, 0x0f, 0x85) // dec ecx; jnz
	code = binary.LittleEndian.AppendUint32(code, uint32(-len(code)-4))
	state := atHeader(0)
	state.GPR[asm.RCX] = 100
	r := undisturbed(t, p, Block{Code: code, Setup: Setup{Captured: state}}, func(r Result) bool { return !r.Reason.Noise() })
	if r.Status != OK || r.Region.Untrained != nil || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "no room") }) {
		t.Errorf("%s %v %s: %q", r.Status, r.Rejection, r.Failure, r.Warnings)
	}
}

// TestRegionMemory: both images start from their own state of memory, and the loop's end may hang on it.
func TestRegionMemory(t *testing.T) {
	p := start(t, Options{})
	for _, c := range []struct {
		name, hex string
		header    int
		want      int // iterations
		reason    verdict.Reason
	}{
		{"a linked list", "488b1b" + "4885db" + "75f8", 0, 64, ""},                  // mov rbx, [rbx]; test rbx, rbx; jnz
		{"a counter in memory", "4883c601" + "83ad0002000001" + "75f3", 0, 100, ""}, // add rsi, 1; sub dword [rbp+0x200], 1; jnz
		{"stores that walk", "48890c24" + "4883c408" + "ffc9" + "75f4", 0, 50, ""},  // mov [rsp], rcx; add rsp, 8; dec ecx; jnz
		{"its header below", "eb03" + "48ffc0" + "ffc9" + "75f9", 5, 50, ""},        // jmp over; 1: inc rax; header: dec ecx; jnz 1b
		{"too few iterations", "4883c601" + "83ad0802000001" + "75f3", 0, 3, verdict.LoopExit},
		{"it leaves the pages", "4883c340" + "833b00" + "74f7", 0, 0, verdict.LeavesState}, // add rbx, 64; cmp dword [rbx], 0; jz
		{"without end", "ffc0" + "ebfc", 0, 0, verdict.Timeout},
		{"a system call", "0f05" + "ffc9" + "75fa", 0, 0, verdict.Syscall},
	} {
		state := atHeader(c.header)
		put := func(addr, value uint64) { state.Put(initial.Word{Address: addr, Value: value}) }
		state.GPR[asm.RBX], state.GPR[asm.RBP], state.GPR[asm.RSP], state.GPR[asm.RCX] = heapPage+4096, heapPage, heapPage+1024, 50
		put(heapPage+0x200, 100)
		put(heapPage+0x208, 3)
		if strings.Contains(c.name, "list") {
			for i := range uint64(64) {
				next := heapPage + 4096 + (i+1)*40
				if i == 63 {
					next = 0
				}
				put(heapPage+4096+i*40, next)
			}
		}
		r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, c.hex), Setup: Setup{Captured: state}}))(t)
		switch {
		case r.Reason.Noise():
		case r.Reason != c.reason:
			t.Errorf("%s: %s %v, want %s", c.name, r.Status, r.Rejection, c.reason)
		case c.want > 0 && r.Region.Iterations != c.want:
			t.Errorf("%s: %d iterations, want %d", c.name, r.Region.Iterations, c.want)
		}
	}
}

// TestInner: a block with branches within it, whose copies all take one path.
func TestInner(t *testing.T) {
	p := start(t, Options{Inner: true})
	for _, row := range require.Table(t, "inner.txt") {
		name := row[3]
		r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, row[0])}))(t)
		taken := map[string]int{"taken": r.UnrollLong}[row[1]]
		switch {
		case row[1] == "taken" && r.Impossible != "" && r.Impossible != BelowBranches: // by what did not run
			t.Errorf("%s: %s", name, r.Impossible)
		case r.Reason.Noise():
		case r.Status == OK && (r.LoopsTake != "") == (taken > 0), strings.Contains(fmt.Sprint(r.Warnings), "taken branches") != (taken > 0):
			t.Errorf("%s: loops take %q, %q", name, r.LoopsTake, r.Warnings)
		case row[1] == "rejected":
			if r.Reason != verdict.ControlFlow || r.Inner != nil {
				t.Errorf("%s: %v %v", name, r.Rejection, r.Inner)
			}
		case len(r.Inner) != 1 || r.Inner[0].Of != r.UnrollLong || r.Inner[0].Taken != taken || r.Mode != Unroll || fmt.Sprint(r.Pages) != row[2] || r.Rejection != nil && r.Reason != verdict.Nonlinear:
			t.Errorf("%s: %+v, %s, %d pages, %v", name, r.Inner, r.Mode, r.Pages, r.Rejection)
		}
	}
	inner := Block{Code: require.Hex(t, "f6c301"+"7402"+"8b07"+"48ffc9")}
	inner.Setup.Mode = Loop
	if r := require.Get(p.Profile(t.Context(), inner))(t); r.Reason != verdict.ControlFlow || r.Rejection.Remedy != "leave out -mode loop" {
		t.Errorf("in a loop: %v", r.Rejection)
	}
	inner.Setup.Mode = Both
	if r := require.Get(p.Profile(t.Context(), inner))(t); !strings.Contains(fmt.Sprint(r.Warnings), "the loop was not measured") {
		t.Errorf("both ways: %v, %q", r.Rejection, r.Warnings)
	}
	// mov eax, [rdi]; test bl, 1; jnz over; mov eax, [rdi]; over: test rcx, rcx; jnz away
	detailed := start(t, Options{Inner: true, Detail: true})
	if r := require.Get(detailed.Profile(t.Context(), Block{Code: require.Hex(t, "8b07"+"f6c301"+"7502"+"8b07"+"4885c9"+"7510")}))(t); r.Predicted == nil || r.Predicted.Loads != 2 {
		t.Errorf("a copy has two loads, and %+v is predicted: %v", r.Predicted, r.Rejection)
	}
	without := start(t, Options{})
	if r := require.Get(without.Profile(t.Context(), Block{Code: require.Hex(t, "f6c301"+"7504"+"480fafc0"+"48ffc9")}))(t); r.Reason != verdict.ControlFlow {
		t.Errorf("without Inner: %v", r.Rejection)
	}
	lastingly(t, "an imul that a branch does not pass over", 0.05, func() (got, want float64) {
		return measuredBy(t, p, require.Hex(t, "f6c301"+"7504"+"480fafc0"+"48ffc9")).Cycles, measuredBy(t, p, require.Hex(t, "480fafc0")).Cycles
	})
}

// TestHostileRegions: random instructions and branches between them. None escapes, and bbprof never fails.
func TestHostileRegions(t *testing.T) {
	p := start(t, Options{Budget: 100 * time.Millisecond, Precision: 0.2})
	rng := hostile.Seeded(t)
	outcomes := map[verdict.Reason]int{}
	for range hostile.Scaled(20, 20_000) {
		code, header := hostile.Region(rng)
		state := atHeader(header)
		for _, r := range []asm.Reg{asm.RAX, asm.RBX, asm.RDI, asm.RSI, asm.RSP} {
			state.GPR[r] = heapPage + rng.Uint64()%8192
		}
		state.GPR[asm.RCX], state.GPR[asm.RDX] = rng.Uint64()%300, hostile.Interesting(rng)
		b := Block{Code: code, Setup: Setup{Captured: state}}
		r := require.Get(p.Profile(t.Context(), b))(t)
		if r.Status == Failed {
			t.Errorf("%x at %d: %s", code, header, r.Failure)
		}
		outcomes[r.Reason]++
		if r.Reason == verdict.Timeout {
			continue // as its replay's would be
		}
		if _, err := p.Replay(t.Context(), code, state); err != nil && verdict.ReasonOf(err) == "" {
			t.Errorf("%x at %d: %v", code, header, err)
		}
	}
	t.Log(outcomes)
}
