package debuggee

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/sigchld"
	"github.com/bbprof/bbprof/internal/strays"
	"github.com/bbprof/bbprof/verdict"
)

type Process struct {
	mortal sync.Mutex // guards pid against Kill from any goroutine
	pid    int        // 0 once reaped
	copied bool       // by [Process.Fork]

	tasks  map[int]*task   // by thread id
	early  map[int]bool    // stopped before their creation was reported
	breaks map[uint64]byte // address → the byte that int3 replaces
	end    *End
	before []int  // children of bbprof that are not the program's
	born   [3]int // tasks that the program has started, by kind

	watching bool     // follow children up to their exec
	started  []string // the images they became

	imageShift uint64        // by which the program's own code was moved down
	random     *rand.ChaCha8 // source of the program's random bytes, if fixed
	onCall     func() error  // called at system calls; may be nil

	copies copies // of the code of the thread that is counted

	special map[uint64]special // by address, for instructions already stepped

	// foreign reports whether a breakpoint reached by another thread, while the stepped one waits, ends the step.
	foreign func(thread int, at asm.Regs) bool
}

// Start starts a program with address randomisation off and stops it before its first instruction, which is the dynamic
// linker's if there is one. The program is bound to the calling thread's CPUs. A *verdict.HostError says what this
// machine forbids; any other error that wraps a syscall.Errno is exec's.
func Start(c Config) (_ *Process, err error) {
	p := &Process{tasks: map[int]*task{}, early: map[int]bool{}, breaks: map[uint64]byte{}, special: map[uint64]special{}}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	sigchld.NotOfStops()
	if p.before, err = strays.Adopt(); err != nil {
		return nil, err
	}
	if err := p.fork(c); err != nil {
		return nil, err
	}
	first := &task{id: p.pid}
	p.tasks[p.pid] = first
	status, err := p.await(first)
	if err != nil {
		return nil, err
	}
	switch {
	case status.Signaled():
		return nil, &LoadError{status.Signal()}
	case status.Stopped() && status.StopSignal() != unix.SIGTRAP: // before the signal kills it
		return nil, &LoadError{status.StopSignal()}
	case !status.Stopped():
		return nil, fmt.Errorf("the program's first stop is %#x, not the one of exec", uint32(status))
	}
	if err := unix.PtraceSetOptions(p.pid, options); err != nil {
		return nil, &verdict.HostError{Missing: "the ptrace option EXITKILL is refused", Remedy: "Linux 3.8 or later is needed", Err: err}
	}
	if err := unix.Prlimit(p.pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil { // no core file after a crash
		return nil, verdict.Refused("prlimit", err)
	}
	return p, nil
}

// options of a program's threads. Without EXITKILL, killing bbprof would leave the program running. Threads and
// children are traced because they share or copy memory that contains breakpoints. TRACESYSGOOD tells stops at system
// calls, if there are any, from breakpoints.
const options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK |
	unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD

const addrNoRandomize = 0x0040000

// fork starts the program from a thread whose personality disables randomisation: fork copies a thread's personality
// and exec keeps it, so neither a launcher nor a change in the stopped child is needed, and no other thread of bbprof
// has it.
func (p *Process) fork(c Config) error {
	if err := ptracethread.CheckParent(); err != nil {
		return err
	}
	old, _, e := unix.RawSyscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0) // only reads it
	if e == 0 {
		_, _, e = unix.RawSyscall(unix.SYS_PERSONALITY, old|addrNoRandomize, 0, 0)
	}
	if e != 0 {
		return &verdict.HostError{
			Missing: "address randomisation cannot be turned off: personality(2) is refused",
			Remedy:  "use a seccomp profile that allows personality (docker: --security-opt seccomp=unconfined)", Err: e,
		}
	}
	defer unix.RawSyscall(unix.SYS_PERSONALITY, old, 0, 0)
	attr := syscall.ProcAttr{
		Env: c.Env,
		Sys: &syscall.SysProcAttr{
			Ptrace:    true,
			Setsid:    true, // keeps Ctrl-C from it, and lets all that it starts be killed with it
			Pdeathsig: syscall.SIGKILL,
		},
	}
	for _, f := range c.Files {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := syscall.ForkExec(c.Path, c.Args, &attr)
	if errors.Is(err, unix.EPERM) {
		if host := ptracethread.Followed(); host != nil {
			host.Err = err
			return host
		}
		return &verdict.HostError{Missing: "ptrace is forbidden", Err: err,
			Remedy: "run as root, with CAP_SYS_PTRACE, or with a seccomp profile that allows ptrace (docker: --cap-add=SYS_PTRACE)"}
	}
	if errors.Is(err, unix.EAGAIN) { // clone(2), execve(2)
		return &verdict.HostError{Missing: "no more processes are allowed", Err: err,
			Remedy: "raise ulimit -u, or the pids limit of the cgroup (docker: --pids-limit)"}
	}
	if errors.Is(err, unix.ENOSYS) { // exec never returns it for a file (execve(2))
		return verdict.Refused("one of the calls that start a program (clone, ptrace, setsid, dup3, execve)", err)
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.Path, err)
	}
	p.pid = pid
	return nil
}

// Kill ends the program and its children, from any goroutine.
func (p *Process) Kill() {
	p.mortal.Lock()
	defer p.mortal.Unlock()
	if p.pid > 0 { // not yet reaped, so the pid is not reused
		unix.Kill(-p.pid, unix.SIGKILL)
		unix.Kill(p.pid, unix.SIGKILL) // it may not have called setsid yet
	}
}

// Close kills and reaps what is left of the program and its children. It may be called twice.
func (p *Process) Close() {
	p.Kill()
	for _, t := range p.tasks { // one may have left the program's session
		unix.Kill(t.id, unix.SIGKILL)
	}
	for p.pid > 0 || len(p.tasks) > 0 {
		id, status, err := p.wait()
		if err != nil { // ECHILD: no child left
			clear(p.tasks)
			p.reaped()
		} else if status.Exited() || status.Signaled() {
			delete(p.tasks, id)
			if id == p.pid {
				p.reaped()
			}
		}
	}
	if !p.copied {
		strays.End(p.before)
	}
}

func (p *Process) reaped() {
	p.mortal.Lock()
	defer p.mortal.Unlock()
	p.pid = 0
}

func (p *Process) wait() (int, unix.WaitStatus, error) { return p.waitUsage(nil) }

// waitUsage also tells what a task that has ended used.
func (p *Process) waitUsage(used *unix.Rusage) (int, unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		which := -1
		if p.copied {
			which = p.pid
		}
		// WNOTHREAD: children of bbprof's other threads are not ours to reap.
		id, err := unix.Wait4(which, &status, unix.WALL|unix.WNOTHREAD, used)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			if err != unix.ECHILD {
				err = verdict.Refused("wait4", err)
			}
			return 0, 0, fmt.Errorf("wait4: %w", err)
		}
		return id, status, nil
	}
}

// await waits for one task and dispatches what comes of others meanwhile: the end of a first thread is not reported
// before all others have been waited for.
func (p *Process) await(t *task) (unix.WaitStatus, error) {
	defer func(before bool) { t.awaited = before }(t.awaited)
	for t.awaited = true; t.kept == nil; {
		if _, _, err := p.next(); err != nil || p.end != nil {
			return 0, err
		}
	}
	status := *t.kept
	t.kept = nil
	return status, nil
}

func (p *Process) ID() int { return p.pid }
