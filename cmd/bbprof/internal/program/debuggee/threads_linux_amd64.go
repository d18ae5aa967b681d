package debuggee

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/strays"
)

// task is a thread of the program, or a child of it that is still traced.
type task struct {
	id      int
	kind    kind
	fresh   bool // its first stop is yet to come
	running bool
	stopDue bool        // a SIGSTOP of ours has not arrived yet
	deliver unix.Signal // to be passed on when it goes on
	at      *asm.Regs   // where it stands, if that has been asked for since it stopped
}

type kind int

const (
	thread  kind = iota
	forked       // has a copy of the memory, with our breakpoints in it: they are removed and it is let go
	vforked      // runs in the program's own memory until it execs
)

// Run lets all threads go on until one reaches a breakpoint, at which it has not executed
// the instruction there, or the program ends. A thread that stands at a breakpoint is
// reported again: step it first.
func (p *Process) Run() (Stop, error) {
	for p.end == nil {
		p.resume(nil)
		t, hit, err := p.next()
		if err != nil {
			return Stop{}, err
		}
		if hit {
			if err := p.hold(nil); err != nil {
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

// next waits for the next event and records it; hit says that t stands at a
// breakpoint.
func (p *Process) next() (t *task, hit bool, err error) {
	id, status, err := p.wait()
	if err != nil {
		return nil, false, err
	}
	t = p.tasks[id]
	hit, err = p.dispatch(id, status)
	return t, hit, err
}

// resume lets all stopped threads but one go on.
func (p *Process) resume(but *task) {
	for _, t := range p.tasks {
		if t != but && t.kind == thread && !t.running {
			p.restart(t, p.goOn())
		}
	}
}

// restart lets a task go on, by PTRACE_CONT or PTRACE_SINGLESTEP. It may have been killed
// meanwhile (ESRCH), of which wait tells.
func (p *Process) restart(t *task, request uintptr) {
	unix.RawSyscall6(unix.SYS_PTRACE, request, uintptr(t.id), 0, uintptr(t.deliver), 0, 0)
	t.deliver, t.running, t.at = 0, true, nil
}

// hold stops all threads but one.
func (p *Process) hold(but *task) error {
	for _, t := range p.tasks {
		if t != but && t.kind == thread && t.running && !t.fresh && !t.stopDue {
			t.stopDue = true
			unix.Tgkill(p.pid, t.id, unix.SIGSTOP) // if it is gone, wait tells
		}
	}
	for p.anyRunning(but) && p.end == nil {
		// A thread that reached a breakpoint meanwhile was set back to it and will reach it
		// again.
		if _, _, err := p.next(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Process) anyRunning(but *task) bool {
	for _, t := range p.tasks {
		if t != but && t.kind == thread && t.running {
			return true
		}
	}
	return false
}

// dispatch takes note of what wait reported of a task, which is left stopped unless it is
// none of ours. hit says that it stands at a breakpoint.
func (p *Process) dispatch(id int, status unix.WaitStatus) (hit bool, err error) {
	if status.Exited() || status.Signaled() {
		delete(p.tasks, id)
		if id == p.pid { // reported after those of all its threads
			p.end = &End{Signal: 0}
			if status.Signaled() {
				p.end.Signal = status.Signal()
			} else {
				p.end.Status = status.ExitStatus()
			}
			p.end.Left = len(p.before) == 0 && strays.ChildRuns() // what is killed next may not be there any more
			// What it leaves running ends with it. Its number was free for a moment, but pids go
			// round in a circle, and a group with a member keeps its number.
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
		if t.fresh {
			p.admit(t)
		}
	case status.StopSignal() == syscallStop:
		err = p.called(t)
	case status.StopSignal() == unix.SIGTRAP:
		hit, err = p.trapped(t)
	default:
		t.deliver = status.StopSignal()
	}
	if t.kind != thread && p.tasks[t.id] != nil && !t.running && !t.fresh {
		// It is not counted, and the parent of a vforked one waits for it.
		if hit {
			err = p.stepOver(t)
		}
		p.restart(t, unix.PTRACE_CONT)
		hit = false
	}
	return hit, err
}

// birth takes note of a task that parent has started.
func (p *Process) birth(parent *task, event int) error {
	id, err := unix.PtraceGetEventMsg(parent.id)
	if err != nil {
		return fault(err, "asking for a new task")
	}
	t := &task{id: int(id), fresh: true, running: true, kind: thread}
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
	t.fresh, t.running = false, false
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

// trapped is a SIGTRAP: one of our breakpoints, or the program's own.
func (p *Process) trapped(t *task) (hit bool, err error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.id, &regs); err != nil {
		return false, lost(err)
	}
	code, err := trapCode(t.id)
	if err != nil {
		return false, lost(err)
	}
	const siKernel = 0x80 // what int3 raises, asm-generic/siginfo.h
	if _, ours := p.breaks[regs.Rip-1]; code != siKernel || !ours {
		t.deliver = unix.SIGTRAP
		return false, nil
	}
	regs.Rip--
	return true, lost(unix.PtraceSetRegs(t.id, &regs))
}

// lost passes an error on unless it says that the task was killed meanwhile, of which wait
// tells.
func lost(err error) error {
	if err == nil || err == unix.ESRCH {
		return nil
	}
	return fmt.Errorf("ptrace: %w", err)
}

// trapCode is si_code of the signal that a task has stopped with.
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

func (p *Process) Break(addr uint64) error {
	if _, ok := p.breaks[addr]; ok {
		return nil
	}
	var b [1]byte
	if _, err := unix.PtracePeekText(p.pid, uintptr(addr), b[:]); err != nil {
		return fault(err, "reading the code at %#x", addr)
	}
	p.breaks[addr] = b[0]
	return poke(p.anyThread(), addr, int3)
}

// int3 is the instruction that a breakpoint is made of.
const int3 = 0xcc

// Born is how many threads and processes the program has started.
func (p *Process) Born() (threads, children int) {
	return p.born[thread], p.born[forked] + p.born[vforked]
}

// Unbreak takes a breakpoint away. If the program has changed or unmapped its code there, it stays as it is.
func (p *Process) Unbreak(addr uint64) error {
	b, ok := p.breaks[addr]
	if !ok || p.end != nil {
		return nil
	}
	delete(p.breaks, addr)
	var now [1]byte
	if _, err := unix.PtracePeekText(p.anyThread(), uintptr(addr), now[:]); err != nil || now[0] != int3 {
		return nil
	}
	return poke(p.anyThread(), addr, b)
}

// anyThread is a stopped one: ptrace writes memory through none that runs, and the first may
// have ended.
func (p *Process) anyThread() int {
	for _, t := range p.tasks {
		if t.kind == thread && !t.running {
			return t.id
		}
	}
	return p.pid
}

func poke(id int, addr uint64, b byte) error {
	if _, err := unix.PtracePokeText(id, uintptr(addr), []byte{b}); err != nil {
		return fault(err, "writing the code at %#x", addr)
	}
	return nil
}

func (p *Process) Word(addr uint64) (uint64, error) {
	var b [8]byte
	if err := p.read(addr, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

func (p *Process) read(addr uint64, b []byte) error {
	if _, err := unix.PtracePeekData(p.anyThread(), uintptr(addr), b); err != nil {
		return fault(err, "reading memory at %#x", addr)
	}
	return nil
}
