package debuggee

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ToExec runs the program until it execs, and stops the new image before its first instruction, as Start does
// with the first one. There must be no breakpoints. If it ends before, the end is returned.
func (p *Process) ToExec() (*End, error) {
	stop, err := p.Run()
	if err != nil {
		return nil, err
	}
	if !stop.End.Exec {
		return stop.End, nil
	}
	p.end = nil
	// exec has ended all other threads, and what called it has the number of the first (ptrace(2)).
	maps.DeleteFunc(p.tasks, func(id int, t *task) bool { return id != p.pid && t.kind == thread })
	clear(p.special)
	p.born, p.started, p.imageShift = [3]int{}, nil, 0
	// The stop is within execve(2), which would still overwrite rax. A step ends with its return, before the new
	// image's first instruction.
	t := p.tasks[p.pid]
	p.restart(t, unix.PTRACE_SINGLESTEP)
	status, err := p.await(t)
	if err != nil {
		return nil, err
	}
	t.running = false
	if !status.Stopped() || status.StopSignal() != unix.SIGTRAP {
		if _, err := p.dispatch(p.pid, status); err != nil || p.end != nil {
			return p.end, err
		}
		return nil, &Fault{"following its exec", fmt.Errorf("it stopped with status %#x", uint32(status))}
	}
	p.earlier, err = p.usage()
	return nil, err
}

// usage is what the process has used so far but for its time, as proc_pid_stat(5) and proc_pid_status(5) tell it.
func (p *Process) usage() (u Usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return u, fault(err, "asking for the program's page faults")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return u, fault(err, "asking for the program's context switches")
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the third on
	for _, i := range []int{10, 11, 12, 13} {                                 // minflt, cminflt, majflt, cmajflt
		n, err := strconv.Atoi(fields[i-3])
		if err != nil {
			return u, err
		}
		u.Faults += n
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") { // and nonvoluntary
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				return u, err
			}
			u.Switches += n
		}
	}
	return u, nil
}

// Image is the path of the file that the program runs.
func (p *Process) Image() (string, error) { return imageOf(p.pid) }

func imageOf(pid int) (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", fault(err, "asking for the program's file")
	}
	return path, nil
}

// Has reports whether a variable is in the environment that the program was given by exec.
func (p *Process) Has(variable string) (bool, error) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		return false, fault(err, "reading the program's environment")
	}
	return bytes.HasPrefix(env, []byte(variable)) || bytes.Contains(env, []byte("\x00"+variable)), nil
}

// Watch has Started know what the program starts from here on. Its children are slower for it.
func (p *Process) Watch() { p.watching = true }

// Started are the files that children of the program's present image run by exec.
func (p *Process) Started() []string { return p.started }
