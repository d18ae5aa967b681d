package debuggee

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/strays"
)

type task struct {
	id          int
	kind        kind
	starting    bool // its first stop has not come yet
	running     bool
	stopDue     bool        // our SIGSTOP has not arrived yet
	deliver     unix.Signal // to be delivered when it resumes
	at          *asm.Regs   // its registers, if read since it stopped
	interrupted bool        // it was, in a system call, if these are read

	awaited bool             // only await takes its stops: it is neither dispatched, nor held or resumed with all others
	kept    *unix.WaitStatus // for await
}

type kind int

const (
	thread  kind = iota
	forked       // has a copy of memory with our breakpoints: they are removed and it is detached
	vforked      // shares the program's memory until it execs
)

// Run resumes all threads until one reaches a breakpoint, whose instruction it has not executed, or the program ends. A
// thread already at a breakpoint is reported again: step it first.
func (p *Process) Run() (Stop, error) {
	for p.end == nil {
		p.resume()
		t, hit, err := p.next()
		if err != nil {
			return Stop{}, err
		}
		if hit {
			if err := p.hold(); err != nil {
				return Stop{}, err
			}
			if p.end != nil {
				break
			}
			regs, err := p.Regs(t.id)
			return Stop{Thread: t.id, Regs: regs}, err
		}
	}
	return Stop{End: p.end}, nil
}

// next waits for one event of any task, and dispatches it, or keeps it for who awaits that.
func (p *Process) next() (t *task, hit bool, err error) {
	id, status, err := p.wait()
	if err != nil {
		return nil, false, err
	}
	t = p.tasks[id]
	// A first thread's exec may be another's, which nobody will hear of again.
	if execed := status.TrapCause() == unix.PTRACE_EVENT_EXEC; t != nil && t.awaited && !(execed && t.kind == thread) {
		t.kept = &status
		return t, false, nil
	}
	hit, err = p.dispatch(id, status)
	return t, hit, err
}

func (p *Process) resume() {
	for _, t := range p.tasks {
		if !t.awaited && t.kind == thread && !t.running {
			p.restart(t, p.goOn())
		}
	}
}

// restart resumes a task by PTRACE_CONT or PTRACE_SINGLESTEP. If it has been killed meanwhile (ESRCH), wait reports it.
func (p *Process) restart(t *task, request uintptr) {
	unix.RawSyscall6(unix.SYS_PTRACE, request, uintptr(t.id), 0, uintptr(t.deliver), 0, 0)
	t.deliver, t.running, t.at = 0, true, nil
}

// single executes one instruction of a stopped task, and reports whether it stopped just after that.
func (p *Process) single(t *task) (after bool, status unix.WaitStatus, err error) {
	p.restart(t, unix.PTRACE_SINGLESTEP)
	if status, err = p.await(t); err != nil || p.end != nil {
		return false, status, err
	}
	t.running = false
	return status.Stopped() && status.StopSignal() == unix.SIGTRAP && status.TrapCause() <= 0, status, nil
}

func (p *Process) hold() error {
	for _, t := range p.tasks {
		if !t.awaited && t.kind == thread && t.running && !t.starting && !t.stopDue {
			t.stopDue = true
			unix.Tgkill(p.pid, t.id, unix.SIGSTOP) // if it is gone, wait reports it
		}
	}
	for p.anyRunning() && p.end == nil {
		// A thread that reached a breakpoint meanwhile was set back and will reach it again.
		if _, _, err := p.next(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Process) anyRunning() bool {
	for _, t := range p.tasks {
		if !t.awaited && t.kind == thread && t.running {
			return true
		}
	}
	return false
}

// dispatch records what wait reported of a task and leaves it stopped unless it is not ours. hit means that it reached
// a breakpoint.
func (p *Process) dispatch(id int, status unix.WaitStatus) (hit bool, err error) {
	if status.Exited() || status.Signaled() {
		delete(p.tasks, id)
		if id == p.pid { // reported after all its threads
			p.end = &End{Signal: 0}
			if status.Signaled() {
				p.end.Signal = status.Signal()
			} else {
				p.end.Status = status.ExitStatus()
			}
			p.end.Left = len(p.before) == 0 && strays.ChildRuns() // processes killed next may no longer exist
			// Processes that it leaves running end with it. Its pid was free for a moment, but pids are reused
			// cyclically, and a group with a member keeps its number.
			unix.Kill(-p.pid, unix.SIGKILL)
			p.reaped()
		}
		return false, nil
	}
	t := p.tasks[id]
	if t == nil {
		p.early[id] = true
		return false, nil
	}
	t.running = false
	switch event := status.TrapCause(); {
	case event == unix.PTRACE_EVENT_CLONE || event == unix.PTRACE_EVENT_FORK || event == unix.PTRACE_EVENT_VFORK:
		err = p.birth(t, event)
	case event == unix.PTRACE_EVENT_EXEC && t.kind == thread:
		p.end = &End{Exec: true}
	case event == unix.PTRACE_EVENT_EXEC:
		if image, err := imageOf(t.id); err == nil {
			p.started = append(p.started, image)
		}
		p.release(t)
	case event > 0:
	case status.StopSignal() == unix.SIGSTOP:
		t.stopDue = false
		if t.starting {
			p.admit(t)
		}
	case status.StopSignal() == syscallStop:
		err = p.called(t)
	case status.StopSignal() == unix.SIGTRAP:
		hit, err = p.trapped(t)
	default:
		t.deliver = status.StopSignal()
	}
	if t.kind != thread && p.tasks[t.id] != nil && !t.running && !t.starting {
		// It is not counted; a vforked one's parent waits for it.
		if hit {
			err = p.stepOver(t)
		}
		p.restart(t, unix.PTRACE_CONT)
		hit = false
	}
	return hit, err
}

func (p *Process) birth(parent *task, event int) error {
	id, err := unix.PtraceGetEventMsg(parent.id)
	if err != nil {
		return fault(err, "asking for a new task")
	}
	t := &task{id: int(id), starting: true, running: true, kind: thread}
	switch {
	case event == unix.PTRACE_EVENT_FORK || parent.kind == forked && event == unix.PTRACE_EVENT_CLONE:
		t.kind = forked
	case event == unix.PTRACE_EVENT_VFORK:
		t.kind = vforked
	}
	p.born[t.kind]++
	p.tasks[t.id] = t
	if p.early[t.id] {
		delete(p.early, t.id)
		p.admit(t)
		if p.tasks[t.id] != nil && t.kind != thread {
			p.restart(t, unix.PTRACE_CONT)
		}
	}
	return nil
}

func (p *Process) admit(t *task) {
	t.starting, t.running = false, false
	if t.kind == forked && !p.watching {
		for addr, b := range p.breaks {
			poke(t.id, addr, b)
		}
		p.release(t)
	}
}

func (p *Process) release(t *task) {
	unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(t.id), 0, uintptr(t.deliver), 0, 0)
	delete(p.tasks, t.id)
}

// trapped handles a SIGTRAP: our breakpoint, or the program's own.
func (p *Process) trapped(t *task) (hit bool, err error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.id, &regs); err != nil {
		return false, lost(err)
	}
	code, err := trapCode(t.id)
	if err != nil {
		return false, lost(err)
	}
	const siKernel = 0x80 // raised by int3, asm-generic/siginfo.h
	if _, ours := p.breaks[regs.Rip-1]; code != siKernel || !ours {
		t.deliver = unix.SIGTRAP
		return false, nil
	}
	regs.Rip--
	return true, lost(unix.PtraceSetRegs(t.id, &regs))
}

// lost ignores errors saying that the task has been killed, which wait reports.
func lost(err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("ptrace: %w", err)
}

func trapCode(id int) (int32, error) {
	var si struct {
		signo, errno, code int32
		_                  [116]byte
	}
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GETSIGINFO, uintptr(id), 0, uintptr(unsafe.Pointer(&si)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return si.code, nil
}

// Break sets a breakpoint, again if the program has overwritten it.
func (p *Process) Break(addr uint64) error {
	var b [1]byte
	if err := peek(p.anyThread(), addr, b[:]); err != nil {
		return err
	}
	if _, ok := p.breaks[addr]; ok && b[0] == int3 {
		return nil
	}
	if err := poke(p.anyThread(), addr, int3); err != nil {
		return err
	}
	p.breaks[addr] = b[0]
	return nil
}

const int3 = 0xcc

func (p *Process) Born() (threads, children int) {
	return p.born[thread], p.born[forked] + p.born[vforked]
}

// Unbreak removes a breakpoint. If the program has changed or unmapped the code, it is left as it is.
func (p *Process) Unbreak(addr uint64) error {
	b, ok := p.breaks[addr]
	if !ok || p.end != nil {
		return nil
	}
	delete(p.breaks, addr)
	var now [1]byte
	if err := peek(p.anyThread(), addr, now[:]); err != nil || now[0] != int3 {
		return nil
	}
	return poke(p.anyThread(), addr, b)
}

// anyThread returns a stopped thread: ptrace cannot write memory through a running one, and the first may have ended.
func (p *Process) anyThread() int {
	for _, t := range p.tasks {
		if t.kind == thread && !t.running {
			return t.id
		}
	}
	return p.pid
}

// peek reads memory through a stopped thread; Linux does not tell code from data.
func peek(id int, addr uint64, b []byte) error {
	if _, err := unix.PtracePeekData(id, uintptr(addr), b); err != nil {
		return fault(err, "reading memory at %#x", addr)
	}
	return nil
}

func poke(id int, addr uint64, b ...byte) error {
	if _, err := unix.PtracePokeData(id, uintptr(addr), b); err != nil {
		return fault(err, "writing memory at %#x", addr)
	}
	return nil
}

func (p *Process) Word(addr uint64) (uint64, error) {
	var b [8]byte
	err := peek(p.anyThread(), addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}
