package mapping

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// resolve returns the page that a fault needs, or explains why none would help.
func (p Plan) resolve(stop tracee.Stop, im harness.Image) (mapper.Page, error) {
	index, regs, ok := p.locate(stop, im)
	switch {
	case !ok && stop.Signal == tracee.SIGFPE: // at the fwait after the copies
		return mapper.Page{}, &verdict.Rejection{Reason: verdict.SIGFPE, Detail: "the block leaves an unmasked x87 exception pending"}
	case !ok:
		return mapper.Page{}, fmt.Errorf("signal %d, code %d, address %#x at %#x, outside of the block's copies", stop.Signal,
			stop.Code, stop.Addr, stop.Regs.RIP)
	}
	addr := stop.Addr
	switch {
	case stop.Signal == tracee.SIGSEGV && (stop.Code == tracee.SegvMapErr || stop.Code == tracee.SegvAccErr):
		if why := p.unmappable(addr); why != "" {
			return mapper.Page{}, p.reject(verdict.Unmappable, index, &addr, "%s", why)
		}
		copy, _, _ := im.Locate(stop.Regs.RIP)
		return mapper.Page{Addr: layout.PageOf(addr), Inst: index, Fault: addr, Copy: copy}, nil
	case (stop.Signal == tracee.SIGSEGV || stop.Signal == tracee.SIGBUS) && stop.Code == tracee.SiKernel:
		return mapper.Page{}, p.protection(index, regs)
	case stop.Signal == tracee.SIGBUS && stop.Code == tracee.BusAdrAln:
		return mapper.Page{}, p.alignmentCheck(stop, index, regs)
	}
	return mapper.Page{}, p.signalError(stop, index)
}

// signalError explains a signal that no page would have prevented.
func (p Plan) signalError(stop tracee.Stop, index int) error {
	addr := stop.Addr
	switch stop.Signal {
	case tracee.SIGBUS:
		return p.reject(verdict.SIGBUS, index, &addr, "bus error, code %d, at %#x", stop.Code, addr)
	case tracee.SIGFPE:
		return p.reject(verdict.SIGFPE, index, nil, "%s", fpeText(stop.Code))
	case tracee.SIGILL:
		return p.reject(verdict.SIGILL, index, nil, "this CPU does not run the instruction")
	case tracee.SIGTRAP:
		return p.reject(verdict.SIGTRAP, index, nil, "a trap, code %d", stop.Code)
	case tracee.SIGSYS:
		return p.reject(verdict.Syscall, index, nil, "a system call was stopped")
	}
	return p.reject(verdict.SIGSEGV, index, &addr, "signal %d, code %d, at %#x", stop.Signal, stop.Code, addr)
}

// reject returns a rejection for an instruction, by its index, and the accessed address if known.
func (p Plan) reject(reason verdict.Reason, index int, addr *uint64, format string, args ...any) *verdict.Rejection {
	return &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf(format, args...), Inst: p.Insts[index].Verdict(index), Address: addr}
}

// unmappable explains why an address is unmappable, or returns "".
func (p Plan) unmappable(addr uint64) string {
	switch {
	case p.owns(addr, 1):
		return fmt.Sprintf("%#x is in bbprof's own region", addr)
	case addr >= 1<<63:
		return fmt.Sprintf("%#x belongs to the kernel", addr)
	case addr >= layout.UserEnd:
		return fmt.Sprintf("%#x is above user space, which ends at %#x", addr, uint64(layout.UserEnd))
	}
	return ""
}

// locate finds the instruction that caused a stop. A trap is reported after its
// instruction, everything else at it; so is int1 on AMD under a hypervisor.
func (p Plan) locate(stop tracee.Stop, im harness.Image) (index int, regs asm.Regs, ok bool) {
	rip := stop.Regs.RIP
	index, ok = p.instAt(rip, im)
	if (stop.Signal == tracee.SIGTRAP || stop.Signal == tracee.SIGSYS) && !(ok && p.Insts[index].Mnemonic == "int1") {
		index, ok = p.instAt(rip-1, im)
	}
	if !ok {
		return 0, regs, false
	}
	return index, p.regs(stop.Regs.GPR, index), true
}

// regs returns what the addresses of an instruction's operands follow from, given the general registers before it.
func (p Plan) regs(gpr [16]uint64, index int) asm.Regs {
	in := &p.Insts[index]
	return asm.Regs{GPR: gpr, RIP: p.home() + uint64(in.Offset+len(in.Bytes)), FSBase: p.Init.FSBase, GSBase: p.Init.GSBase}
}

// instAt returns the instruction that contains the byte at an address, in any copy.
func (p Plan) instAt(addr uint64, im harness.Image) (index int, ok bool) {
	_, offset, ok := im.Locate(addr)
	if !ok && im.Own { // the branch is the only code of the block after the copies
		return len(p.Insts) - 1, true
	}
	for i := range p.Insts {
		if p.Insts[i].Offset <= offset {
			index = i
		}
	}
	return index, ok
}

// protection explains a general protection or stack fault, for which the CPU reports no
// address: an operand is non-canonical, or not aligned as the instruction demands.
func (p Plan) protection(index int, regs asm.Regs) error {
	in := &p.Insts[index]
	for _, m := range in.Mem {
		addr := m.Addr(&regs)
		if last := addr + uint64(max(m.Width, 1)) - 1; !canonical(addr) || !canonical(last) {
			if canonical(addr) {
				addr = last
			}
			return p.reject(verdict.Unmappable, index, &addr, "%#x is not canonical: its upper bits are not all equal", addr)
		}
	}
	for _, m := range in.Mem {
		addr := m.Addr(&regs)
		if in.Align > 1 && !m.Implicit && addr%uint64(in.Align) != 0 {
			return p.reject(verdict.UnalignedOperand, index, &addr, "%#x is not a multiple of %d, as the instruction demands", addr, in.Align)
		}
	}
	return p.reject(verdict.SIGSEGV, index, nil, "a general protection fault that no operand's address explains")
}

// alignmentCheck explains an access that is not aligned by its own width, where the kernel
// knows no address either. The flag makes the CPU check every access; without it, only Linux
// asks for a check, of locked accesses that cross a cache line (split_lock_detect=fatal).
func (p Plan) alignmentCheck(stop tracee.Stop, index int, regs asm.Regs) error {
	const alignmentFlag = 1 << 18 // AC (SDM vol. 1, 3.4.3.3)
	why := "a locked access across two cache lines, which this kernel forbids (split_lock_detect)"
	if stop.Regs.Flags&alignmentFlag != 0 {
		why = "an unaligned access while the block had set the alignment-check flag"
	}
	for _, m := range p.Insts[index].Mem {
		if addr := m.Addr(&regs); m.Width > 1 && addr%uint64(m.Width) != 0 {
			return p.reject(verdict.SIGBUS, index, &addr, "%s", why)
		}
	}
	return p.reject(verdict.SIGBUS, index, nil, "%s", why)
}

// canonical reports whether bits 63 to 47 are equal (SDM vol. 1, 3.3.7.1), as 4-level paging
// demands. With 5-level paging the CPU faults later, and resolve sees the address.
func canonical(addr uint64) bool {
	top := int64(addr) >> 47
	return top == 0 || top == -1
}

// failedCall explains a failed system call of mapping.
func (p Plan) failedCall(m Mapping, stop tracee.Stop) error {
	const eperm, eacces, enomem = 1, 13, 12 // asm-generic/errno-base.h
	if len(m.Pages) == 0 {
		return fmt.Errorf("clearing the child's address space: errno %d", stop.Errno)
	}
	page := m.Pages[len(m.Pages)-1]
	switch stop.Errno {
	case eperm, eacces:
		return p.reject(verdict.Unmappable, page.Inst, &page.Fault,
			"%#x lies below vm.mmap_min_addr, where only CAP_SYS_RAWIO may map (run as root, or sysctl vm.mmap_min_addr=0)", page.Fault)
	case enomem:
		return p.reject(verdict.Unmappable, page.Inst, &page.Fault,
			"the kernel has no memory, or no mapping left (vm.max_map_count), for the page of %#x", page.Fault)
	}
	return fmt.Errorf("mapping the page at %#x: errno %d", page.Addr, stop.Errno)
}

// fpeText describes si_code of SIGFPE (asm-generic/siginfo.h).
func fpeText(code int) string {
	switch code {
	case 1:
		return "divide error: the divisor is 0 or the quotient does not fit"
	case 2:
		return "integer overflow"
	}
	return fmt.Sprintf("arithmetic exception, code %d", code)
}
