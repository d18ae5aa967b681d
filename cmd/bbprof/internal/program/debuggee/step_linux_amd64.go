package debuggee

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Foreign sets the callback for a breakpoint that another thread reaches while the one stepped by [Process.Step] waits
// in a system call: true ends the step.
func (p *Process) Foreign(f func(thread int, at asm.Regs) bool) { p.foreign = f }

// Step executes one instruction of a thread while all others are stopped, like gdb's scheduler-locking, so that nothing
// preempts it, not even a Go program's runtime. The others run only while the thread waits in a system call.
func (p *Process) Step(id int) (Step, error) {
	t := p.tasks[id]
	if t == nil || p.end != nil {
		return Step{Gone: true, End: p.end}, nil
	}
	before, err := p.Regs(id)
	if err != nil {
		return Step{}, err
	}
	if b, ok := p.breaks[before.RIP]; ok {
		if err := poke(id, before.RIP, b); err != nil {
			return Step{}, err
		}
		defer func() {
			if p.end == nil && p.breaks[before.RIP] == b {
				poke(p.anyThread(), before.RIP, int3)
			}
		}()
	}
	step := stepper{Process: p, t: t, before: before, delivered: t.deliver != 0, resumed: t.interrupted}
	if p.copies.called = step.kind() == systemCall; p.copies.called && (len(p.tasks) > 1 || mapping[before.GPR[asm.RAX]]) {
		p.copies.doubt = true
	}
	return step.run()
}

// mapping are the system calls by which a thread changes where its own code is.
var mapping = map[uint64]bool{unix.SYS_MMAP: true, unix.SYS_MPROTECT: true, unix.SYS_MUNMAP: true, unix.SYS_MREMAP: true,
	unix.SYS_REMAP_FILE_PAGES: true, unix.SYS_PKEY_MPROTECT: true, unix.SYS_SHMAT: true, unix.SYS_SHMDT: true}

type stepper struct {
	*Process
	t         *task
	before    asm.Regs
	delivered bool // a signal is delivered with it
	resumed   bool // it begins within a system call
}

func (s *stepper) code() []byte {
	code := make([]byte, 15) // the longest (Intel SDM vol. 2, 2.3.11)
	n, _ := unix.PtracePeekText(s.t.id, uintptr(s.before.RIP), code)
	return code[:n]
}

type special uint8

const (
	ordinary   special = iota
	systemCall         // may wait for another thread
	pushFlags          // stores the trap flag
)

// kind classifies the stepped instruction. Reading the memory each time would take a fifth of a step.
func (s *stepper) kind() special {
	if s.resumed {
		return systemCall
	}
	k, known := s.special[s.before.RIP]
	if !known {
		switch code := s.code(); {
		case len(code) > 1 && code[0] == 0x0f && code[1] == 0x05:
			k = systemCall
		case len(code) > 1 && (code[0] == 0x9c || code[0] == 0x66 && code[1] == 0x9c):
			k = pushFlags
		}
		s.special[s.before.RIP] = k
	}
	return k
}

// clearTrap clears the trap flag, set by the tracer, in pushed flags. A program that steps itself loses its own flag
// there.
func (s *stepper) clearTrap(rsp uint64) error {
	const trap = 1 // TF is bit 8: bit 0 of the second byte
	var b [1]byte
	if err := peek(s.t.id, rsp+1, b[:]); err != nil || b[0]&trap == 0 {
		return err
	}
	return poke(s.t.id, rsp+1, b[0]&^trap)
}

func (s *stepper) run() (Step, error) {
	s.t.awaited = true
	defer func() { s.t.awaited = false }()
	syscall := s.kind() == systemCall
	s.restart(s.t, unix.PTRACE_SINGLESTEP)
	for {
		status, elsewhere, err := s.awaitStep(syscall)
		if err != nil {
			return Step{}, err
		}
		if elsewhere != 0 {
			return Step{Elsewhere: elsewhere}, nil
		}
		if s.end != nil || !status.Stopped() {
			return s.gone(status, syscall)
		}
		switch trap := status.StopSignal() == unix.SIGTRAP; {
		case trap && status.TrapCause() > 0: // within a system call that starts a task, or exec
			if _, err := s.dispatch(s.t.id, status); err != nil {
				return Step{}, err
			}
			if s.end != nil {
				return s.gone(status, syscall)
			}
		case status.StopSignal() == unix.SIGSTOP:
			s.t.running, s.t.stopDue = false, false
		case !trap:
			s.t.running, s.t.deliver = false, status.StopSignal()
			return Step{}, nil
		default:
			s.t.running = false
			step, err := s.trapped()
			if errors.Is(err, unix.ESRCH) { // killed since
				continue
			}
			if err == nil && step.Executed && s.kind() == pushFlags {
				err = s.clearTrap(step.Regs.GPR[asm.RSP])
			}
			return step, err
		}
		s.restart(s.t, unix.PTRACE_SINGLESTEP)
	}
}

// gone is the outcome if the thread ended. A system call that ended it was executed.
func (s *stepper) gone(status unix.WaitStatus, syscall bool) (Step, error) {
	if s.end == nil {
		s.dispatch(s.t.id, status)
	}
	// A signal, or exit_group(2), ends all threads.
	for s.end == nil && (status.Signaled() || syscall && s.before.GPR[asm.RAX] == unix.SYS_EXIT_GROUP) {
		if _, _, err := s.next(); err != nil {
			return Step{}, err
		}
	}
	killed := s.end != nil && s.end.Signal != 0
	return Step{Executed: syscall && !killed, Gone: true, End: s.end}, nil
}

func (s *stepper) trapped() (Step, error) {
	after, err := s.Regs(s.t.id)
	if err != nil {
		return Step{}, err
	}
	if s.resumed {
		return Step{Regs: after}, nil
	}
	step := Step{Executed: true, Regs: after}
	if after.RIP == s.before.RIP {
		in, _ := asm.StepOver(s.code())
		step.Again = in.Repeats
	}
	if s.delivered || after.RIP == s.before.RIP+1 { // as after an int3, which has 1 byte
		code, err := trapCode(s.t.id)
		if err != nil {
			return Step{}, fmt.Errorf("ptrace: %w", err)
		}
		switch code {
		case int32(unix.SIGTRAP): // ptrace_notify in signal_setup_done: a handler is about to start
			return Step{Regs: after}, nil
		case 0x80: // the program's own int3
			s.t.deliver = unix.SIGTRAP
		}
	}
	return step, nil
}

const (
	blocks   = 10 * time.Millisecond // a slower system call may wait for another thread
	pollEach = 50 * time.Microsecond
	moment   = 200 * time.Microsecond
)

// awaitStep waits for the stepped thread. While a system call waits, the other threads run until it returns.
func (s *stepper) awaitStep(syscall bool) (status unix.WaitStatus, elsewhere int, err error) {
	if !syscall {
		status, err = s.await(s.t)
		return status, 0, err
	}
	if !waits(s.before) {
		for end := time.Now().Add(blocks); time.Now().Before(end); time.Sleep(pollEach) {
			id, err := unix.Wait4(s.t.id, &status, unix.WALL|unix.WNOTHREAD|unix.WNOHANG, nil)
			if id == s.t.id {
				return status, 0, nil
			}
			if err == unix.ECHILD { // by exec it has become the first thread
				break
			}
			if err != nil && err != unix.EINTR {
				return 0, 0, verdict.Refused("wait4", err)
			}
		}
	}
	return s.awaitWithOthers()
}

// waits reports whether a system call inherently waits for others; numbers are from
// arch/x86/entry/syscalls/syscall_64.tbl.
func waits(r asm.Regs) bool {
	switch r.GPR[asm.RAX] {
	case unix.SYS_SCHED_YIELD, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP:
		return true
	case unix.SYS_FUTEX:
		switch r.GPR[asm.RSI] & 0x7f { // linux/futex.h: without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME
		case 0, 6, 9, 11, 13: // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2
			return true
		}
	}
	return false
}

func (s *stepper) awaitWithOthers() (status unix.WaitStatus, elsewhere int, err error) {
	for s.end == nil {
		s.resume()
		if s.t.kept != nil {
			// Let them run a moment even if it returned at once; otherwise a thread that spins for another's lock would
			// spin forever.
			time.Sleep(moment)
			if err := s.hold(); err != nil || s.end != nil {
				return 0, 0, err
			}
			status, err = s.await(s.t)
			return status, 0, err
		}
		other, hit, err := s.next()
		if err != nil {
			return 0, 0, err
		}
		if !hit {
			continue
		}
		at, err := s.Regs(other.id)
		if err == nil && s.foreign != nil && s.foreign(other.id, at) {
			return 0, other.id, nil
		}
		if err == nil {
			err = s.stepOver(other)
		}
		if err = lost(err); err != nil {
			return 0, 0, err
		}
	}
	return 0, 0, nil
}

// stepOver steps a task past a breakpoint, if it stands at one. For a thread, the others are held, which would run through it; for a child
// they are not, since one may be in vfork(2), and wait for it.
func (p *Process) stepOver(t *task) error {
	regs, err := p.Regs(t.id)
	if err != nil {
		return err
	}
	b, ok := p.breaks[regs.RIP]
	if !ok {
		return nil
	}
	if t.kind == thread {
		if err := p.hold(); err != nil || p.end != nil {
			return err
		}
	}
	if err := poke(t.id, regs.RIP, b); err != nil {
		return err
	}
	after, status, err := p.single(t)
	if err != nil || p.end != nil {
		return err
	}
	if !after {
		if _, err := p.dispatch(t.id, status); err != nil || p.end != nil {
			return err
		}
	}
	if p.tasks[t.id] == nil { // it ended there
		return nil
	}
	return poke(t.id, regs.RIP, int3)
}

// RunTo runs a thread to an address while all others are stopped. An earlier signal ends it, and the step is then not
// executed.
func (p *Process) RunTo(id int, addr uint64) (step Step, err error) {
	t := p.tasks[id]
	if t == nil || p.end != nil {
		return Step{Gone: true, End: p.end}, nil
	}
	before, err := p.Regs(id)
	if err != nil {
		return Step{}, err
	}
	_, atBreak := p.breaks[before.RIP]
	_, set := p.breaks[addr]
	if err := errors.Join(p.Unbreak(before.RIP), p.Break(addr)); err != nil {
		return Step{}, err
	}
	step, err = p.runAlone(t)
	if step.Gone || err != nil {
		return step, err
	}
	if step.Executed = step.Executed && step.Regs.RIP == addr; !set {
		err = p.Unbreak(addr)
	}
	if atBreak {
		err = errors.Join(err, p.Break(before.RIP))
	}
	return step, err
}

// runAlone runs a thread until it reaches a breakpoint, or a signal comes.
func (p *Process) runAlone(t *task) (Step, error) {
	for {
		p.restart(t, unix.PTRACE_CONT)
		status, err := p.await(t)
		hit := false
		if err == nil && p.end == nil {
			hit, err = p.dispatch(t.id, status)
		}
		switch {
		case err != nil:
			return Step{}, err
		case p.tasks[t.id] == nil || p.end != nil:
			return Step{Gone: true, End: p.end}, nil
		case hit:
			after, err := p.Regs(t.id)
			return Step{Executed: true, Regs: after}, err
		case t.deliver != 0:
			return Step{}, nil
		}
	}
}
