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
	saved, err := registers(p.pid)
	if err != nil {
		return err
	}
	call, done, err := p.caller(p.pid, saved)
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

// caller prepares a thread, which has these registers, to make system calls: until done, a syscall instruction
// replaces one of its own.
func (p *Process) caller(id int, saved unix.PtraceRegs) (call func(number uint64, args ...uint64) (uint64, error), done func() error, err error) {
	var code [2]byte
	if err := peek(id, saved.Rip, code[:]); err != nil {
		return nil, nil, err
	}
	if err := poke(id, saved.Rip, 0x0f, 0x05); err != nil { // syscall
		return nil, nil, err
	}
	call = func(number uint64, args ...uint64) (uint64, error) { return p.call(id, saved, number, args) }
	done = func() error {
		if err := poke(id, saved.Rip, code[:]...); err != nil {
			return err
		}
		return setRegisters(id, saved)
	}
	return call, done, nil
}

// ask has a thread make a system call.
func (p *Process) ask(t *task, number uint64, args ...uint64) (uint64, error) {
	saved, err := registers(t.id)
	if err != nil {
		return 0, err
	}
	call, done, err := p.caller(t.id, saved)
	if err != nil {
		return 0, err
	}
	got, err := call(number, args...)
	return got, errors.Join(err, done())
}

// mostHeld bounds the signals that come before one system call: there are so many kinds.
const mostHeld = 64

// call makes a thread execute one system call. Signals that come before it are delivered when the thread resumes.
func (p *Process) call(id int, saved unix.PtraceRegs, number uint64, args []uint64) (uint64, error) {
	regs := saved
	regs.Rax = number
	for i, a := range args { // System V ABI for AMD64, A.2.1
		*[]*uint64{&regs.Rdi, &regs.Rsi, &regs.Rdx, &regs.R10, &regs.R8, &regs.R9}[i] = a
	}
	regs.Orig_rax = ^uint64(0) // prevents the kernel from restarting a system call
	if err := setRegisters(id, regs); err != nil {
		return 0, err
	}
	t := p.tasks[id]
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
			unix.Tgkill(p.pid, id, sig) // if it is gone, wait reports it
		}
	}
	regs, err := registers(id)
	return regs.Rax, err
}
