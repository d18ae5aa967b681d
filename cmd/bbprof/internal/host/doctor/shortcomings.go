package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/verdict"
)

// Shortcoming is a property of the host that could be better.
type Shortcoming struct {
	What   string `json:"what"`
	Effect string `json:"effect"` // on bbprof
	Remedy string `json:"remedy"` // the command, where there is one
}

// shortcomings lists the host's shortcomings, the worst first; missing is the one that prevents
// measuring.
func shortcomings(r Report, missing *verdict.HostError) []Shortcoming {
	found := []Shortcoming{}
	if missing != nil {
		what := missing.Missing
		if missing.Err != nil {
			what += ": " + missing.Err.Error()
		}
		found = append(found, Shortcoming{what, "bbprof cannot measure here", missing.Remedy})
	}
	for _, rule := range []func(Report) (Shortcoming, bool){
		noCounters, noUserCounters, doubtedEvents, heldCounter, storeBypass, disabled, unknownCore, unsteadyTSC, unquiet,
		sharedCore, singleCPU, movingClock, governed, noPageZero,
	} {
		if s, ok := rule(r); ok {
			found = append(found, s)
		}
	}
	return found
}

func noCounters(r Report) (Shortcoming, bool) {
	return Shortcoming{
		r.Counters.Reason,
		"core cycles come from the TSC and a calibration, and that nothing misses L1 is inferred",
		r.Counters.Remedy,
	}, !r.Counters.Available
}

func noUserCounters(r Report) (Shortcoming, bool) {
	remedy := "use a kernel and a hypervisor that let user code execute rdpmc"
	if r.Counters.RDPMC == 0 {
		remedy = fmt.Sprintf("echo 1 | sudo tee /sys/bus/event_source/devices/%s/rdpmc", r.Counters.Device.Name)
	}
	return Shortcoming{
		"user code may not read the hardware counters (rdpmc)",
		"core cycles come from the TSC and a calibration",
		remedy,
	}, r.Counters.Available && !r.Counters.UserRDPMC
}

// doubtedEvents lists the events whose counts are wrong.
func doubtedEvents(r Report) (Shortcoming, bool) {
	var doubted []string
	for _, e := range r.Events {
		if len(e.Checks) > 0 && e.Why != "" {
			doubted = append(doubted, fmt.Sprintf("%s (%s): %s", e.Role, e.Event, e.Why))
		}
	}
	return Shortcoming{
		"events do not count what they must: " + strings.Join(doubted, "; "),
		"they are unchecked, and what they would tell is inferred",
		"compare with perf stat, and use a newer kernel or hypervisor, if it shows the same",
	}, len(doubted) > 0
}

func heldCounter(r Report) (Shortcoming, bool) {
	return Shortcoming{
		"the NMI watchdog holds a hardware counter",
		"a block is measured in more passes",
		"sudo sysctl kernel.nmi_watchdog=0",
	}, r.Counters.Available && r.Counters.Watchdog
}

// storeBypass reads the kernel's words for it (task_seccomp in fs/proc/array.c): thread
// mitigated, thread force mitigated, globally mitigated.
func storeBypass(r Report) (Shortcoming, bool) {
	remedy := "boot with spec_store_bypass_disable=prctl"
	if strings.HasPrefix(r.SpeculativeStoreBypass, "thread") {
		remedy += ", or start bbprof outside the sandbox that asked for it (before Linux 5.16 any seccomp filter did)"
	}
	return Shortcoming{
		"speculative store bypass is off in the child: " + r.SpeculativeStoreBypass,
		"loads wait for the addresses of all stores before them: blocks with both are slower than elsewhere",
		remedy,
	}, strings.Contains(r.SpeculativeStoreBypass, "mitigated")
}

func disabled(r Report) (Shortcoming, bool) {
	var names []string
	off := r.Host.CPU.Disabled
	if off.AVX {
		names = append(names, "AVX")
	}
	if off.AVX512 {
		names = append(names, "AVX-512")
	}
	return Shortcoming{
		"the operating system does not enable " + strings.Join(names, " and ") + ", which this CPU has",
		"blocks with its instructions are rejected as sigill",
		"boot the kernel without noxsave and clearcpuid",
	}, len(names) > 0
}

func unknownCore(r Report) (Shortcoming, bool) {
	c := r.Host.CPU
	return Shortcoming{
		fmt.Sprintf("bbprof does not know this core (%s family %#x model %#x)", c.Vendor, c.Family, c.Model),
		"it takes the smallest op cache and the largest store buffer there are, and selftest has bands instead of numbers",
		"use a version of bbprof that knows it; bbprof selftest tells whether it measures right all the same",
	}, c.Microarchitecture == cpu.Unknown
}

func unsteadyTSC(r Report) (Shortcoming, bool) {
	remedy := "none for this CPU"
	if r.Host.Hypervisor != "" {
		remedy = "have the hypervisor pass the flag on (QEMU: -cpu host,migratable=no,+invtsc)"
	}
	return Shortcoming{
		"CPUID does not say that the TSC ticks at one rate in all states of the CPU",
		"a window in which its rate changes is dropped as drift at best",
		remedy,
	}, !r.Host.Invariant
}

func unquiet(r Report) (Shortcoming, bool) {
	if r.Precision == nil {
		return Shortcoming{}, false
	}
	all := r.Precision.Blocks
	what := fmt.Sprintf("%d of %d blocks were not measured twice", len(all)-r.Precision.Measured, len(all))
	if i := slices.IndexFunc(all, func(b Repeat) bool { return b.Why != "" }); i >= 0 {
		what += fmt.Sprintf(": %s: %s", all[i].Text, all[i].Why)
	}
	return Shortcoming{
		what,
		"blocks take longer, or are rejected as unstable or context_switch",
		"choose a quieter CPU with -cpus, give more time with -budget, or keep other work off this core",
	}, r.Precision.Measured < len(all)
}

func sharedCore(r Report) (Shortcoming, bool) {
	with := r.Host.siblings(r.OnCPU)
	var remedy []string
	for _, cpu := range with {
		remedy = append(remedy, fmt.Sprintf("echo 0 | sudo tee /sys/devices/system/cpu/cpu%d/online", cpu))
	}
	return Shortcoming{
		fmt.Sprintf("CPU %d shares its core with CPU %s (SMT)", r.OnCPU, List(with)),
		"what runs there slows blocks down; the contention probe notices, and windows are dropped",
		strings.Join(remedy, "; "),
	}, len(with) > 0
}

func singleCPU(r Report) (Shortcoming, bool) {
	online := r.Host.CPUsOnline
	return Shortcoming{
		fmt.Sprintf("CPU %s is the only one allowed, of %s", List(r.Host.CPUsAllowed), List(online)),
		"where others keep it busy, bbprof has nowhere to go",
		fmt.Sprintf("taskset -c %s bbprof …, or in a container --cpuset-cpus=%s", List(online), List(online)),
	}, len(r.Host.CPUsAllowed) == 1 && len(online) > 1
}

// driftShare is the drift of the core's clock that is reported: that at which a window is dropped.
const driftShare = 0.01

func movingClock(r Report) (Shortcoming, bool) {
	t := r.Host.Turbo
	if r.Clock == nil || r.Clock.Drift() <= driftShare || t.State != "on" {
		return Shortcoming{}, false
	}
	return Shortcoming{
		fmt.Sprintf("the core's clock moved by %.1f %%, and turbo is on", 100*r.Clock.Drift()),
		"windows in which it moves are dropped",
		fmt.Sprintf("echo %s | sudo tee %s", t.off, t.File),
	}, true
}

func governed(r Report) (Shortcoming, bool) {
	g := r.Host.Governor
	return Shortcoming{
		"the CPUs' frequency governor is " + g,
		"the core's clock moves with the load; windows in which it does are dropped",
		"echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
	}, g != "" && g != "performance"
}

func noPageZero(r Report) (Shortcoming, bool) {
	return Shortcoming{
		fmt.Sprintf("page 0 cannot be mapped (vm.mmap_min_addr is %s)", cmp.Or(r.Host.MinAddr, "not shown")),
		"blocks that touch it are rejected as unmappable",
		"run as the host's root, or sudo sysctl vm.mmap_min_addr=0",
	}, r.Host.PageZero == "no"
}
