package profiler

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// The attacks and faults of docs/threat-model.md by blocks. internal/tracee tests the effects of forged code.

// childRunLimit is timing's limit on a child run.
const childRunLimit = 5 * time.Second

// ownAreas lists addresses in the own region that a block could forge.
var ownAreas = map[string]uint64{
	"the stub": layout.Stub + 0x100, "a frame": layout.Frames + 0x100,
	"runs left": layout.SlotCount, "the return address": layout.SlotReturn, "the entry": layout.SlotEntry, "the output": layout.SlotOut,
	"samples wanted": layout.SlotSamples, "polls left": layout.SlotPolls, "the idle time": layout.SlotIdleProbe, "the list's position": layout.SlotOps,
	"the list's end": layout.SlotOpsEnd, "MXCSR": layout.SlotMXCSR, "the flags": layout.SlotFlags, "words to restore": layout.SlotRestore,
	"the borrowed register": layout.SlotScratch, "the dispatch offset": layout.SlotDispatch, "the loop's counter": layout.SlotLoop,
	"the phases": layout.Phases, "the usage": layout.Usage, "the times": layout.Times + 8,
	"the list": layout.Ops, "the samples": layout.Samples, "the restore list": layout.Restore, "the code": layout.Code, "the log": layout.Log,
	"the end of the log": layout.Control - 8, "a gap": layout.CodeEnd, "the dry run's loop": layout.DryRunLoop, "the dry run's list": layout.DryRunList,
	"the dry run's code": layout.DryRunCode, "the end": layout.End - 8,
}

// accesses returns blocks that access an address in different ways.
func accesses(addr uint64) map[string][]byte {
	at := hostile.Set(0, addr) // mov rax, addr
	blocks := map[string][]byte{
		"push":         append(hostile.Set(4, addr+8), 0x50),                                         // push rax
		"string store": append(hostile.Set(7, addr), 0x48, 0xab),                                     // stosq
		"masked store": append(hostile.Set(7, addr), 0x66, 0x0f, 0x76, 0xc0, 0x66, 0x0f, 0xf7, 0xc0), // pcmpeqd xmm0, xmm0; maskmovdqu
	}
	for how, code := range map[string]string{
		"store": "\x48\x89\x08", "store of itself": "\x48\x89\x00", "store of zero": "\x48\xc7\x00\x00\x00\x00\x00", "load": "\x48\x8b\x18",
		"add": "\x48\x01\x08", "locked add": "\xf0\x48\x01\x08", "vector store": "\x66\x0f\xd6\x00", "nontemporal": "\x48\x0f\xc3\x08",
	} {
		blocks[how] = slices.Concat(at, []byte(code))
	}
	return blocks
}

// TestOwnMemory: no instruction can access bbprof's memory; the child lives, and the next block finds the usual state.
func TestOwnMemory(t *testing.T) {
	b := openPath(t)
	canary := b.canary()
	for area, addr := range ownAreas {
		for how, code := range accesses(addr) {
			child := b.child
			r := b.walk(code)
			if r.Reason != verdict.Unmappable || r.Rejection == nil || !strings.Contains(r.Rejection.Detail, "own region") {
				t.Errorf("%s to %s at %#x: %s %s: %v", how, area, addr, r.Status, r.Reason, r.Rejection)
			}
			if b.child != nil && b.child != child && area != "the stub" && area != "a frame" {
				t.Errorf("%s to %s at %#x cost the child", how, area, addr)
			}
			require.Equal(t, "after "+how+" to "+area, "", canary.difference(b.canary()))
		}
	}
}

// TestOwnMemoryLate: only the block's last copies access it, with a computed address, in the dry run or later.
func TestOwnMemoryLate(t *testing.T) {
	b := openPath(t)
	b.opts.Budget = 20 * time.Millisecond
	b.states = b.states[:1]
	before := b.canary()
	for _, mode := range []Mode{Unroll, Loop} {
		for _, after := range []int64{1, 60, 127, 128, 255, 383, 500, 1000, 5000, 8000} {
			for area, addr := range map[string]uint64{"the samples": layout.Samples, "the dry run's loop": layout.DryRunLoop, "the log": layout.Log} {
				// Copies count themselves in memory; from one of them on the pointer is another.
				e := asm.NewEmitter(0)
				e.Raw(hostile.Set(7, addr)...)
				e.Raw(0x48, 0x8d, 0x9d, 0x00, 0x01, 0, 0) // lea rbx, [rbp+256]
				e.Raw(0x48, 0xff, 0x06)                   // inc qword [rsi]
				e.Raw(hostile.Set(0, uint64(0x1234_5600+after))...)
				e.Raw(0x48, 0x3b, 0x06)       // cmp rax, [rsi]
				e.Raw(0x48, 0x0f, 0x4e, 0xdf) // cmovle rbx, rdi
				e.Raw(0x48, 0x89, 0x13)       // mov [rbx], rdx
				b.opts.Mode = mode
				r := b.walk(e.Bytes())
				if reaches := int64(r.UnrollLong) >= after; reaches != (r.Reason == verdict.Unmappable) {
					t.Errorf("%s, mode %s, after %d of %d iterations: %s %s %v", area, mode, after, r.UnrollLong, r.Status, r.Reason, r.Rejection)
				}
				b.opts.Mode = Unroll
				require.Equal(t, fmt.Sprintf("%s, mode %s, after %d", area, mode, after), "", before.difference(b.canary()))
			}
		}
	}
}

// TestEnds: a block that does not end by itself is ended soon. (No subtests: they would run on another thread.)
func TestEnds(t *testing.T) {
	b := openPath(t)
	for _, row := range require.Table(t, "ends.txt") {
		name := row[2]
		began := time.Now()
		r := b.walk(require.Hex(t, row[0]))
		took, outcome := time.Since(began), string(r.Reason)
		if r.Reason == "" || r.Reason.Noise() {
			outcome = "runs"
		}
		if !slices.Contains(strings.Fields(row[1]), outcome) {
			t.Errorf("%s: %s %s, want any of %s: %v", name, r.Status, r.Reason, row[1], r.Rejection)
		}
		t.Logf("%s: %s in %v", name, r.Reason, took.Round(time.Millisecond))
		// One run may outlast its limit as long as none is over: the states share one limit.
		if most := mapLimit + 2*mapping.RunLimit + childRunLimit + 5*time.Second; took > most {
			t.Errorf("%s took %v, more than %v", name, took, most)
		}
	}
}

// TestChildKilled: a killed child is replaced, and the block measured; killed each time, only the block fails.
func TestChildKilled(t *testing.T) {
	others := children()
	b := openPath(t)
	pid := func() int {
		own := slices.DeleteFunc(children(), func(p int) bool { return slices.Contains(others, p) })
		return slices.Max(append(own, 0))
	}
	send := func(sig unix.Signal) {
		t.Helper()
		for range 10 { // there is none after a block that did not end
			if p := pid(); p > 0 {
				require.NoError(t, unix.Kill(p, sig))
				return
			}
			b.walk([]byte{0x90})
		}
		t.Fatal("there is no child")
	}
	b.walk([]byte{0x90})
	send(unix.SIGKILL)
	if r := b.walk([]byte{0x90}); r.Status == Failed {
		t.Errorf("after one kill: %s", r.Failure)
	}
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGTSTP, unix.SIGTERM, unix.SIGSEGV, unix.SIGTRAP} {
		took := time.Duration(math.MaxInt64)
		for try := 0; try < 3 && took > childRunLimit; try++ { // it may be the machine that stood still
			send(sig)
			began := time.Now()
			if r := b.walk([]byte{0x90}); r.Status == Failed {
				t.Errorf("%v: %s", sig, r.Failure)
			}
			took = time.Since(began)
		}
		if took > childRunLimit {
			t.Errorf("%v: measured in %v", sig, took)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() {
		for ctx.Err() == nil {
			if p := pid(); p > 0 {
				unix.Kill(p, unix.SIGKILL)
			}
		}
	})
	// A block is through in less time than the killer may need to get a CPU: until it was caught twice.
	var r Result
	var err error
	for began := time.Now(); err == nil && r.Status != Failed && time.Since(began) < 30*time.Second; {
		r, err = b.serve(context.Background(), Block{Code: []byte{0x90}})
	}
	stop()
	killer.Wait()
	if err != nil || r.Status != Failed || !strings.Contains(r.Failure, "SIGKILL") {
		t.Errorf("killed each time: %s %s %q, %v", r.Status, r.Reason, r.Failure, err)
	}
	if r := b.walk([]byte{0x90}); r.Status == Failed {
		t.Errorf("after that: %s", r.Failure)
	}
}

// canary returns the whole state that a block can see, by a block that reads everything.
func (b bench) canary() machine {
	b.t.Helper()
	code := slices.Concat(
		[]byte{0x9c},                         // pushf
		[]byte{0x0f, 0xae, 0x5b, 0x40},       // stmxcsr [rbx+64]
		[]byte{0xd9, 0x7b, 0x48},             // fnstcw [rbx+72]
		[]byte{0xdd, 0x7b, 0x50},             // fnstsw [rbx+80]
		[]byte{0x0f, 0x7f, 0x53, 0x60},       // movq [rbx+96], mm2
		[]byte{0x66, 0x0f, 0xd6, 0x5b, 0x68}, // movq [rbx+104], xmm3
		[]byte{0xac},                         // lodsb: where it goes next depends on DF
		[]byte{0xf3, 0x48, 0x0f, 0xae, 0xc1}, // rdfsbase rcx
		[]byte{0xf3, 0x48, 0x0f, 0xae, 0xca}, // rdgsbase rdx
		[]byte{0xf2, 0x0f, 0x59, 0xc9},       // mulsd xmm1, xmm1
		[]byte{0x8c, 0xe0, 0x8c, 0xdd},       // mov eax, fs; mov ebp, ds
	)
	if !b.fsgsbase() {
		code = slices.Concat(code[:len(code)-18], code[len(code)-8:])
	}
	r := require.Get(b.block(code, initial.Paper(), 1, 2))(b.t)
	m := b.runAfter(r, r.Long, nil)
	m.Vectors = slices.DeleteFunc(m.Vectors, func(v initial.Vector) bool { return v.Reg >= 16 }) // no block without AVX-512 can tell
	m.Opmasks = [8]uint64{}
	return m
}

// fsgsbase reports whether user code may read and write segment bases (getauxval(3), AT_HWCAP2 bit 1).
func (b bench) fsgsbase() bool {
	aux, _ := os.ReadFile("/proc/self/auxv")
	const hwcap2, enabled = 26, 2
	for ; len(aux) >= 16; aux = aux[16:] {
		if aux[0] == hwcap2 {
			return aux[8]&enabled != 0
		}
	}
	return false
}

// TestStateAfterHostileBlocks: the state that a block sees does not depend on the block before.
func TestStateAfterHostileBlocks(t *testing.T) {
	b := openPath(t)
	before := b.canary()
	check := func(name string, code []byte) {
		t.Helper()
		r := b.walk(code)
		require.Equal(t, fmt.Sprintf("after %s (%x, %s %s)", name, code, r.Status, r.Reason), "", before.difference(b.canary()))
	}
	for _, row := range require.Table(t, "hostile.txt") {
		check(row[1], require.Hex(t, row[0]))
	}
	rng := hostile.Seeded(t)
	for range hostile.Scaled(150, 1000) {
		check("a random block", hostile.ValidBlock(rng))
	}
}

// TestCanaryNumber: numbers measured between hostile blocks equal those measured before them.
func TestCanaryNumber(t *testing.T) {
	p := start(t, Options{})
	canaries := []string{"480fafc0", "f20f59c0", "c5fc58c0", "488b00", "d8c0"}
	if !slices.Contains(host.Detect().VectorBits(), 256) {
		canaries = slices.DeleteFunc(canaries, func(c string) bool { return c == "c5fc58c0" })
	}
	type number struct {
		Result
		after string
	}
	numbers := map[string][]number{}
	measure := func(canary, after string) {
		numbers[canary] = append(numbers[canary], number{measuredBy(t, p, require.Hex(t, canary)), after})
	}
	blocks := hostile.Scaled(25, 1000)
	tolerated := 1 + blocks/20 // other work may spoil any number, and the intervals are of 95 %
	for _, c := range canaries {
		for range tolerated + 1 { // too many, were all others moved
			measure(c, "no block")
		}
	}
	rng := hostile.Seeded(t)
	for i := range blocks {
		code := hostile.ValidBlock(rng)
		if r, err := p.Profile(context.Background(), Block{Code: code}); err != nil || r.Status == Failed {
			t.Fatalf("%x: %v %s", code, err, r.Failure)
		}
		measure(canaries[i%len(canaries)], fmt.Sprintf("%x", code))
	}
	for _, c := range canaries {
		all := numbers[c]
		slices.SortFunc(all, func(a, b number) int { return cmp.Compare(a.Cycles, b.Cycles) })
		moved, want := 0, all[len(all)/2]
		for _, got := range all {
			const share = 0.005 // or their intervals meet
			if got.CILow > want.CIHigh*(1+share) || want.CILow > got.CIHigh*(1+share) {
				moved++
				t.Logf("%s: %.4f (%.4f to %.4f) after %s; most are near %.4f (%.4f to %.4f)", c, got.Cycles, got.CILow, got.CIHigh, got.after,
					want.Cycles, want.CILow, want.CIHigh)
			}
		}
		if moved > tolerated {
			t.Errorf("%s moved %d times in %d", c, moved, len(all))
		}
	}
}
