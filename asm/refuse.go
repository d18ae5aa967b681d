package asm

import (
	"encoding/hex"
	"slices"

	"github.com/bbprof/bbprof/verdict"
)

// A refusal is why an instruction must not run in a profile.
type refusal struct {
	reason verdict.Reason // "" if the instruction may run
	why    string         // one clause
}

// refusals are the reasons for which instructions must not run, whatever the machine, as the tables name them.
var refusals = map[string]refusal{
	"leaves":    {verdict.ControlFlow, "leaves the block"},
	"trap":      {verdict.ControlFlow, "raises an exception by design"},
	"kernel":    {verdict.Syscall, "enters the kernel"},
	"ring0":     {verdict.Privileged, "needs ring 0"},
	"io":        {verdict.Privileged, "needs an I/O permission"},
	"umip":      {verdict.Privileged, "needs ring 0 where user-mode instruction prevention is on"},
	"vmx":       {verdict.Privileged, "needs ring 0 or a hypervisor"},
	"time":      {verdict.Nondeterministic, "returns another value each time"},
	"host":      {verdict.Nondeterministic, "returns what this machine or its operating system chose"},
	"segment":   {verdict.UnsupportedISA, "loads a segment register, which no profile restores"},
	"tsx":       {verdict.UnsupportedISA, "starts, ends or asks for a transaction"},
	"amx":       {verdict.UnsupportedISA, "uses tile registers, which bbprof does not set up"},
	"cet":       {verdict.UnsupportedISA, "uses the shadow stack"},
	"wait":      {verdict.UnsupportedISA, "waits for an event"},
	"xsave":     {verdict.UnsupportedISA, "loads or saves state whose size and layout the operating system chose"},
	"mpx":       {verdict.UnsupportedISA, "is a no-op or a bounds check, depending on the machine"},
	"nocache":   {verdict.UnsupportedISA, "stores past the caches"},
	"pku":       {verdict.UnsupportedISA, "changes what pages may be accessed"},
	"uintr":     {verdict.UnsupportedISA, "uses user interrupts"},
	"keylocker": {verdict.UnsupportedISA, "needs a key that only ring 0 can load"},
	"sgx":       {verdict.UnsupportedISA, "enters an enclave"},
	"enter":     {verdict.UnsupportedISA, "probes and copies more of the stack than its operand shows"},
	"mcommit":   {verdict.UnsupportedISA, "waits for stores to reach memory"},
}

// Refuse says why a decoded block must not run, naming its first offending instruction; nil if nothing speaks against
// it.
func Refuse(insts []Inst) *verdict.Rejection { return RefuseBut(insts, nil) }

// RefuseBut is Refuse with exceptions, by index.
func RefuseBut(insts []Inst, but []int) *verdict.Rejection {
	for i := range insts {
		in := &insts[i]
		r := in.raw.form.refusal
		if r.reason == "" || slices.Contains(but, i) {
			continue
		}
		why := r.why
		if b, ok := TrailingBranch(insts[:i+1]); ok && b.Target >= 0 && b.Target <= int64(insts[len(insts)-1].Offset) {
			why = "branches within the block: bbprof extract cuts such code into blocks, and with -loops takes loops"
		}
		return &verdict.Rejection{Reason: r.reason, Detail: in.Mnemonic + " " + why, Inst: in.Verdict(i)}
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

// Verdict names the instruction for a rejection; index is its place in the block, from 0.
func (in *Inst) Verdict(index int) *verdict.Inst {
	return &verdict.Inst{Index: index, Offset: in.Offset, Text: in.Text(), Hex: hex.EncodeToString(in.Bytes)}
}
