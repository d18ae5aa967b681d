package asm

import "testing"

// The tables are text; this is where a slip in them shows.
func TestTablesParse(t *testing.T) {
	for _, err := range tables().errs {
		t.Error(err)
	}
	// No block may change a segment register, which nothing restores, nor leave itself or user mode.
	refused := names("jo jno jb jae je jne jbe ja js jns jp jnp jl jge jle jg jmp call ret retf iret loop loope loopne jrcxz uiret " +
		"int3 int1 ud0 ud1 ud2 syscall sysenter int xbegin hlt cli sti clts in out ins outs lgdt lidt lldt ltr lmsw lkgs invd " +
		"wbinvd wbnoinvd invlpg invlpga invpcid swapgs wrmsr rdmsr xsetbv sysret sysexit rsm clac stac monitor mwait encls enclv " +
		"enclu vmcall vmmcall vmlaunch vmresume vmrun erets eretu wrfsbase wrgsbase wrpkru xrstor xrstors")
	eachForm(func(_ encoding, f *form) {
		must := refused[f.name]
		for _, o := range f.ops {
			segment := o.kind == opSeg || o.name == "fs" || o.name == "gs"
			must = must || o.kind == opCR || o.kind == opDR || segment && o.access&accWrite != 0
		}
		if must && f.refusal.reason == "" {
			t.Errorf("%s is not refused", f.name)
		}
	})
}
