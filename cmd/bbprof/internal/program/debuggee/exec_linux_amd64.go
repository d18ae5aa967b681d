package debuggee

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
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
	p.earlier, err = p.usage()
	return nil, err
}

// usage returns what the process has used so far except time (proc_pid_stat(5), proc_pid_status(5)).
func (p *Process) usage() (u Usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return u, fault(err, "asking for the program's page faults")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return u, fault(err, "asking for the program's context switches")
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third field on
	for _, i := range []int{10, 11, 12, 13} {                                 // minflt, cminflt, majflt, cmajflt
		n, _ := strconv.Atoi(fields[i-3])
		u.Faults += n
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") { // also matches nonvoluntary
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			u.Switches += n
		}
	}
	return u, nil
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
