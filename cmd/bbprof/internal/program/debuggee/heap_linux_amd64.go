package debuggee

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ShiftHeap raises the start of the heap before the first instruction by making the program call brk(2): allocations
// then begin at the new break. The kernel's randomisation does the same (arch_randomize_brk,
// arch/x86/kernel/process.c).
func (p *Process) ShiftHeap(bytes int) error {
	if bytes == 0 {
		return nil
	}
	saved, err := registers(p.pid)
	if err != nil {
		return err
	}
	// A syscall instruction replaces one of its own meanwhile. After an error the program cannot continue.
	var code [2]byte
	if err := peek(p.pid, saved.Rip, code[:]); err != nil {
		return err
	}
	if err := poke(p.pid, saved.Rip, 0x0f, 0x05); err != nil { // syscall
		return err
	}
	end, err := p.setBreak(saved, 0)
	if err != nil {
		return err
	}
	want := end + uint64(bytes)
	if end, err = p.setBreak(saved, want); err != nil {
		return err
	}
	if end != want {
		return &Fault{fmt.Sprintf("moving its heap up by %d bytes", bytes), unix.ENOMEM}
	}
	if err := poke(p.pid, saved.Rip, code[:]...); err != nil {
		return err
	}
	return setRegisters(p.pid, saved)
}

// setBreak makes the program, at a syscall instruction, call brk(2).
func (p *Process) setBreak(regs unix.PtraceRegs, at uint64) (uint64, error) {
	regs.Rax, regs.Rdi = unix.SYS_BRK, at // System V ABI for AMD64, A.2.1
	regs.Orig_rax = ^uint64(0)            // prevents the kernel from restarting a system call
	if err := setRegisters(p.pid, regs); err != nil {
		return 0, err
	}
	after, status, err := p.single(p.tasks[p.pid])
	if err != nil {
		return 0, err
	}
	if !after {
		return 0, &Fault{"making a system call of it", fmt.Errorf("it stopped with status %#x", uint32(status))}
	}
	regs, err = registers(p.pid)
	return regs.Rax, err
}

// Divert makes a thread at the first instruction of a function call another one with two arguments.
func (p *Process) Divert(id int, function, first, second uint64) error {
	regs, err := registers(id)
	if err != nil {
		return err
	}
	regs.Rip, regs.Rdi, regs.Rsi = function, first, second // System V ABI for AMD64, 3.2.3
	if err := setRegisters(id, regs); err != nil {
		return err
	}
	if t := p.tasks[id]; t != nil {
		t.at = nil
	}
	return nil
}
