package asm

import (
	"encoding/hex"

	"github.com/bbprof/bbprof/verdict"
)

// A refusal is why an instruction must not run in a profile.
type refusal struct {
	reason verdict.Reason // "" if the instruction may run
	why    string         // one clause
}

const (
	whyJump       = "leaves the block"
	whyTrap       = "raises an exception by design"
	whyRing0      = "needs ring 0"
	whyIO         = "needs an I/O permission"
	whyUMIP       = "needs ring 0 where user-mode instruction prevention is on"
	whyVM         = "needs ring 0 or a hypervisor"
	whyKernel     = "enters the kernel"
	whyTime       = "returns another value each time"
	whyMachine    = "returns what this machine or its operating system chose"
	whySegment    = "loads a segment register, which no profile restores"
	whyTSX        = "starts, ends or asks for a transaction"
	whyAMX        = "uses tile registers, which bbprof does not set up"
	whyShadow     = "uses the shadow stack"
	whyWait       = "waits for an event"
	whyState      = "loads or saves state whose size and layout the operating system chose"
	whyMPX        = "is a no-op or a bounds check, depending on the machine"
	whyDirect     = "stores past the caches"
	whyProtection = "changes what pages may be accessed"
	whyUIntr      = "uses user interrupts"
)

// refusals names the instructions that must not run, whatever the machine.
var refusals = gather(
	group(verdict.ControlFlow, whyJump,
		"jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg",
		"jmp", "call", "ret", "retf", "iret", "loop", "loope", "loopne", "jrcxz", "uiret"),
	group(verdict.ControlFlow, whyTrap, "int3", "int1", "ud0", "ud1", "ud2"),
	group(verdict.Syscall, whyKernel, "syscall", "sysenter", "int"),

	group(verdict.Privileged, whyRing0,
		"hlt", "cli", "sti", "clts", "lgdt", "lidt", "lldt", "ltr", "lmsw", "lkgs", "invd", "wbinvd", "wbnoinvd",
		"invlpg", "invlpga", "invlpgb", "tlbsync", "invpcid", "swapgs", "wrmsr", "wrmsrns", "rdmsr", "xsetbv",
		"sysret", "sysexit", "rsm", "clac", "stac", "monitor", "mwait", "xsaves", "xsaves64",
		"xrstors", "xrstors64", "hreset", "encls", "enclv", "pconfig", "erets", "eretu", "psmash", "pvalidate",
		"rmpadjust", "rmpupdate", "rmpquery", "setssbsy", "clrssbsy", "wrussd", "wrussq", "enqcmds"),
	group(verdict.Privileged, whyIO, "in", "out", "ins", "outs"),
	group(verdict.Privileged, whyUMIP, "sgdt", "sidt", "sldt", "str", "smsw"),
	group(verdict.Privileged, whyVM,
		"vmcall", "vmlaunch", "vmresume", "vmxoff", "vmxon", "vmfunc", "vmread", "vmwrite", "vmptrld", "vmptrst",
		"vmclear", "invept", "invvpid", "vmrun", "vmmcall", "vmgexit", "vmload", "vmsave", "stgi", "clgi", "skinit", "getsec"),

	group(verdict.Nondeterministic, whyTime, "rdtsc", "rdtscp", "rdpmc", "rdpru", "rdrand", "rdseed"),
	group(verdict.Nondeterministic, whyMachine, "cpuid", "xgetbv", "rdpid", "rdpkru", "lar", "lsl", "verr", "verw"),

	group(verdict.UnsupportedISA, whySegment, "lss", "lfs", "lgs", "wrfsbase", "wrgsbase"),
	group(verdict.UnsupportedISA, whyTSX, "xbegin", "xend", "xabort", "xtest", "xsusldtrk", "xresldtrk"),
	group(verdict.UnsupportedISA, whyAMX,
		"ldtilecfg", "sttilecfg", "tilerelease", "tilezero", "tileloadd", "tileloaddt1", "tilestored",
		"tdpbf16ps", "tdpfp16ps", "tdpbuud", "tdpbusd", "tdpbsud", "tdpbssd"),
	group(verdict.UnsupportedISA, whyShadow,
		"incsspd", "incsspq", "rdsspd", "rdsspq", "rstorssp", "saveprevssp", "wrssd", "wrssq"),
	group(verdict.UnsupportedISA, whyWait, "umonitor", "umwait", "tpause", "monitorx", "mwaitx"),
	group(verdict.UnsupportedISA, whyState,
		"xsave", "xsave64", "xsaveopt", "xsaveopt64", "xsavec", "xsavec64", "xrstor", "xrstor64"),
	group(verdict.UnsupportedISA, whyMPX, "bndmk", "bndcl", "bndcu", "bndcn", "bndmov", "bndldx", "bndstx"),
	group(verdict.UnsupportedISA, whyDirect, "movdir64b", "enqcmd", "clzero"),
	group(verdict.UnsupportedISA, whyProtection, "wrpkru"),
	group(verdict.UnsupportedISA, whyUIntr, "testui", "clui", "stui", "senduipi"),
	group(verdict.UnsupportedISA, "needs a key that only ring 0 can load",
		"aesenc128kl", "aesdec128kl", "aesenc256kl", "aesdec256kl", "aesencwide128kl", "aesdecwide128kl",
		"aesencwide256kl", "aesdecwide256kl", "loadiwkey", "encodekey128", "encodekey256"),
	group(verdict.UnsupportedISA, "enters an enclave", "enclu"),
	group(verdict.UnsupportedISA, "probes and copies more of the stack than its operand shows", "enter"),
	group(verdict.UnsupportedISA, "waits for stores to reach memory", "mcommit"),
)

type namedRefusal struct {
	names []string
	refusal
}

func group(reason verdict.Reason, why string, names ...string) namedRefusal {
	return namedRefusal{names, refusal{reason, why}}
}

func gather(groups ...namedRefusal) map[string]refusal {
	m := make(map[string]refusal)
	for _, g := range groups {
		for _, name := range g.names {
			m[name] = g.refusal
		}
	}
	return m
}

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

// refusal is that of the mnemonic, or of an operand that needs more than the mnemonic shows.
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
