package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AllowedCPUs lists the CPUs that this process may run on, ascending.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("asking for the allowed CPUs: %w", err)
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
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return notAllowed(cpu, err)
	}
	return nil
}
