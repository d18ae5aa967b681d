package debuggee

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/verdict"
)

// Entry returns the address of the program's own first instruction, which runs after the dynamic linker.
func (p *Process) Entry() (uint64, error) {
	const atEntry = 9 // AT_ENTRY, linux/auxvec.h
	entry, err := p.auxiliary(atEntry)
	return entry - p.imageShift, err
}

// auxiliary returns an entry of the auxiliary vector (System V ABI for AMD64, 3.4.3).
func (p *Process) auxiliary(kind uint64) (uint64, error) {
	aux, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", p.pid))
	if _, gone := os.Stat("/proc/self"); err != nil && gone != nil {
		return 0, &verdict.HostError{Missing: "/proc is not mounted, which tells where the program is entered", Remedy: "mount -t proc proc /proc", Err: err}
	}
	if err != nil {
		return 0, fault(err, "asking for the program's auxiliary vector")
	}
	for ; len(aux) >= 16; aux = aux[16:] {
		if binary.LittleEndian.Uint64(aux) == kind {
			return binary.LittleEndian.Uint64(aux[8:]), nil
		}
	}
	return 0, fmt.Errorf("the program's auxiliary vector has no entry %d", kind)
}

// ShiftStack lowers the start of the stack by a multiple of 16 bytes (System V ABI for AMD64, 3.4.1) before the first
// instruction. Like the kernel's randomisation (arch_align_stack), it moves argument count, pointers and auxiliary vector
// but not the strings.
func (p *Process) ShiftStack(bytes int) error {
	if bytes == 0 {
		return nil
	}
	regs, err := registers(p.pid)
	if err != nil {
		return err
	}
	block, err := p.startBlock(regs.Rsp)
	if err != nil {
		return err
	}
	regs.Rsp -= uint64(bytes)
	if err := poke(p.pid, regs.Rsp, block...); err != nil {
		return err
	}
	return setRegisters(p.pid, regs)
}

// StackDepth returns how far below the stack's top it starts: the size of the strings of arguments and environment, and
// of the pointers to them.
func (p *Process) StackDepth() (int, error) {
	regs, err := registers(p.pid)
	if err != nil {
		return 0, err
	}
	maps, err := p.Maps()
	if err != nil {
		return 0, err
	}
	stack := Find(maps, regs.Rsp)
	if stack == nil {
		return 0, &Fault{"looking for its stack", fmt.Errorf("nothing is mapped at %#x", regs.Rsp)}
	}
	return int(stack.High - regs.Rsp), nil
}

// startBlock reads the block at the initial stack pointer (System V ABI for AMD64, figure 3.9): argc, argv, 0, envp, 0,
// and pairs up to AT_NULL.
func (p *Process) startBlock(at uint64) ([]byte, error) {
	var block []byte
	var err error
	word := func() (v uint64) { // 0 after an error
		if err == nil {
			v, err = p.Word(at + uint64(len(block)))
			block = binary.LittleEndian.AppendUint64(block, v)
		}
		return v
	}
	for n := word() + 1; n > 0 && err == nil; n-- {
		word()
	}
	for word() != 0 {
	}
	for kind := uint64(1); kind != 0; {
		kind = word()
		word()
	}
	return block, err
}

// OneMapping reports whether two addresses are in the same mapping: for stack addresses, whether they are on the same
// stack.
func (p *Process) OneMapping(a, b uint64) bool {
	maps, _ := p.Maps()
	m := Find(maps, a)
	return m != nil && m == Find(maps, b)
}

func (p *Process) CPUTime() (time.Duration, error) {
	// A process's clock is ~pid<<3 | CPUCLOCK_SCHED (linux/posix-timers_types.h).
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^p.pid<<3|2), &t); err != nil {
		return 0, verdict.Refused("clock_gettime of another process's CPU time", err)
	}
	return time.Duration(t.Nano()), nil
}

func (p *Process) Detach() error {
	if err := p.hold(); err != nil {
		return err
	}
	if p.end != nil {
		return nil
	}
	for addr := range p.breaks {
		if err := p.Unbreak(addr); err != nil {
			return err
		}
	}
	for _, t := range p.tasks {
		if t.stopDue { // discards every SIGSTOP that has not arrived (signal(7))
			unix.Kill(p.pid, unix.SIGCONT)
			break
		}
	}
	for _, t := range p.tasks {
		p.release(t)
	}
	return nil
}

// Wait waits for a detached program to end, kills what it leaves running, and returns the time that it and the children it waited for
// took in user and kernel mode, to the microsecond, since its start (getrusage(2)).
func (p *Process) Wait() (End, time.Duration, error) {
	for p.end == nil {
		var usage unix.Rusage
		// A thread may have been killed by another's exit before it was detached. It is still ours to reap, and the
		// program does not end before that.
		id, status, err := p.waitUsage(&usage)
		if err != nil {
			return End{}, 0, err
		}
		pid := p.pid
		if _, err := p.dispatch(id, status); err != nil {
			return End{}, 0, err
		}
		if id == pid && p.end != nil {
			return *p.end, time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
		}
	}
	return *p.end, 0, nil
}
