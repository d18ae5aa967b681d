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
	call, done, err := p.caller(saved)
	if err != nil {
		return err
	}
	end, err := call(unix.SYS_BRK, 0)
	if err != nil {
		return err
	}
	want := end + uint64(bytes)
	if end, err = call(unix.SYS_BRK, want); err != nil {
		return err
	}
	if end != want {
		return &Fault{fmt.Sprintf("moving its heap up by %d bytes", bytes), unix.ENOMEM}
	}
	return done()
}

// caller prepares the program, which has these registers, to make system calls: until done, a syscall instruction
// replaces one of its own. After an error the program cannot continue.
func (p *Process) caller(saved unix.PtraceRegs) (call func(number uint64, args ...uint64) (uint64, error), done func() error, err error) {
	var code [2]byte
	if err := peek(p.pid, saved.Rip, code[:]); err != nil {
		return nil, nil, err
	}
	if err := poke(p.pid, saved.Rip, 0x0f, 0x05); err != nil { // syscall
		return nil, nil, err
	}
	call = func(number uint64, args ...uint64) (uint64, error) { return p.call(saved, number, args) }
	done = func() error {
		if err := poke(p.pid, saved.Rip, code[:]...); err != nil {
			return err
		}
		return setRegisters(p.pid, saved)
	}
	return call, done, nil
}

// call makes the program execute one system call.
func (p *Process) call(saved unix.PtraceRegs, number uint64, args []uint64) (uint64, error) {
	regs := saved
	regs.Rax = number
	for i, a := range args { // System V ABI for AMD64, A.2.1
		*[]*uint64{&regs.Rdi, &regs.Rsi, &regs.Rdx, &regs.R10, &regs.R8}[i] = a
	}
	regs.Orig_rax = ^uint64(0) // prevents the kernel from restarting a system call
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
