package profiler

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// TestEachRunAfresh: the restored state suffices. The state after a run is identical whether
// everything was restored before it, or the block ran before with each of its numbers of
// copies.
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
	// What they begin with, they carry on to what can be seen at their end.
	carrying := map[string]string{
		"memory":         "48ff03",                               // inc qword [rbx]
		"vectors":        "660f6f0b 660ffec1",                    // movdqa xmm1, [rbx]; paddd xmm0, xmm1
		"MMX":            "0f6f0b 0ffec1",                        // movq mm1, [rbx]; paddd mm0, mm1
		"direction":      "ac fd",                                // lodsb; std
		"flags":          "9c 58 01c1 6802020400 9d",             // pushf; pop rax; add ecx, eax; push 0x40202; popf
		"MXCSR":          "0fae5b40 8b4340 01c1 f20f5ec9",        // stmxcsr [rbx+64]; mov eax, [rbx+64]; add ecx, eax; divsd xmm1, xmm1
		"x87 control":    "d97b40 8b4340 01c1 c70340020000 d92b", // fnstcw [rbx+64]; …; mov dword [rbx], 0x240; fldcw [rbx]
		"high registers": "62e17d40fe03",                         // vpaddd zmm16, zmm16, [rbx]
	}
	if !b.cpu.Features.AVX512 {
		delete(carrying, "high registers")
	}
	// What they change depends on the number of copies, or is stored by instructions with wide operands.
	carrying["other copies"] = "48ff4340 48f75348"     // inc qword [rbx+0x40]; not qword [rbx+0x48]
	carrying["what was stored"] = "48894b08 48ff4b08"  // mov [rbx+8], rcx; dec qword [rbx+8]
	carrying["wide stores"] = "0fae4340 dd7b08 d97b10" // fxsave [rbx+0x40]; …
	for name, hex := range carrying {
		if !check(unhex(t, hex)) {
			t.Errorf("%s: it does not run", name)
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
	for range hostile.Scaled(300, 100_000) {
		check(hostile.ValidBlock(rng))
	}
	t.Logf("%d blocks compared, %d do not run", compared, rejected)
	if compared < 300 {
		t.Error("too few")
	}
}

// TestDryRunIsLikeRuns: a block finds the same flags, control words, registers and memory in a dry run as
// later, and stores the same.
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
	check(unhex(t, "9c 0fae1b d97b08 dd7b10 0f7f5318 f30f7f5b20 48896330"), 1)
	check(unhex(t, "9c"), 1)
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
