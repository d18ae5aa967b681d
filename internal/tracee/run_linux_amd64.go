package tracee

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// XSave returns a stopped child's extended state in XSAVE format.
func (t *Tracee) XSave() ([]byte, error) {
	if t.dead != nil {
		return nil, t.dead
	}
	area := make([]byte, xsaveSize)
	const xstate = 0x202 // NT_X86_XSTATE (linux/elf.h)
	iov := unix.Iovec{Base: &area[0]}
	iov.SetLen(len(area))
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(t.pid), xstate, uintptr(unsafe.Pointer(&iov)), 0, 0)
	switch {
	case e == unix.ENODEV || e == unix.EINVAL:
		return nil, &verdict.HostError{Missing: "the kernel does not tell the child's vector registers (PTRACE_GETREGSET of NT_X86_XSTATE)",
			Remedy: "use a CPU and a kernel with XSAVE", Err: e}
	case e != 0:
		return nil, t.gone("reading the extended state", e)
	}
	return area[:iov.Len], nil
}

// xsaveSize exceeds the largest state: some 11 KiB with AMX's tiles.
const xsaveSize = 16 << 10

// Resume is the address to which code started by [Run] finally returns.
func (t *Tracee) Resume() uint64 { return t.stub.resume }

// Alive reports whether the child can still run lists.
func (t *Tracee) Alive() bool { return t.dead == nil && t.pid > 0 }

// Do makes the child work through ops and returns its next stop: the end of the list, a failed system call, or a
// signal, which is not delivered. After a signal the next Do starts again from the stub. A child that does not
// stop within limit is killed: limit is CPU time, of which the child gets at least nine tenths (see ration). The
// error is a *DeadError if the child is gone; then only Close is allowed.
func (t *Tracee) Do(ops []Op, limit time.Duration) (Stop, error) {
	if t.dead != nil {
		return Stop{}, t.dead
	}
	if len(ops) > layout.MaxOps {
		return Stop{}, fmt.Errorf("%d steps in one list, at most %d fit", len(ops), layout.MaxOps)
	}
	writeOps(t.mem[offOps:], ops)
	t.SetWord(layout.SlotOps, layout.Ops)
	t.SetWord(layout.SlotOpsEnd, layout.Ops+uint64(len(ops))*layout.OpSize)
	from := cmp.Or(t.next, t.stub.run)
	t.next, t.dryRunEnd = 0, 0
	return t.start(from, limit, nil)
}

// Try is Do for an image of a dry run, from entry to the int3 before end, after the system calls in ops. The Stop
// is Done if the image reaches its end.
func (t *Tracee) Try(ops []Op, entry, end uint64, limit time.Duration) (Stop, error) {
	return t.Step(ops, entry, end, limit, nil)
}

// Step is Try by single steps: visit sees the registers before each instruction but the first, including the stub's.
// It takes 18 µs a step. It requires a dry run because code can detect stepping: pushf then pushes a set trap flag.
func (t *Tracee) Step(ops []Op, entry, end uint64, limit time.Duration, visit func(Regs)) (Stop, error) {
	if t.dead != nil {
		return Stop{}, t.dead
	}
	if len(ops) >= layout.MaxDryRunOps {
		return Stop{}, fmt.Errorf("%d steps in a dry run's list, at most %d fit", len(ops), layout.MaxDryRunOps-1)
	}
	writeOps(t.at(layout.DryRunList), append(ops[:len(ops):len(ops)], Run(entry, 1)))
	t.dryRunEnd = end
	if slices.Contains(ops, OpenCounter(0)[0]) {
		t.next = t.stub.counted
	}
	t.next = cmp.Or(t.next, t.stub.measure)
	return t.start(t.stub.dryRun, limit, visit)
}

func (t *Tracee) start(rip uint64, limit time.Duration, visit func(Regs)) (Stop, error) {
	regs := t.regs
	regs.Rip = rip
	if err := unix.PtraceSetRegs(t.pid, &regs); err != nil {
		return Stop{}, t.gone("writing registers", err)
	}
	t.watch.start(limit)
	stop, err := t.nextStop(visit)
	if outcome := t.watch.stop(); outcome != inTime {
		return Stop{}, t.late(outcome, limit)
	}
	return stop, err
}

// nextStop continues the child until it stops by itself; if visit is not nil, by single steps that visit sees.
func (t *Tracee) nextStop(visit func(Regs)) (Stop, error) {
	for {
		var err error
		if visit != nil {
			err = unix.PtraceSingleStep(t.pid)
		} else {
			err = unix.PtraceCont(t.pid, 0)
		}
		if err != nil {
			return Stop{}, t.gone("continuing", err)
		}
		status, err := t.wait()
		if err != nil {
			return Stop{}, err
		}
		stop, ours, err := t.classify(status.StopSignal())
		switch {
		case err != nil:
			return stop, err
		case ours && visit != nil && stop.Signal == SIGTRAP && (stop.Code == trapTrace || stop.Code == trapSyscall):
			visit(stop.Regs)
		case ours:
			return stop, nil
		}
		// Otherwise the signal came from outside: drop it and continue.
	}
}

// si_code of a single step, and of one over a system call, for which Linux uses a breakpoint's
// (asm-generic/siginfo.h; user_single_step_report). An int3 has SI_KERNEL.
const (
	trapTrace   = 2 // TRAP_TRACE
	trapSyscall = 1 // TRAP_BRKPT
)

// late reaps a child that the watchdog has killed, even if it stopped by itself just before.
func (t *Tracee) late(why outcome, limit time.Duration) error {
	t.end()
	if why == starved {
		t.dead.Status = fmt.Sprintf("killed after %v, in which this machine gave it less than %v of CPU time", patience*limit, limit)
		return t.dead
	}
	t.dead.Overtime, t.dead.Limit = true, limit
	return t.dead
}

func writeOps(base []byte, ops []Op) {
	for i, op := range ops {
		b := base[i*layout.OpSize:]
		binary.LittleEndian.PutUint64(b, op.number)
		for j, a := range op.args {
			binary.LittleEndian.PutUint64(b[8+8*j:], a)
		}
	}
}

// classify turns a signal stop into a Stop; ours is false if the child did not cause the signal.
func (t *Tracee) classify(sig unix.Signal) (stop Stop, ours bool, err error) {
	switch sig {
	case unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS:
	default:
		return Stop{}, false, nil
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.pid, &regs); err != nil {
		return Stop{}, false, t.gone("reading registers", err)
	}
	if regs.Cs != t.regs.Cs {
		// Forged code can leave 64-bit mode (Linux returns from sysenter in 32-bit mode). ptrace then exchanges i386
		// registers, and 64-bit ones cannot be restored.
		t.end()
		t.dead.Status = fmt.Sprintf("killed after it had left 64-bit mode, by %v", sig)
		return Stop{}, false, t.dead
	}
	if sig == unix.SIGTRAP {
		switch regs.Rip {
		case t.stub.done:
			return Stop{Done: true, FailedOp: -1}, true, nil
		case t.stub.failed, t.stub.failedDryRun:
			at := t.Word(layout.SlotOps) - layout.Ops
			if regs.Rip == t.stub.failedDryRun {
				at = regs.Rbx - layout.DryRunList
			}
			return Stop{FailedOp: int(at) / layout.OpSize, Errno: int(-int64(regs.Rax))}, true, nil
		case t.stub.stuck:
			return Stop{}, false, settling("changing sides", unix.Errno(-int64(regs.Rax)))
		case t.dryRunEnd:
			return Stop{Done: true, FailedOp: -1, Regs: general(&regs)}, true, nil
		}
	}
	si, err := getSiginfo(t.pid)
	if err != nil {
		return Stop{}, false, t.gone("asking for the signal", err)
	}
	if si.code <= 0 { // SI_USER, SI_TKILL, …: sent by a process, not raised by an instruction
		return Stop{}, false, nil
	}
	return Stop{
		FailedOp: -1,
		Signal:   int(sig), Code: int(si.code), Addr: si.addr,
		Regs: general(&regs),
	}, true, nil
}

func general(regs *unix.PtraceRegs) Regs {
	return Regs{
		GPR: [16]uint64{
			regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi, regs.Rdi,
			regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15,
		},
		RIP: regs.Rip, Flags: regs.Eflags,
	}
}

// wait waits for the next stop of an unreaped child. If it has ended, wait reaps it and sets dead.
func (t *Tracee) wait() (unix.WaitStatus, error) {
	var status unix.WaitStatus
	for {
		// Not a raw call, which would hold the Go runtime's processor: a garbage collection would then wait for the
		// child, and the watchdog for the collection.
		_, err := unix.Wait4(t.pid, &status, unix.WALL, nil)
		if err == unix.EINTR { // a Go runtime signal to this thread
			continue
		}
		if err != nil {
			t.Kill()
			t.dead = &DeadError{Status: "wait4: " + err.Error()}
			if err != unix.ECHILD { // otherwise somebody else has reaped it
				t.dead.host = settling("waiting for it", err)
			}
			t.reaped()
			return 0, t.dead
		}
		break
	}
	switch {
	case status.Exited():
		t.dead = &DeadError{Status: fmt.Sprintf("exited with status %d", status.ExitStatus())}
	case status.Signaled():
		t.dead = &DeadError{Status: "killed by " + unix.SignalName(status.Signal()), Signal: int(status.Signal())}
	default:
		return status, nil
	}
	t.reaped()
	return 0, t.dead
}

// gone returns the error of a failed ptrace request. ESRCH means that the child is lost: it was killed while
// stopped, or the caller is not on the attached thread, and then nothing would ever stop the child again.
func (t *Tracee) gone(what string, err error) error {
	if err != unix.ESRCH {
		return fmt.Errorf("%s: %w", what, err)
	}
	t.end()
	return t.dead
}

func (t *Tracee) end() {
	t.Kill()
	for t.dead == nil {
		t.wait()
	}
}
