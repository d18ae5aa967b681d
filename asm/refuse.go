package asm

import (
	"encoding/hex"
	"strings"

	"github.com/bbprof/bbprof/verdict"
)

// A refusal is why an instruction must not run in a profile.
type refusal struct {
	reason verdict.Reason // "" if the instruction may run
	why    string         // one clause
}

const (
	whyRing0   = "needs ring 0"
	whySegment = "loads a segment register, which no profile restores"
)

// refusals are the instructions that must not run, whatever the machine.
var refusals = func() map[string]refusal {
	m := map[string]refusal{}
	for _, g := range []struct {
		reason     verdict.Reason
		why, names string
	}{
		{verdict.ControlFlow, "leaves the block", "jo jno jb jae je jne jbe ja js jns jp jnp jl jge jle jg jmp call ret retf iret loop loope loopne jrcxz uiret"},
		{verdict.ControlFlow, "raises an exception by design", "int3 int1 ud0 ud1 ud2"},
		{verdict.Syscall, "enters the kernel", "syscall sysenter int"},
		{verdict.Privileged, whyRing0, "hlt cli sti clts lgdt lidt lldt ltr lmsw lkgs invd wbinvd wbnoinvd invlpg invlpga invlpgb tlbsync invpcid swapgs wrmsr wrmsrns rdmsr xsetbv sysret " +
			"sysexit rsm clac stac monitor mwait xsaves xsaves64 xrstors xrstors64 hreset encls enclv pconfig erets eretu psmash pvalidate rmpadjust rmpupdate " +
			"rmpquery setssbsy clrssbsy wrussd wrussq enqcmds"},
		{verdict.Privileged, "needs an I/O permission", "in out ins outs"},
		{verdict.Privileged, "needs ring 0 where user-mode instruction prevention is on", "sgdt sidt sldt str smsw"},
		{verdict.Privileged, "needs ring 0 or a hypervisor", "vmcall vmlaunch vmresume vmxoff vmxon vmfunc vmread vmwrite vmptrld vmptrst vmclear invept invvpid vmrun vmmcall vmgexit vmload vmsave stgi clgi " +
			"skinit getsec"},
		{verdict.Nondeterministic, "returns another value each time", "rdtsc rdtscp rdpmc rdpru rdrand rdseed"},
		{verdict.Nondeterministic, "returns what this machine or its operating system chose", "cpuid xgetbv rdpid rdpkru lar lsl verr verw"},
		{verdict.UnsupportedISA, whySegment, "lss lfs lgs wrfsbase wrgsbase"},
		{verdict.UnsupportedISA, "starts, ends or asks for a transaction", "xbegin xend xabort xtest xsusldtrk xresldtrk"},
		{verdict.UnsupportedISA, "uses tile registers, which bbprof does not set up", "ldtilecfg sttilecfg tilerelease tilezero tileloadd tileloaddt1 tilestored tdpbf16ps tdpfp16ps tdpbuud tdpbusd tdpbsud tdpbssd"},
		{verdict.UnsupportedISA, "uses the shadow stack", "incsspd incsspq rdsspd rdsspq rstorssp saveprevssp wrssd wrssq"},
		{verdict.UnsupportedISA, "waits for an event", "umonitor umwait tpause monitorx mwaitx"},
		{verdict.UnsupportedISA, "loads or saves state whose size and layout the operating system chose", "xsave xsave64 xsaveopt xsaveopt64 xsavec xsavec64 xrstor xrstor64"},
		{verdict.UnsupportedISA, "is a no-op or a bounds check, depending on the machine", "bndmk bndcl bndcu bndcn bndmov bndldx bndstx"},
		{verdict.UnsupportedISA, "stores past the caches", "movdir64b enqcmd clzero"},
		{verdict.UnsupportedISA, "changes what pages may be accessed", "wrpkru"},
		{verdict.UnsupportedISA, "uses user interrupts", "testui clui stui senduipi"},
		{verdict.UnsupportedISA, "needs a key that only ring 0 can load", "aesenc128kl aesdec128kl aesenc256kl aesdec256kl aesencwide128kl aesdecwide128kl aesencwide256kl aesdecwide256kl loadiwkey encodekey128 encodekey256"},
		{verdict.UnsupportedISA, "enters an enclave", "enclu"},
		{verdict.UnsupportedISA, "probes and copies more of the stack than its operand shows", "enter"},
		{verdict.UnsupportedISA, "waits for stores to reach memory", "mcommit"},
	} {
		for name := range strings.FieldsSeq(g.names) {
			m[name] = refusal{g.reason, g.why}
		}
	}
	return m
}()

// Refuse says why a decoded block must not run, naming its first offending instruction;
// nil if nothing speaks against it.
func Refuse(insts []Inst) *verdict.Rejection {
	for i := range insts {
		in := &insts[i]
		r := in.raw.refusal()
		if r.reason == "" {
			continue
		}
		return &verdict.Rejection{Reason: r.reason, Detail: in.Mnemonic + " " + r.why, Inst: in.Verdict(i)}
	}
	if i := storesX87Pointer(insts); i >= 0 {
		return &verdict.Rejection{
			Reason: verdict.Nondeterministic,
			Detail: insts[i].Mnemonic + " stores the address of the last x87 instruction, which is another in each copy",
			Inst:   insts[i].Verdict(i),
		}
	}
	return nil
}

// refusal looks at the mnemonic, and at operands that need more than the mnemonic shows.
func (d *rawInst) refusal() refusal {
	for _, o := range d.form.ops {
		switch {
		case o.kind == opCR || o.kind == opDR:
			return refusal{verdict.Privileged, whyRing0}
		case o.access&accWrite != 0 && (o.kind == opSeg || o.kind == opFixed && (o.name == "fs" || o.name == "gs")):
			return refusal{verdict.UnsupportedISA, whySegment}
		}
	}
	return d.form.refusal
}

// Verdict names the instruction for a rejection; index is its place in the block, from 0.
func (in *Inst) Verdict(index int) *verdict.Inst {
	return &verdict.Inst{Index: index, Offset: in.Offset, Text: in.Text(), Hex: hex.EncodeToString(in.Bytes)}
}
