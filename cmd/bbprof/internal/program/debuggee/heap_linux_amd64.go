package debuggee

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ShiftHeap moves the start of the heap up by some bytes before the first instruction: the program
// itself is made to call brk(2), so that what an allocator asks for begins where the break then is. The
// kernel does the same when it randomises (arch_randomize_brk, arch/x86/kernel/process.c).
func (p *Process) ShiftHeap(bytes int) error {
	if bytes == 0 {
		return nil
	}
	var saved unix.PtraceRegs
	if err := unix.PtraceGetRegs(p.pid, &saved); err != nil {
		return fault(err, "reading registers")
	}
	at := uintptr(saved.Rip)
	var code [2]byte
	if _, err := unix.PtracePeekText(p.pid, at, code[:]); err != nil {
		return fault(err, "reading the code at %#x", at)
	}
	if _, err := unix.PtracePokeText(p.pid, at, []byte{0x0f, 0x05}); err != nil { // syscall
		return fault(err, "writing the code at %#x", at)
	}
	end, err := p.brk(saved, 0)
	if err == nil {
		want := end + uint64(bytes)
		if end, err = p.brk(saved, want); err == nil && end != want {
			err = &Fault{fmt.Sprintf("moving its heap up by %d bytes", bytes), unix.ENOMEM}
		}
	}
	if err != nil {
		return err
	}
	if _, err := unix.PtracePokeText(p.pid, at, code[:]); err != nil {
		return fault(err, "writing the code at %#x", at)
	}
	if err := unix.PtraceSetRegs(p.pid, &saved); err != nil {
		return fault(err, "writing registers")
	}
	return nil
}

// brk has the program call brk(addr) with the syscall instruction that stands where it does.
func (p *Process) brk(saved unix.PtraceRegs, addr uint64) (end uint64, err error) {
	regs := saved
	regs.Rax, regs.Rdi = unix.SYS_BRK, addr
	regs.Orig_rax = ^uint64(0) // it is not in a system call that the kernel would restart
	if err := unix.PtraceSetRegs(p.pid, &regs); err != nil {
		return 0, fault(err, "writing registers")
	}
	t := p.tasks[p.pid]
	p.restart(t, unix.PTRACE_SINGLESTEP)
	status, err := p.await(t)
	if err != nil {
		return 0, err
	}
	t.running = false
	if !status.Stopped() || status.StopSignal() != unix.SIGTRAP {
		return 0, &Fault{"moving its heap", fmt.Errorf("it stopped with status %#x", uint32(status))}
	}
	if err := unix.PtraceGetRegs(p.pid, &regs); err != nil {
		return 0, fault(err, "reading registers")
	}
	return regs.Rax, nil
}
