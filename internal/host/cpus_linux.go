package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/verdict"
)

// AllowedCPUs lists the CPUs that this process may run on, ascending.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, verdict.Refused("sched_getaffinity", err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// PinThread binds the calling thread, and the children that it starts, to one CPU. A CPU that the
// process may not use is a *verdict.HostError.
func PinThread(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	err := unix.SchedSetaffinity(0, &set)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL): // no CPU of the set is allowed (sched_setaffinity(2))
		return notAllowed(cpu, err)
	}
	// A thread may always bind itself, so that a system-call filter refuses the call.
	return &verdict.HostError{
		Missing: fmt.Sprintf("sched_setaffinity is refused, and bbprof binds itself to CPU %d", cpu),
		Remedy:  "allow sched_setaffinity in the seccomp profile (docker: --security-opt seccomp=unconfined)", Err: err,
	}
}
