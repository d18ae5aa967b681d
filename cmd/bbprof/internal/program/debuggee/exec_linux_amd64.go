package debuggee

import (
	"bytes"
	"fmt"
	"maps"
	"os"
)

// ToExec runs the program until it execs, and stops the new image before its first instruction, like Start. There must
// be no breakpoints. If the program ends first, it returns the end.
func (p *Process) ToExec() (*End, error) {
	stop, err := p.Run()
	if err != nil {
		return nil, err
	}
	if !stop.End.Exec {
		return stop.End, nil
	}
	p.end = nil
	// exec ends all other threads, and the calling thread takes the first one's number (ptrace(2)).
	maps.DeleteFunc(p.tasks, func(id int, t *task) bool { return id != p.pid && t.kind == thread })
	clear(p.special)
	p.born, p.started, p.imageShift = [3]int{}, nil, 0
	// The stop is within execve(2), which will still overwrite rax. A step ends at its return, before the new image's
	// first instruction.
	after, status, err := p.single(p.tasks[p.pid])
	if err != nil || p.end != nil {
		return p.end, err
	}
	if !after {
		if _, err := p.dispatch(p.pid, status); err != nil || p.end != nil {
			return p.end, err
		}
		return nil, &Fault{"following its exec", fmt.Errorf("it stopped with status %#x", uint32(status))}
	}
	return nil, nil
}

func (p *Process) Image() (string, error) { return imageOf(p.pid) }

func imageOf(pid int) (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", fault(err, "asking for the program's file")
	}
	return path, nil
}

// Has reports whether the program's environment at exec contained a variable.
func (p *Process) Has(variable string) (bool, error) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		return false, fault(err, "reading the program's environment")
	}
	return bytes.HasPrefix(env, []byte(variable)) || bytes.Contains(env, []byte("\x00"+variable)), nil
}

// Watch makes Started list the programs started from now on. It slows the children.
func (p *Process) Watch() { p.watching = true }

// Started lists the files that children of the program's present image ran by exec.
func (p *Process) Started() []string { return p.started }
