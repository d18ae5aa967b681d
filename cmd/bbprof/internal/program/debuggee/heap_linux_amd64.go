package debuggee

import (
	"errors"
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
	t := p.tasks[p.pid]
	end, err := p.ask(t, unix.SYS_BRK, 0)
	if err != nil {
		return err
	}
	want := end + uint64(bytes)
	if end, err = p.ask(t, unix.SYS_BRK, want); err != nil {
		return err
	}
	if end != want {
		return &Fault{fmt.Sprintf("moving its heap up by %d bytes", bytes), unix.ENOMEM}
	}
	return nil
}

// ask has a thread make a system call: for that, a syscall instruction replaces one of its own.
func (p *Process) ask(t *task, number uint64, args ...uint64) (uint64, error) {
	saved, err := registers(t.id)
	if err != nil {
		return 0, err
	}
	var code [2]byte
	if err := peek(t.id, saved.Rip, code[:]); err != nil {
		return 0, err
	}
	if err := poke(t.id, saved.Rip, 0x0f, 0x05); err != nil { // syscall
		return 0, err
	}
	got, err := p.call(t, saved, number, args)
	return got, errors.Join(err, poke(t.id, saved.Rip, code[:]...), setRegisters(t.id, saved))
}

// mostHeld bounds the signals that come before one system call: there are so many kinds.
const mostHeld = 64

// call makes a thread execute one system call. Signals that come before it are delivered when the thread resumes.
func (p *Process) call(t *task, regs unix.PtraceRegs, number uint64, args []uint64) (uint64, error) {
	regs.Rax = number
	for i, a := range args { // System V ABI for AMD64, A.2.1
		*[]*uint64{&regs.Rdi, &regs.Rsi, &regs.Rdx, &regs.R10, &regs.R8, &regs.R9}[i] = a
	}
	regs.Orig_rax = ^uint64(0) // prevents the kernel from restarting a system call
	if err := setRegisters(t.id, regs); err != nil {
		return 0, err
	}
	var held []unix.Signal
	if t.deliver != 0 {
		held, t.deliver = append(held, t.deliver), 0
	}
	for {
		after, status, err := p.single(t)
		if err != nil {
			return 0, err
		}
		if after {
			break
		}
		if !status.Stopped() || len(held) == mostHeld {
			return 0, &Fault{"making a system call of it", fmt.Errorf("it stopped with status %#x", uint32(status))}
		}
		held = append(held, status.StopSignal())
	}
	for i, sig := range held {
		if i == 0 {
			t.deliver = sig
		} else {
			unix.Tgkill(p.pid, t.id, sig) // if it is gone, wait reports it
		}
	}
	regs, err := registers(t.id)
	return regs.Rax, err
}
