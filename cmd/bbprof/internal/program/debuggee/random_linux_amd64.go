package debuggee

import (
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// FixRandom gives the program the same random bytes in every run: the 16 that the kernel puts on its stack, used by C
// libraries for stack canaries and the like, and those from getrandom(2), /dev/random and /dev/urandom. For these, each
// of its system calls stops it twice.
func (p *Process) FixRandom() error {
	const atRandom = 25 // AT_RANDOM, linux/auxvec.h
	at, err := p.auxiliary(atRandom)
	if err != nil {
		return err
	}
	p.random = rand.NewChaCha8([32]byte([]byte("bbprof's programs get these dice")))
	var first [16]byte
	p.random.Read(first[:])
	return poke(p.pid, at, first[:]...)
}

// syscallStop is the stop signal before and after a system call (PTRACE_O_TRACESYSGOOD, ptrace(2)).
const syscallStop = unix.SIGTRAP | 0x80

func (p *Process) goOn() uintptr {
	if p.random != nil || p.onCall != nil {
		return unix.PTRACE_SYSCALL
	}
	return unix.PTRACE_CONT
}

// OnCall makes Run call f before and after each of the program's system calls, when other threads may run. nil ends
// that.
func (p *Process) OnCall(f func() error) { p.onCall = f }

// called tells of a system call, and replaces random bytes that it has just written. Before a call, its result reads
// -ENOSYS.
func (p *Process) called(t *task) error {
	if p.onCall != nil {
		if err := p.onCall(); err != nil {
			return err
		}
	}
	if p.random == nil {
		return nil
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.id, &regs); err != nil {
		return lost(err)
	}
	const failed = ^uint64(4095) // results from here on are errors (syscall(2))
	if regs.Rax == 0 || regs.Rax > failed {
		return nil
	}
	var to uint64
	switch regs.Orig_rax {
	case unix.SYS_GETRANDOM:
		to = regs.Rdi
	case unix.SYS_READ:
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.id, regs.Rdi))
		if name == "/dev/urandom" || name == "/dev/random" {
			to = regs.Rsi
		}
	}
	if to == 0 {
		return nil
	}
	var bytes [4096]byte
	for left := regs.Rax; left > 0; {
		n := min(left, uint64(len(bytes)))
		p.random.Read(bytes[:n])
		local := unix.Iovec{Base: &bytes[0]}
		local.SetLen(int(n))
		written, err := unix.ProcessVMWritev(t.id, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(to), Len: int(n)}}, 0)
		if err == unix.EFAULT || err == unix.ESRCH || err == nil && written < int(n) {
			return nil // it has unmapped the buffer, or is gone
		}
		if err != nil {
			return fmt.Errorf("writing memory at %#x: %w", to, err)
		}
		to, left = to+n, left-n
	}
	return nil
}
