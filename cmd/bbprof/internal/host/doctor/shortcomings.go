package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/verdict"
)

type Shortcoming struct {
	What   string `json:"what"`
	Effect string `json:"effect"` // on bbprof
	Remedy string `json:"remedy"` // the command, where there is one
}

// driftShare is the drift of the core's clock that is reported: that at which a window is dropped.
const driftShare = 0.01

// shortcomings lists the host's shortcomings, the worst first; missing is the one that prevents measuring.
func shortcomings(r Report, missing *verdict.HostError) []Shortcoming {
	found := findings{}
	found.preventing(missing)
	found.counters(r)
	found.speculation(r.SpeculativeStoreBypass)
	found.cpu(r.Host)
	found.tsc(r.Host)
	found.precision(r.Precision)
	found.place(r.Host, r.OnCPU)
	found.clock(r.Host, r.Clock)
	found.pageZero(r.Host)
	return found
}

type findings []Shortcoming

func (f *findings) note(there bool, what, effect, remedy string) {
	if there {
		*f = append(*f, Shortcoming{what, effect, remedy})
	}
}

func (f *findings) preventing(missing *verdict.HostError) {
	if missing == nil {
		return
	}
	what, effect := missing.Missing, "bbprof cannot measure here"
	if missing.Err != nil {
		what += ": " + missing.Err.Error()
	}
	if missing.Busy {
		effect += " now"
	}
	*f = append(*f, Shortcoming{what, effect, missing.Remedy})
}

func (f *findings) counters(r Report) {
	counters := r.Counters
	f.note(!counters.Available, counters.Reason,
		"core cycles come from the TSC and a calibration, and that nothing misses L1 is inferred", counters.Remedy)
	remedy := "use a kernel and a hypervisor that let user code execute rdpmc"
	if counters.RDPMC == 0 {
		remedy = fmt.Sprintf("echo 1 | sudo tee /sys/bus/event_source/devices/%s/rdpmc", counters.Device.Name)
	}
	f.note(counters.Available && !counters.UserRDPMC, "user code may not read the hardware counters (rdpmc)",
		"core cycles come from the TSC and a calibration", remedy)
	var doubted []string
	for _, e := range r.Events {
		if len(e.Checks) > 0 && e.Why != "" {
			doubted = append(doubted, fmt.Sprintf("%s (%s): %s", e.Role, e.Event, e.Why))
		}
	}
	f.note(len(doubted) > 0, "events do not count what they must: "+strings.Join(doubted, "; "),
		"they are unchecked, and what they would tell is inferred",
		"compare with perf stat, and use a newer kernel or hypervisor, if it shows the same")
	f.note(counters.Available && counters.Watchdog, "the NMI watchdog holds a hardware counter",
		"a block is measured in more passes", "sudo sysctl kernel.nmi_watchdog=0")
}

func (f *findings) speculation(bypass string) {
	// The kernel's words (task_seccomp in fs/proc/array.c): thread mitigated, thread force mitigated, globally mitigated.
	remedy := "boot with spec_store_bypass_disable=prctl"
	if strings.HasPrefix(bypass, "thread") {
		remedy += ", or start bbprof outside the sandbox that asked for it (before Linux 5.16 any seccomp filter did)"
	}
	f.note(strings.Contains(bypass, "mitigated"),
		"speculative store bypass is off in the child: "+bypass,
		"loads wait for the addresses of all stores before them: blocks with both are slower than elsewhere", remedy)
}

func (f *findings) cpu(h Host) {
	var off []string
	if h.CPU.Disabled.AVX {
		off = append(off, "AVX")
	}
	if h.CPU.Disabled.AVX512 {
		off = append(off, "AVX-512")
	}
	f.note(len(off) > 0, "the operating system does not enable "+strings.Join(off, " and ")+", which this CPU has",
		"blocks with its instructions are rejected as sigill", "boot the kernel without noxsave and clearcpuid")
	f.note(h.CPU.Microarchitecture == cpu.Unknown,
		fmt.Sprintf("bbprof does not know this core (%s family %#x model %#x)", h.CPU.Vendor, h.CPU.Family, h.CPU.Model),
		"it takes the smallest op cache and the largest store buffer there are, and selftest has bands instead of numbers",
		"use a version of bbprof that knows it; bbprof selftest tells whether it measures right all the same")
}

func (f *findings) tsc(h Host) {
	remedy := "none for this CPU"
	if h.Hypervisor != "" {
		remedy = "have the hypervisor pass the flag on (QEMU: -cpu host,migratable=no,+invtsc)"
	}
	f.note(!h.Invariant, "CPUID does not say that the TSC ticks at one rate in all states of the CPU",
		"a window in which its rate changes is dropped as drift at best", remedy)
}

func (f *findings) precision(p *Precision) {
	if p == nil {
		return
	}
	what := fmt.Sprintf("%d of %d blocks were not measured twice", len(p.Blocks)-p.Measured, len(p.Blocks))
	if i := slices.IndexFunc(p.Blocks, func(b Repeat) bool { return b.Why != "" }); i >= 0 {
		what += fmt.Sprintf(": %s: %s", p.Blocks[i].Text, p.Blocks[i].Why)
	}
	f.note(p.Measured < len(p.Blocks), what, "blocks take longer, or are rejected as unstable or context_switch",
		"choose a quieter CPU with -cpus, give more time with -budget, or keep other work off this core")
}

func (f *findings) place(h Host, onCPU int) {
	var offline []string
	with := h.siblings(onCPU)
	for _, cpu := range with {
		offline = append(offline, fmt.Sprintf("echo 0 | sudo tee /sys/devices/system/cpu/cpu%d/online", cpu))
	}
	f.note(len(with) > 0, fmt.Sprintf("CPU %d shares its core with CPU %s (SMT)", onCPU, List(with)),
		"what runs there slows blocks down; the contention probe notices, and windows are dropped", strings.Join(offline, "; "))
	online := List(h.CPUsOnline)
	f.note(len(h.CPUsAllowed) == 1 && len(h.CPUsOnline) > 1,
		fmt.Sprintf("CPU %s is the only one allowed, of %s", List(h.CPUsAllowed), online),
		"where others keep it busy, bbprof has nowhere to go",
		fmt.Sprintf("taskset -c %s bbprof …, or in a container --cpuset-cpus=%[1]s", online))
}

func (f *findings) clock(h Host, c *Clock) {
	if c != nil {
		f.note(c.Drift() > driftShare && h.Turbo.State == "on",
			fmt.Sprintf("the core's clock moved by %.1f %%, and turbo is on", 100*c.Drift()),
			"windows in which it moves are dropped", fmt.Sprintf("echo %s | sudo tee %s", h.Turbo.off, h.Turbo.File))
	}
	f.note(h.Governor != "" && h.Governor != "performance", "the CPUs' frequency governor is "+h.Governor,
		"the core's clock moves with the load; windows in which it does are dropped",
		"echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
}

func (f *findings) pageZero(h Host) {
	f.note(h.PageZero == "no", fmt.Sprintf("page 0 cannot be mapped (vm.mmap_min_addr is %s)", cmp.Or(h.MinAddr, "not shown")),
		"blocks that touch it are rejected as unmappable", "run as the host's root, or sudo sysctl vm.mmap_min_addr=0")
}
