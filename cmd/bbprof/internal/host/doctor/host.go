package doctor

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
)

// Host describes the machine without measuring. A setting is the text of its file, "" if the file is
// missing.
type Host struct {
	CPU      host.CPU     `json:"cpu"`
	Stepping int          `json:"stepping"`
	Caches   []host.Cache `json:"caches"` // by CPUID

	host.Machine

	CPUsAllowed []int  `json:"cpus_allowed"`
	CPUsOnline  []int  `json:"cpus_online"`
	Cores       []Core `json:"siblings"` // of each allowed CPU

	Governor    string `json:"governor"` // of the allowed CPUs, where they agree
	Turbo       Turbo  `json:"turbo"`
	Invariant   bool   `json:"invariant_tsc"`
	Clocksource string `json:"clocksource"`

	UID         *int   `json:"uid,omitempty"` // effective, nil if /proc does not show it
	Seccomp     string `json:"seccomp"`       // none, strict, filter
	PtraceScope string `json:"yama_ptrace_scope"`
	MinAddr     string `json:"vm_mmap_min_addr"`
	// PageZero says whether a block can have page 0: yes, no, or "" if unknown.
	PageZero string `json:"page_zero"`

	StoreBypass string `json:"spec_store_bypass"`    // the machine's; the report has the child's
	Gather      string `json:"gather_data_sampling"` // microcode that slows gathers down
}

type Core struct {
	CPU      int   `json:"cpu"`
	Siblings []int `json:"with"`
}

// Turbo says whether the core may exceed its base clock, and the file that says so.
type Turbo struct {
	State string `json:"state"` // on, off, "" if not shown
	File  string `json:"file,omitempty"`
	off   string // what to write to it
}

const cpus = "sys/devices/system/cpu/"

func readHost(sys System) Host {
	file := func(format string, args ...any) string {
		b, err := fs.ReadFile(sys.Files, fmt.Sprintf(format, args...))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	h := Host{
		CPU:         sys.CPU,
		Stepping:    host.Stepping(sys.CPUID),
		Caches:      host.Caches(sys.CPUID),
		Machine:     host.DescribeMachine(sys.Files, sys.CPUID),
		CPUsOnline:  parseList(file(cpus + "online")),
		Turbo:       turbo(file),
		Invariant:   host.InvariantTSC(sys.CPUID),
		Clocksource: file("sys/devices/system/clocksource/clocksource0/current_clocksource"),
		PtraceScope: file("proc/sys/kernel/yama/ptrace_scope"),
		MinAddr:     file("proc/sys/vm/mmap_min_addr"),
		StoreBypass: file(cpus + "vulnerabilities/spec_store_bypass"),
		Gather:      file(cpus + "vulnerabilities/gather_data_sampling"),
	}
	h.UID, h.Seccomp = process(file("proc/self/status"))
	if allowed, err := sys.Allowed(); err == nil {
		h.CPUsAllowed = allowed
	}
	governors := map[string]bool{}
	for _, cpu := range h.CPUsAllowed {
		siblings := parseList(file(cpus+"cpu%d/topology/thread_siblings_list", cpu))
		h.Cores = append(h.Cores, Core{cpu, slices.DeleteFunc(siblings, func(n int) bool { return n == cpu })})
		governors[file(cpus+"cpu%d/cpufreq/scaling_governor", cpu)] = true
	}
	for g := range governors {
		if h.Governor = g; len(governors) > 1 {
			h.Governor = "differ"
		}
	}
	return h
}

func (h Host) siblings(cpu int) []int {
	for _, c := range h.Cores {
		if c.CPU == cpu {
			return c.Siblings
		}
	}
	return nil
}

// process reads a process's status (proc_pid_status(5)): the second user is the effective one.
func process(status string) (uid *int, seccomp string) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case name == "Uid" && len(fields) > 1:
			if n, err := strconv.Atoi(fields[1]); err == nil {
				uid = &n
			}
		case name == "Seccomp" && len(fields) == 1:
			seccomp = map[string]string{"0": "none", "1": "strict", "2": "filter"}[fields[0]]
		}
	}
	return uid, seccomp
}

// turbo asks the two kinds of driver (Documentation/admin-guide/pm/intel_pstate.rst and
// cpufreq.rst); one says no, the other yes.
func turbo(file func(string, ...any) string) Turbo {
	for _, f := range []struct{ name, on, off string }{
		{cpus + "intel_pstate/no_turbo", "0", "1"},
		{cpus + "cpufreq/boost", "1", "0"},
	} {
		switch file(f.name) {
		case f.on:
			return Turbo{"on", "/" + f.name, f.off}
		case f.off:
			return Turbo{"off", "/" + f.name, f.off}
		}
	}
	return Turbo{}
}

func parseList(s string) []int {
	list, _ := cpu.ParseList(s)
	return list
}

// List writes CPUs as the kernel does: 0-3,8.
func List(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(list[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
