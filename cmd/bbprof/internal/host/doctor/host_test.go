package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// laptop is bare metal with all that can be in the way.
var laptop = map[string]string{
	"proc/sys/kernel/osrelease":                                          "6.1.0-18-amd64",
	"proc/sys/kernel/yama/ptrace_scope":                                  "1",
	"proc/sys/vm/mmap_min_addr":                                          "65536",
	"proc/self/status":                                                   "Name:\tbbprof\nUid:\t1000\t1001\t1000\t1000\nSeccomp:\t2\nSeccomp_filters:\t1",
	"sys/devices/system/cpu/online":                                      "0-7",
	"sys/devices/system/cpu/smt/control":                                 "on",
	"sys/devices/system/cpu/intel_pstate/no_turbo":                       "0",
	"sys/devices/system/cpu/cpu0/topology/thread_siblings_list":          "0,4",
	"sys/devices/system/cpu/cpu3/topology/thread_siblings_list":          "3,7",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":               "powersave",
	"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":               "powersave",
	"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor":               "powersave",
	"sys/devices/system/cpu/cpu3/cpufreq/scaling_governor":               "powersave",
	"sys/devices/system/cpu/vulnerabilities/spec_store_bypass":           "Mitigation: Speculative Store Bypass disabled via prctl",
	"sys/devices/system/cpu/vulnerabilities/gather_data_sampling":        "Mitigation: Microcode",
	"sys/devices/system/clocksource/clocksource0/current_clocksource":    "tsc",
	"sys/devices/system/clocksource/clocksource0/available_clocksource ": "tsc hpet",
}

func TestReadHostOfLaptop(t *testing.T) {
	h := readHost((&fake{}).system(laptop))
	want := Host{
		CPU: h.CPU, Stepping: 7, CPUsAllowed: []int{0, 1, 2, 3}, CPUsOnline: []int{0, 1, 2, 3, 4, 5, 6, 7},
		Machine: host.Machine{Kernel: "6.1.0-18-amd64", SMT: "on", Mitigations: []string{"gather_data_sampling: Microcode",
			"spec_store_bypass: Speculative Store Bypass disabled via prctl"}},
		Cores:    []Core{{0, []int{4}}, {1, nil}, {2, nil}, {3, []int{7}}},
		Governor: "powersave", Turbo: Turbo{"on", "/sys/devices/system/cpu/intel_pstate/no_turbo", "1"}, Invariant: true, Clocksource: "tsc",
		UID: new(1001), Seccomp: "filter", PtraceScope: "1", MinAddr: "65536",
		StoreBypass: "Mitigation: Speculative Store Bypass disabled via prctl", Gather: "Mitigation: Microcode",
	}
	require.Equal(t, "it", want, h, cmp.AllowUnexported(cpu.ID{}, Turbo{}))
}

func TestTurbo(t *testing.T) {
	const pstate, boost = cpus + "intel_pstate/no_turbo", cpus + "cpufreq/boost"
	for _, c := range []struct {
		files map[string]string
		want  Turbo
	}{
		{map[string]string{pstate: "0"}, Turbo{"on", "/" + pstate, "1"}},
		{map[string]string{pstate: "1"}, Turbo{"off", "/" + pstate, "1"}},
		{map[string]string{boost: "1"}, Turbo{"on", "/" + boost, "0"}},
		{map[string]string{boost: "0"}, Turbo{"off", "/" + boost, "0"}},
		{map[string]string{boost: "x"}, Turbo{}},
		{nil, Turbo{}},
	} {
		if got := readHost((&fake{}).system(c.files)).Turbo; got != c.want {
			t.Errorf("%v: %+v", c.files, got)
		}
	}
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int
		back string
	}{
		{"0", []int{0}, "0"}, {"0-3,8", []int{0, 1, 2, 3, 8}, "0-3,8"}, {"0,1,3", []int{0, 1, 3}, "0-1,3"},
		{"", nil, ""}, {"x,2", nil, ""}, {"3-1", nil, ""}, {"0-99999999", nil, ""}, {"-3", nil, ""},
	} {
		if got := parseList(c.text); !slices.Equal(got, c.want) || List(got) != c.back {
			t.Errorf("%q: %v, written %q", c.text, got, List(got))
		}
	}
}

// healthy is a report without a shortcoming.
func healthy() Report {
	return Report{
		CanMeasure: true, OnCPU: 3, SpeculativeStoreBypass: "thread vulnerable",
		Host: Host{
			CPU: host.CPU{Microarchitecture: cpu.Zen4}, Invariant: true, Machine: host.Machine{Hypervisor: "KVM"}, Governor: "performance", PageZero: "yes",
			CPUsAllowed: []int{2, 3}, CPUsOnline: []int{0, 1, 2, 3}, Cores: []Core{{2, []int{0}}, {3, nil}}, Turbo: Turbo{"on", "/f", "1"},
		},
		Counters: pmu.PMU{Available: true, UserRDPMC: true, RDPMC: 1, Device: pmu.Device{Name: "cpu"}},
		Events: []profiler.CounterReport{{Role: "l1i_miss", Event: "B", Checks: make([]profiler.CounterCheck, 1)},
			{Role: "split_store", Why: "there is none"}},
		Clock:     &Clock{ClockReport: profiler.ClockReport{Name: "tsc"}, RateLow: 1, RateHigh: 1.0099},
		Precision: &Precision{Blocks: make([]Repeat, 8), Measured: 8},
	}
}

// TestShortcomings: each is found when it is there, alone, with its command; what is just not one
// is not.
func TestShortcomings(t *testing.T) {
	if found := shortcomings(healthy(), nil); len(found) != 0 {
		t.Fatalf("of a healthy host: %v", found)
	}
	wrong := profiler.CounterReport{Role: "split_load", Event: "A", Why: "it counted 2", Checks: make([]profiler.CounterCheck, 1)}
	for _, c := range []struct {
		name string
		ail  func(*Report)
		// what and remedy are parts; without them it is none.
		what, remedy string
	}{
		{"no counters", func(r *Report) { r.Counters = pmu.PMU{Reason: "paranoid is 4", Remedy: "sysctl x=2"} }, "paranoid is 4", "sysctl x=2"},
		{"rdpmc forbidden", func(r *Report) { r.Counters.UserRDPMC, r.Counters.RDPMC = false, 0 }, "rdpmc",
			"echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc"},
		{"rdpmc otherwise not possible", func(r *Report) { r.Counters.UserRDPMC = false }, "rdpmc", "use a kernel"},
		{"a watchdog", func(r *Report) { r.Counters.Watchdog = true }, "NMI watchdog", "sudo sysctl kernel.nmi_watchdog=0"},
		{"an event that counts too much", func(r *Report) { r.Events = append(r.Events, wrong) },
			"what they must: split_load (A): it counted 2", "compare with perf stat, and use a newer kernel or hypervisor, if it shows the same"},
		{"a watchdog without counters", func(r *Report) { r.Counters = pmu.PMU{Reason: "none", Watchdog: true} }, "none", ""},
		{"bypass off by a sandbox", func(r *Report) { r.SpeculativeStoreBypass = "thread force mitigated" }, "store bypass", "outside the sandbox"},
		{"bypass off for all", func(r *Report) { r.SpeculativeStoreBypass = "globally mitigated" }, "store bypass", "spec_store_bypass_disable=prctl"},
		{"bypass that needs no mitigation", func(r *Report) { r.SpeculativeStoreBypass = "not vulnerable" }, "", ""},
		{"an unknown core", func(r *Report) { r.Host.CPU = host.CPU{Microarchitecture: cpu.Unknown, Model: 0xbd} }, "model 0xbd", "selftest"},
		{"a TSC under a hypervisor", func(r *Report) { r.Host.Invariant = false }, "TSC", "+invtsc"},
		{"a TSC of bare metal", func(r *Report) { r.Host.Invariant, r.Host.Hypervisor = false, "" }, "TSC", "none"},
		{"a disturbed block", func(r *Report) { r.Precision.Measured = 7 }, "1 of 8 blocks", "-cpus"},
		{"an unstable block", func(r *Report) {
			r.Precision.Measured = 7
			r.Precision.Blocks[2] = Repeat{Text: "imul", Why: "unstable: so"}
		}, "1 of 8 blocks were not measured twice: imul: unstable: so", "-cpus"},
		{"AVX-512 that is off", func(r *Report) { r.Host.CPU.Disabled.AVX512 = true }, "does not enable AVX-512,", "noxsave"},
		{"both that are off", func(r *Report) { r.Host.CPU.Disabled = asm.Features{AVX: true, AVX512: true} }, "AVX and AVX-512", "noxsave"},
		{"a sibling", func(r *Report) { r.Host.Cores[1].Siblings = []int{5, 6} }, "CPU 3 shares its core with CPU 5-6",
			"echo 0 | sudo tee /sys/devices/system/cpu/cpu5/online; echo 0 | sudo tee /sys/devices/system/cpu/cpu6/online"},
		{"one CPU allowed", func(r *Report) { r.Host.CPUsAllowed = []int{3} }, "CPU 3 is the only one allowed, of 0-3", "taskset -c 0-3"},
		{"one CPU there is", func(r *Report) { r.Host.CPUsAllowed, r.Host.CPUsOnline = []int{0}, []int{0} }, "", ""},
		{"a clock that moves", func(r *Report) { r.Clock.RateHigh = 1.0101 }, "moved by 1.0 %", "echo 1 | sudo tee /f"},
		{"a clock that moves without turbo", func(r *Report) { r.Clock.RateHigh, r.Host.Turbo.State = 2, "off" }, "", ""},
		{"a governor", func(r *Report) { r.Host.Governor = "powersave" }, "governor is powersave", "echo performance | sudo tee"},
		{"no governor", func(r *Report) { r.Host.Governor = "" }, "", ""},
		{"no page 0", func(r *Report) { r.Host.PageZero, r.Host.MinAddr = "no", "65536" }, "vm.mmap_min_addr is 65536", "sudo sysctl vm.mmap_min_addr=0"},
		{"page 0 not tried", func(r *Report) { r.Host.PageZero = "" }, "", ""},
	} {
		r := healthy()
		c.ail(&r)
		found := shortcomings(r, nil)
		named := len(found) == 1 && strings.Contains(found[0].What, c.what) && strings.Contains(found[0].Remedy, c.remedy) && found[0].Effect != ""
		if c.what == "" && len(found) > 0 || c.what != "" && !named {
			t.Errorf("%s: %v", c.name, found)
		}
	}
	// What keeps bbprof from measuring comes first.
	r := healthy()
	r.Host.Governor = "powersave"
	r.Clock, r.Precision = nil, nil
	if found := shortcomings(r, &verdict.HostError{Missing: "ptrace", Remedy: "allow it"}); len(found) != 2 ||
		found[0] != (Shortcoming{"ptrace", "bbprof cannot measure here", "allow it"}) {
		t.Errorf("%v", found)
	}
}
