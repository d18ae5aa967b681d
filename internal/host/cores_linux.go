package host

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/verdict"
)

// Siblings lists the hardware threads of a CPU's core, itself included, or alone if the kernel does not say.
func Siblings(cpu int) []int { return siblings(os.DirFS("/sys"), cpu) }

func siblings(sys fs.FS, number int) []int {
	text, err := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", number))
	if err != nil {
		return []int{number}
	}
	cpus, err := cpu.ParseList(string(text))
	if err != nil {
		return []int{number}
	}
	return cpus
}

// Quota is the CPU limit of this process's cgroups, in CPUs, 0 if they set none.
func Quota() int { return quota(os.DirFS("/")) }

func quota(root fs.FS) (least int) {
	for g := range cgroups(root, "cpu") { // any parent may set a limit
		limit := parseQuota(g("cpu.cfs_quota_us") + " " + g("cpu.cfs_period_us"))
		if v2 := g("cpu.max"); v2 != "" {
			limit = parseQuota(v2)
		}
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// cgroups lists this process's cgroups and their parents, of version 2 and of version 1 with a controller.
// Each is a function that reads one of the cgroup's files, "" if it does not exist (cgroups(7)).
func cgroups(root fs.FS, controller string) iter.Seq[func(file string) string] {
	read := func(name string) string {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	return func(yield func(func(string) string) bool) {
		for line := range strings.Lines(read("proc/self/cgroup")) {
			parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(parts) != 3 || parts[1] != "" && !strings.Contains(","+parts[1]+",", ","+controller+",") {
				continue
			}
			for dir := strings.Trim(parts[2], "/"); ; dir = path.Dir(dir) {
				at := path.Join("sys/fs/cgroup", parts[1], dir)
				if !yield(func(file string) string { return read(path.Join(at, file)) }) {
					return
				}
				if dir == "" || dir == "." {
					break
				}
			}
		}
	}
}

// Confine binds all threads of this process, and so all that they start, to some CPUs.
// Threads that measure bind themselves afterwards.
func Confine(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	// Threads may start others meanwhile: repeat until a round finds no new one.
	done := map[string]bool{}
	for before := -1; before != len(done); {
		before = len(done)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("asking for the threads: %w", err)
		}
		for _, t := range threads {
			if done[t.Name()] {
				continue
			}
			done[t.Name()] = true
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("binding thread %d to the CPUs %v: %w", tid, cpus, err)
			}
		}
	}
	return nil
}

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
	return verdict.Refused("sched_setaffinity", err)
}
