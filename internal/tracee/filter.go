package tracee

import (
	"slices"

	"github.com/bbprof/bbprof/internal/layout"
)

// The system-call filter, in classic BPF over struct seccomp_data (linux/seccomp.h). Checking the address is not
// enough: a block that jumps to the gate with registers of its choice could make any call. So the filter checks
// the arguments too: permitted calls affect only pages outside the own region, or open and close parts of it in
// the intended ways. Nothing is ever both writable and executable.

// bpfInsn is struct sock_filter (linux/filter.h).
type bpfInsn struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const (
	bpfLoad = 0x20 // BPF_LD | BPF_W | BPF_ABS
	bpfJeq  = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	bpfJge  = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	bpfRet  = 0x06 // BPF_RET | BPF_K

	retAllow = 0x7fff_0000 // SECCOMP_RET_ALLOW
	retTrap  = 0x0003_0000 // SECCOMP_RET_TRAP: SIGSYS, so that the child survives and the monitor sees it

	archX8664 = 0xc000_003e // AUDIT_ARCH_X86_64

	offNr   = 0 // offsets in struct seccomp_data
	offArch = 4
	offIP   = 8
	offArgs = 16
)

// check compares a 32-bit word of seccomp_data.
type check struct {
	off  uint32
	op   uint16 // bpfJeq or bpfJge
	k    uint32
	want bool
}

func eq(off, k uint32) check { return check{off, bpfJeq, k, true} }

// eq64 compares the 64-bit field at off, low word first.
func eq64(off uint32, v uint64) []check {
	return []check{eq(off, uint32(v)), eq(off+4, uint32(v>>32))}
}

func arg(i int) uint32 { return uint32(offArgs + 8*i) }

func argIs(i int, v uint64) []check { return eq64(arg(i), v) }

// filter allows a call if all checks of any rule hold, and traps everything else.
func filter(gate uint64, counters int, window uint64) []bpfInsn {
	fromGate := append([]check{eq(offArch, archX8664)}, eq64(offIP, gate)...)
	call := func(nr uint32, args ...[]check) []check {
		return slices.Concat(fromGate, []check{eq(offNr, nr)}, slices.Concat(args...))
	}
	before, after := UsageBefore(), UsageAfter()
	remap := MapFrame(0, 0)
	fromFrames := []check{
		eq(arg(0)+4, uint32(layout.Frames>>32)),
		{arg(0), bpfJge, uint32(layout.Frames & 0xffff_ffff), true},
		{arg(0), bpfJge, uint32((layout.Frames + layout.FramesSize) & 0xffff_ffff), false},
	}
	asRemap := call(sysMremap, fromFrames, argIs(1, 0), argIs(2, layout.PageSize), argIs(3, remap.args[3]))
	var rules [][]check
	for _, op := range UnmapAll(window) {
		rules = append(rules, call(sysMunmap, argIs(0, op.args[0]), argIs(1, op.args[1])))
	}
	rules = append(rules,
		call(sysGetrusage, argIs(0, 0), argIs(1, before.args[1])),
		call(sysGetrusage, argIs(0, 0), argIs(1, after.args[1])),
	)
	for _, where := range outside(arg(4), window) {
		rules = append(rules, slices.Concat(asRemap, where))
	}
	for _, op := range slices.Concat(toDryRun(counters, window), toMeasure(counters, window), OpenCounter(window), closeCounter(window)) {
		rules = append(rules, call(sysMprotect, argIs(0, op.args[0]), argIs(1, op.args[1]), argIs(2, op.args[2])))
	}
	return assemble(rules)
}

// outside lists the ways in which an address can be outside both the own region and the window: its upper half
// differs from both, or it is beyond the end. The own region starts at a lower half of 0, the window at a multiple
// of layout.WindowAlign.
func outside(off uint32, window uint64) [][]check {
	upper := func(region uint64, is bool) check { return check{off + 4, bpfJeq, uint32(region >> 32), is} }
	beyond := check{off, bpfJge, uint32(layout.End & 0xffff_ffff), true}
	if window == 0 {
		return [][]check{{upper(layout.Base, false)}, {beyond}}
	}
	return [][]check{
		{upper(layout.Base, false), upper(window, false)},
		{upper(layout.Base, true), beyond},
		{upper(window, true), {off, bpfJge, uint32(window), false}},
		{upper(window, true), {off, bpfJge, uint32(window + layout.WindowSize), true}},
	}
}

// assemble emits the rules in sequence; a failing check jumps to the next rule; after the last comes the trap.
func assemble(rules [][]check) []bpfInsn {
	var out []bpfInsn
	for _, r := range rules {
		n := 2*len(r) + 1
		for i, c := range r {
			out = append(out, bpfInsn{code: bpfLoad, k: c.off})
			next := uint8(n - 2*i - 2) // from the end of this check to the end of the rule's return
			if c.want {
				out = append(out, bpfInsn{c.op, 0, next, c.k})
			} else {
				out = append(out, bpfInsn{c.op, next, 0, c.k})
			}
		}
		out = append(out, bpfInsn{code: bpfRet, k: retAllow})
	}
	return append(out, bpfInsn{code: bpfRet, k: retTrap})
}
