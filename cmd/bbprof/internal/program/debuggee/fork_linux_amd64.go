package debuggee

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/ptracethread"
)

// Fork makes a copy of the program, with one thread, which stands where thread id does. The program knows nothing of it, and no signal of the
// program's reaches it. Close ends it, and so does [Process.Kill] of the program.
func (p *Process) Fork(id int) (_ *Process, err error) {
	const filters = "Seccomp_filters"
	if ptracethread.Status("self", filters) != ptracethread.Status(fmt.Sprint(p.pid), filters) {
		return nil, &Fault{"copying it", errors.New("it has a filter of system calls")}
	}
	if p.tasks[id] == nil {
		return nil, &Fault{"copying it", errors.New("the thread is gone")}
	}
	all, err := p.Maps()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(m Mapping) bool { return m.Shared && m.Writable }) {
		return nil, &Fault{"copying it", errors.New("it has memory that a copy would share")}
	}
	saved, err := registers(id)
	if err != nil {
		return nil, err
	}
	// Traced as the program is, but without a stop of the program that tells of it; and a child of bbprof, not of the program.
	const flags = unix.CLONE_PTRACE | unix.CLONE_UNTRACED | unix.CLONE_PARENT
	pid, err := p.ask(p.tasks[id], unix.SYS_CLONE, flags|uint64(unix.SIGCHLD), 0, 0, 0, 0)
	if err != nil {
		return nil, err
	}
	if failed := -pid; failed < 4096 { // syscall(2)
		return nil, &Fault{"copying it", unix.Errno(failed)}
	}
	c := &Process{pid: int(pid), copied: true, tasks: map[int]*task{}, early: map[int]bool{}, breaks: maps.Clone(p.breaks), special: maps.Clone(p.special)}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	first := &task{id: c.pid}
	c.tasks[c.pid] = first
	if !p.early[c.pid] {
		if status, err := c.await(first); err != nil || !status.Stopped() {
			return nil, &Fault{"copying it", errors.Join(err, fmt.Errorf("its first stop is %#x", uint32(status)))}
		}
	}
	delete(p.early, c.pid)
	var code [2]byte
	if err := peek(id, saved.Rip, code[:]); err != nil {
		return nil, err
	}
	return c, errors.Join(poke(c.pid, saved.Rip, code[:]...), setRegisters(c.pid, saved))
}

// RunCopy gives a process of Fork new memory near an address, for so many bytes of code, and runs it from start bytes on there until int3. Then it
// stands where it stood, with the registers that the code left.
func (p *Process) RunCopy(near uint64, bytes, start int, code func(at uint64) []byte) (at uint64, err error) {
	saved, err := registers(p.pid)
	if err != nil {
		return 0, err
	}
	all, err := p.Maps()
	if err != nil {
		return 0, err
	}
	size := (uint64(bytes) + 4095) &^ 4095
	at, err = p.ask(p.tasks[p.pid], unix.SYS_MMAP, gap(all, near, size), size, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uint64(0), 0)
	if err != nil {
		return 0, err
	}
	if failed := -at; failed < 4096 {
		return 0, &Fault{"mapping code in a copy of it", unix.Errno(failed)}
	}
	regs := saved
	regs.Rip = at + uint64(start)
	if err := errors.Join(poke(p.pid, at, code(at)...), setRegisters(p.pid, regs)); err != nil {
		return 0, err
	}
	if signal, err := p.runCopies(p.tasks[p.pid]); err != nil || signal != unix.SIGTRAP {
		return 0, &Fault{"running a copy of it", cmp.Or(err, fmt.Errorf("it stopped by signal %v", signal))}
	}
	if regs, err = registers(p.pid); err != nil {
		return 0, err
	}
	regs.Rip = saved.Rip
	return at, setRegisters(p.pid, regs)
}
