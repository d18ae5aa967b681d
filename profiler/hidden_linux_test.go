package profiler

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// Blocks that hide from the log, from the dry run or from single steps.

// TestHiddenStore: a store that overwrites its own entry in the log, in each copy, is still found.
func TestHiddenStore(t *testing.T) {
	b := openPath(t)
	b.states = b.states[:1]
	const entries, third = 3 * 8, 2 * 8 // three accesses a copy
	code := slices.Concat(
		[]byte{0x48, 0x8b, 0x03},                              // mov rax, [rbx]
		hostile.Set(1, layout.Log+third-initial.Paper().Fill), // mov rcx, …
		[]byte{0x48, 0x01, 0xc8},                              // add rax, rcx
		[]byte{0x48, 0x83, 0x03, entries},                     // add qword [rbx], 24
		[]byte{0x48, 0x89, 0x10},                              // mov [rax], rdx, which is the address of a page of its own
	)
	if r := b.walk(code); r.Reason != verdict.Unmappable || r.Rejection.Address == nil || *r.Rejection.Address != layout.Log+third {
		t.Errorf("%s %s: %v", r.Status, r.Reason, r.Rejection)
	}
}

// The target of hidden stores: an unused end of the memory that is writable during timing.
const (
	hiddenTarget = layout.Restore + layout.RestoreSize - 8
	secret       = 0x5ec7e7
)

// storeUnlessZero is mov [rdx], secret, after which rdx is [rbx+512], or hiddenTarget if ZF is clear.
func storeUnlessZero() []byte {
	return slices.Concat(
		[]byte{0x48, 0x8d, 0x93, 0x00, 0x02, 0, 0}, // lea rdx, [rbx+512]
		hostile.Set(7, hiddenTarget),               // mov rdi, …
		[]byte{0x48, 0x0f, 0x45, 0xd7},             // cmovne rdx, rdi
		hostile.Set(10, secret),                    // mov r10, …
		[]byte{0x4c, 0x89, 0x12},                   // mov [rdx], r10
	)
}

// TestHiddenState: a block leaves a word of its memory changed after exactly as many copies as the
// midpoint has. If it were not restored, the next run would find it changed in its first copy,
// which no dry run has seen.
func TestHiddenState(t *testing.T) {
	b := openPath(t)
	b.opts.Budget, b.states = 20*time.Millisecond, b.states[:1]
	block := func(set, unset int) []byte {
		start, fill := initial.Paper().GPR[asm.RCX], initial.Paper().Fill
		whenCopy := func(n int) []byte { return append(hostile.Set(8, start+uint64(n)), 0x4c, 0x39, 0xc1) } // mov r8, …; cmp rcx, r8
		return slices.Concat(
			[]byte{0x48, 0xff, 0xc1},                   // inc rcx: the number of the copy
			[]byte{0x48, 0x8b, 0x83, 0x00, 0x01, 0, 0}, // mov rax, [rbx+256]
			// Is this the first copy, and the word not as at first?
			hostile.Set(8, start+1), []byte{0x49, 0x31, 0xc8}, // mov r8, …; xor r8, rcx
			hostile.Set(9, secret), []byte{0x49, 0x31, 0xc1}, // mov r9, …; xor r9, rax
			[]byte{0x4d, 0x09, 0xc8},       // or r8, r9
			[]byte{0x41, 0x0f, 0x94, 0xc0}, // sete r8b
			[]byte{0x45, 0x84, 0xc0},       // test r8b, r8b
			storeUnlessZero(),
			whenCopy(set), []byte{0x49, 0x0f, 0x44, 0xc2}, // cmove rax, r10
			hostile.Set(9, fill), whenCopy(unset), []byte{0x49, 0x0f, 0x44, 0xc1}, // cmove rax, r9
			[]byte{0x48, 0x89, 0x83, 0x00, 0x01, 0, 0}, // mov [rbx+256], rax
		)
	}
	harmless := b.walk(block(1<<20, 1<<20))
	third := (harmless.UnrollShort + harmless.UnrollLong) / 2
	var r Result
	for try := 0; try < 20 && len(r.Evidence) == 0; try++ { // none if the core was not left alone
		r = b.walk(block(harmless.UnrollShort+1, third+1))
		if got := b.child.Word(hiddenTarget); got == secret {
			t.Errorf("%s %s: it stored to bbprof's memory in runs of %d copies, between %d and %d", r.Status, r.Reason, third, r.UnrollShort, r.UnrollLong)
		}
	}
	if r.Reason.Noise() {
		require.Skip(t, require.Idle, "the core is not left alone: %v", r.Rejection)
	}
	if len(r.Evidence) == 0 {
		t.Errorf("%s %s, and never came to the third number", r.Status, r.Reason)
	}
}

// TestSteppingUnseen: pushf in single steps would push the trap flag; a block that is stepped does not see it.
func TestSteppingUnseen(t *testing.T) {
	b := openPath(t)
	b.states = b.states[:1]
	stepped := []byte{0x68, 0x02, 0x02, 0, 0, 0x9d, 0xac} // push 0x202; popf; lodsb, which no instrumented copy traces
	b.walk([]byte{0x90})
	r := b.walk(slices.Concat(
		[]byte{0x9c, 0x58, 0xa9, 0, 1, 0, 0}, // pushf; pop rax; test eax, 0x100
		storeUnlessZero(), stepped))
	if got := b.child.Word(hiddenTarget); got == secret || r.Reason == verdict.Unmappable {
		t.Errorf("%s %s: it tried to store to bbprof's memory, where there is %#x", r.Status, r.Reason, got)
	}
	// pushf; pop rax; and eax, 0x100; mov rcx, [rbx+rax]
	code := slices.Concat([]byte{0x9c, 0x58, 0x25, 0, 1, 0, 0, 0x48, 0x8b, 0x0c, 0x03}, stepped)
	traced, rejection := b.mapped(code, b.states, 1, 3)
	if rejection != nil {
		t.Fatal(rejection)
	}
	var loads []uint64
	for _, a := range traced.Trace.Accesses {
		if a.Inst == 3 {
			loads = append(loads, a.Addr)
		}
	}
	require.Equal(t, "loads", slices.Repeat([]uint64{initial.Paper().GPR[asm.RBX]}, 3), loads)
}

// TestManyWordsChanged: too many words to restore are not a failure of bbprof.
func TestManyWordsChanged(t *testing.T) {
	b := openPath(t)
	b.opts.Frames = layout.MaxFrames
	for words, want := range map[uint32]verdict.Reason{
		layout.MaxRestore: verdict.L1DMiss, layout.MaxRestore + 1: verdict.L1DMiss, 8 * layout.MaxRestore: verdict.TooManyPages,
	} {
		// mov ecx, …; lea rdi, [rbx]; rep stosq
		if r := b.walk(slices.Concat([]byte{0xb9}, binary.LittleEndian.AppendUint32(nil, words),
			[]byte{0x48, 0x8d, 0x3b, 0xf3, 0x48, 0xab})); r.Reason != want {
			t.Errorf("%d words: %s %s %v, want %s", words, r.Status, r.Reason, r.Rejection, want)
		}
	}
}

// TestEachRunAfresh: the state after a run is the same after a full reset and after runs of each number of copies.
func TestEachRunAfresh(t *testing.T) {
	b := openBench(t)
	rng := hostile.Seeded(t)
	compared, rejected := 0, 0
	check := func(code []byte) (ran bool) {
		r, rejection := b.mapped(code, b.states[:1], 1+rng.IntN(3), 3)
		if rejection != nil {
			rejected++
			return false
		}
		im := b.build(r, r.Factors.Long)
		first := b.run(r, im)
		later := b.runAfter(r, im, []tracee.Op{tracee.Run(r.ResetImage, 1), tracee.Run(r.Long.Address, 2),
			tracee.Run(r.Short.Address, 1), tracee.Run(r.Long.Address, 1)})
		compared++
		require.Equal(t, fmt.Sprintf("%x", code), "", first.difference(later))
		return true
	}
	for _, row := range require.Table(t, "carrying.txt") {
		if row[1] != "" && len(host.Missing([]string{row[1]})) > 0 {
			continue
		}
		if !check(require.Hex(t, row[0])) {
			t.Errorf("%s: it does not run", row[2])
		}
	}
	for i, own := range ownBlocks(t) {
		if _, all := hostile.Long(); i%8 > 0 && !all {
			continue
		}
		if insts, err := asm.Decode(own.code); err == nil && asm.Refuse(insts) == nil {
			check(own.code)
		}
	}
	want := hostile.Scaled(300, 60_000)
	for compared < want && rejected < 2*want { // without AVX-512 a block in three does not run
		check(hostile.ValidBlock(rng))
	}
	t.Logf("%d blocks compared, %d do not run", compared, rejected)
	if compared < want {
		t.Error("too few")
	}
}

// TestDryRunIsLikeRuns: a block finds the same state in a dry run as later, and stores the same.
func TestDryRunIsLikeRuns(t *testing.T) {
	b := openBench(t)
	rng := hostile.Seeded(t)
	compared := 0
	check := func(code []byte, frames int) {
		task, err := b.unjudged(code, frames, 3)
		if err != nil {
			return
		}
		r, err := task.MapOnly(b.states[:1])
		if err != nil {
			return
		}
		memory := func() (all []byte) {
			for i := range frames {
				all = append(all, b.child.Frame(i)...)
			}
			return all
		}
		onTrial := memory()
		r.Refill()
		if err := r.Plan.RunOnce(r.Child, r.Long); err != nil {
			t.Errorf("%x: %v", code, err)
		}
		require.Equal(t, fmt.Sprintf("%x", code), "", (machine{frames: onTrial}).difference(machine{frames: memory()}))
		compared++
	}
	// pushf; stmxcsr [rbx]; fnstcw [rbx+8]; fnstsw [rbx+16]; movq [rbx+24], mm2; movdqu [rbx+32], xmm3; mov [rbx+48], rsp
	check(require.Hex(t, "9c 0fae1b d97b08 dd7b10 0f7f5318 f30f7f5b20 48896330"), 1)
	check(require.Hex(t, "9c"), 1)
	for range hostile.Scaled(400, 100_000) {
		code := hostile.ValidBlock(rng)
		if rng.IntN(4) == 0 {
			code = append([]byte{0x9c}, code...)
		}
		check(code, 1+rng.IntN(4))
	}
	t.Logf("%d blocks compared", compared)
	if compared < 100 {
		t.Error("too few")
	}
}
