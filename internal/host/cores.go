package host

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/verdict"
)

// Layout assigns CPUs to workers and to bbprof's other threads.
type Layout struct {
	// Workers has each worker's CPUs: the one it starts on, and others to move to. No two workers share a core.
	Workers [][]int
	// Own are the CPUs for all other threads; empty if no core is left.
	Own []int
}

// CPUs are those that workers measure on.
func (l Layout) CPUs() []int { return slices.Concat(l.Workers...) }

type LayoutError struct{ What string }

func (e *LayoutError) Error() string { return e.What }

// PlanWorkers gives each worker a physical core, since hardware threads of a core share its units. workers is the
// number wanted, 0 for one a core. They run on the chosen CPUs or, if there are none, on fast, the allowed CPUs of
// the fastest kind of core, the last first, since the first serve most interrupts; one core is then left to bbprof's
// other threads if there are enough. siblings are the CPUs of one core. quota bounds the default number of workers;
// 0 is no bound.
func PlanWorkers(allowed, fast, chosen []int, siblings func(cpu int) []int, wanted, quota int) (Layout, error) {
	candidates := slices.Clone(fast)
	slices.Reverse(candidates)
	if len(chosen) > 0 {
		candidates = chosen
	}
	var cores []int // one CPU of each
	taken := map[int]bool{}
	for _, cpu := range candidates {
		if !slices.Contains(allowed, cpu) {
			return Layout{}, notAllowed(cpu, nil)
		}
		if taken[cpu] {
			continue
		}
		cores = append(cores, cpu)
		taken[cpu] = true
		for _, s := range siblings(cpu) {
			taken[s] = true
		}
	}
	n := wanted
	switch {
	case n == 0:
		if n = len(cores); quota > 0 {
			n = min(n, quota)
		}
	case n > len(cores):
		return Layout{}, &LayoutError{fmt.Sprintf("%d workers need as many physical cores, and there are %d to measure on; "+
			"two on one core would measure each other", n, len(cores))}
	}
	spare := cores[n:]
	if len(chosen) == 0 && len(spare) > 0 {
		spare = spare[:len(spare)-1] // the last is left to the other threads
	}
	l := Layout{Workers: make([][]int, n)}
	measuring := map[int]bool{}
	for i, cpu := range append(cores[:n:n], spare...) {
		l.Workers[i%n] = append(l.Workers[i%n], cpu)
		measuring[cpu] = true
		for _, s := range siblings(cpu) {
			measuring[s] = true
		}
	}
	for _, cpu := range allowed {
		if !measuring[cpu] {
			l.Own = append(l.Own, cpu)
		}
	}
	return l, nil
}

func notAllowed(cpu int, err error) error {
	return &verdict.HostError{
		Missing: fmt.Sprintf("CPU %d is not here, or not in this process's affinity mask", cpu),
		Remedy:  "choose one that is (taskset -pc $$ lists them)", Err: err,
	}
}

// parseQuota reads a cgroup's cpu.max, or the two numbers of the older cpu.cfs_quota_us and cpu.cfs_period_us, and
// returns the limit in CPUs, at least 1, or 0 without a limit (Linux, Documentation/admin-guide/cgroup-v2.rst, "CPU
// Interface Files").
func parseQuota(s string) int {
	fields := strings.Fields(s)
	if len(fields) != 2 {
		return 0
	}
	quota, err1 := strconv.Atoi(fields[0]) // "max" is no limit, and neither is -1
	period, err2 := strconv.Atoi(fields[1])
	if err1 != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0
	}
	return max(quota/period, 1)
}

// kindOf is the kind of core of a CPU of this machine, empty where all are of one kind.
func kindOf(number int) string { return cpu.Kind(os.ReadFile, number) }

// FastestKind keeps the CPUs of the fastest kind of core, since a result is of one kind.
func FastestKind(cpus []int) []int { return fastestKind(cpus, kindOf) }

func fastestKind(cpus []int, kindOf func(int) string) []int {
	for _, kind := range cpu.Kinds {
		of := slices.DeleteFunc(slices.Clone(cpus), func(number int) bool { return kindOf(number) != kind })
		if len(of) > 0 {
			return of
		}
	}
	return cpus
}

// CheckKinds returns a *verdict.HostError if the CPUs are of several kinds of core.
func CheckKinds(cpus []int) error { return checkKinds(cpus, kindOf) }

func checkKinds(cpus []int, kindOf func(int) string) error {
	for _, number := range cpus {
		first, other := kindOf(cpus[0]), kindOf(number)
		if first != "" && other != "" && first != other { // a CPU that does not exist has no kind, and is refused elsewhere
			return &verdict.HostError{
				Missing: fmt.Sprintf("CPUs %d (%s) and %d (%s) are of two kinds of core, and a result is of one", cpus[0], first, number, other),
				Remedy:  "choose CPUs of one kind (lscpu -e lists them)",
			}
		}
	}
	return nil
}
