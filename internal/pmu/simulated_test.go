package pmu_test

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
)

// A kernel by script, one test for each of its answers.

var skylake = pmu.CPU{ID: cpu.ID{Vendor: "GenuineIntel", Family: 6, Model: 0x55}}

func probe(t *testing.T, k *pmutest.Kernel, cpu pmu.CPU) pmu.PMU {
	t.Helper()
	p := require.Get(pmu.Probe(k, cpu))(t)
	require.Equal(t, "events or pages left open", 0, k.Left())
	return p
}

// passes lists the numbers of events in the passes.
func passes(k *pmutest.Kernel, p pmu.PMU, most int) string {
	var n []int
	for _, pass := range pmu.Passes(k, p.Event(pmu.Cycles), p.Events, most) {
		n = append(n, len(pass))
	}
	return fmt.Sprint(n)
}

func TestSuccess(t *testing.T) {
	k := pmutest.New(8)
	p := probe(t, k, skylake)
	if !p.Available || p.Reason != "" || p.Counters != 8 || !p.UserRDPMC || p.Width != 48 || p.Paranoid != 2 || p.RDPMC != 1 || p.Watchdog {
		t.Errorf("%+v", p)
	}
	if p.Core != "skylake" || len(p.Events) != len(pmu.Roles()) {
		t.Errorf("core %q, %d events", p.Core, len(p.Events))
	}
	for _, e := range p.Events {
		if !e.Available || e.Why != "" || e.Name == "" || e.Source == "" {
			t.Errorf("%+v", e)
		}
	}
	require.Equal(t, "passes", "[7]", passes(k, p, 12))
}

func TestForbiddenByParanoidLevel(t *testing.T) {
	for _, c := range []struct {
		level int
		ok    bool
	}{{-1, true}, {2, true}, {3, false}, {4, false}} {
		p := probe(t, pmutest.New(4).Paranoid(c.level), skylake)
		if p.Available != c.ok || p.Paranoid != c.level ||
			!c.ok && (!strings.Contains(p.Reason, fmt.Sprint("perf_event_paranoid is ", c.level)) ||
				!strings.Contains(p.Remedy, "sysctl kernel.perf_event_paranoid=2")) {
			t.Errorf("level %d: %+v", c.level, p)
		}
	}
	// The level allows it, something else does not: not the level is to be mended.
	k := pmutest.New(4)
	k.Refuse = syscall.EPERM
	if p := probe(t, k, skylake); p.Available || strings.Contains(p.Remedy, "sysctl") || !strings.Contains(p.Remedy, "seccomp") {
		t.Errorf("%q, %q", p.Reason, p.Remedy)
	}
}

func TestNoSuchEvent(t *testing.T) {
	k := pmutest.New(4)
	k.Opens = func(a pmu.Attr) error {
		if a.Type == pmu.TypeRaw && a.Config == 0xe224 { // L2_RQSTS.ALL_RFO
			return syscall.ENOENT
		}
		return nil
	}
	p := probe(t, k, skylake)
	if !p.Available {
		t.Fatalf("%+v", p)
	}
	for _, e := range p.Events {
		if missing := e.Role == pmu.L1DWriteMiss; e.Available == missing || (e.Why != "") != missing {
			t.Errorf("%+v", e)
		}
	}
	require.Equal(t, "passes", "[5 2]", passes(k, p, 12))
}

func TestTooFewCounters(t *testing.T) {
	for _, c := range []struct {
		counters int
		want     string
	}{
		{6, "[7]"}, {5, "[6 2]"}, {4, "[5 3]"}, {3, "[4 4]"}, {2, "[3 3 3]"}, {1, "[2 2 2 2 2 2]"},
	} {
		k := pmutest.New(c.counters)
		p := probe(t, k, skylake)
		require.Equal(t, "counters", c.counters, p.Counters)
		require.Equal(t, c.counters, c.want, passes(k, p, 12))
	}
	// The child can read fewer than a CPU could count.
	k := pmutest.New(8)
	p := probe(t, k, skylake)
	require.Equal(t, "passes", "[4 4]", passes(k, p, 4))
	// None beside core cycles: those are worth having all the same.
	p = probe(t, pmutest.New(0), skylake)
	if !p.Available || p.Counters != 0 || p.Event(pmu.L1IMiss).Available {
		t.Errorf("%+v", p)
	}
}

func TestCounterThatReadsGarbage(t *testing.T) {
	for n, ok := range map[uint64]bool{0: false, 1: true, 100_000: true, 100_001: false, 1 << 47: false, math.MaxUint64: false} { // in 10,000 ns
		k := pmutest.New(4)
		k.Counts = func(a pmu.Attr) uint64 { return n }
		if p := probe(t, k, skylake); p.Available != ok || strings.Contains(p.Reason, "nonsense") == ok {
			t.Errorf("%d cycles: %+v", n, p)
		}
	}
}

func TestWatchdogHoldsACounter(t *testing.T) {
	k := pmutest.New(4).Watchdog()
	p := probe(t, k, skylake)
	if !p.Available || !p.Watchdog || p.Counters != 3 {
		t.Errorf("%+v", p)
	}
	require.Equal(t, "passes", "[4 4]", passes(k, p, 12))
	// The only counter there is.
	k = pmutest.New(0).Watchdog()
	p = probe(t, k, skylake)
	if p.Available || !strings.Contains(p.Reason, "watchdog") || !strings.Contains(p.Remedy, "kernel.nmi_watchdog=0") {
		t.Errorf("%q, %q", p.Reason, p.Remedy)
	}
}

func TestUserReadsForbidden(t *testing.T) {
	k := pmutest.New(4)
	k.RDPMC = false
	k.Files["/sys/bus/event_source/devices/cpu/rdpmc"] = "0\n"
	if p := probe(t, k, skylake); !p.Available || p.UserRDPMC || p.RDPMC != 0 {
		t.Errorf("%+v", p)
	}
}

// The two kinds of core of a hybrid CPU have PMUs of their own.
func TestHybridCores(t *testing.T) {
	for _, c := range []struct {
		number int
		core   pmu.Core
		name   string
		kind   uint32
	}{{0, "goldencove", "cpu_core", 4}, {15, "goldencove", "cpu_core", 4}, {16, "gracemont", "cpu_atom", 10}, {23, "gracemont", "cpu_atom", 10}} {
		k := pmutest.New(6)
		for name, text := range map[string]string{"cpu_core/cpus": "0-15", "cpu_core/type": "4", "cpu_core/rdpmc": "1",
			"cpu_atom/cpus": "16-19,20-23", "cpu_atom/type": "10", "cpu_atom/rdpmc": "2"} {
			k.Files["/sys/bus/event_source/devices/"+name] = text + "\n"
		}
		p := probe(t, k, pmu.CPU{ID: cpu.ID{Vendor: "GenuineIntel", Family: 6, Model: 0x97}, Number: c.number})
		if p.Core != c.core || p.Device != (pmu.Device{Name: c.name, Type: c.kind, Hybrid: true}) {
			t.Errorf("CPU %d: %q on %+v", c.number, p.Core, p.Device)
		}
		require.Equal(t, "cycles", uint64(c.kind)<<32, p.Event(pmu.Cycles).Attr.Config)
		if split := p.Event(pmu.SplitLoad).Attr; split.Type != c.kind || split.Config != 0x41d0 {
			t.Errorf("CPU %d: split loads are %+v", c.number, split)
		}
	}
}

// An event that cannot be had says why, and what would help.
func TestAskedEventsSayWhyNot(t *testing.T) {
	for _, c := range []struct {
		name        string
		errno       error
		why, remedy string
	}{
		{"page-faults", nil, "", ""},
		{"context-switches", syscall.EACCES, "paranoid=2 hides", "paranoid=1"},
		{"page-faults", syscall.EPERM, "refused", "seccomp"},
		{"instructions", nil, "offers no hardware counters", "bare metal"},
	} {
		k := &pmutest.Kernel{Files: pmutest.New(0).Files, Refuse: syscall.ENOENT, NoSoft: c.errno}
		p := probe(t, k, skylake)
		e := require.Get(p.Named(k, c.name))(t)
		events := []pmu.Event{e}
		p.Try(k, events)
		if e := events[0]; e.Available != (c.why == "") || !strings.Contains(e.Why, c.why) || !strings.Contains(e.Remedy, c.remedy) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

func TestNames(t *testing.T) {
	k := pmutest.New(4)
	k.Files["/sys/bus/event_source/devices/msr/type"] = "9"
	k.Files["/sys/bus/event_source/devices/msr/format/event"] = "config:0-63"
	k.Files["/sys/bus/event_source/devices/cpu/events/mem-stores"] = "event=0xd0,umask=0x82"
	p := probe(t, k, skylake)
	for name, want := range map[string]pmu.Attr{
		"r01c2":                        {Type: 4, Config: 0x1c2},
		"r5300C0":                      {Type: 4, Config: 0x5300c0},
		"cpu/event=0xd1,umask=0x8/":    {Type: 4, Config: 0x8d1},
		"cpu/event=0x18e,umask=0x18/":  {Type: 4, Config: 0x1_0000_188e},
		"cpu/config=0x1234,config1=7/": {Type: 4, Config: 0x1234, Config1: 7},
		"msr/event=4/":                 {Type: 9, Config: 4},
		"mem_load_retired.l1_miss":     {Type: 4, Config: 0x8d1},
		"mem-stores":                   {Type: 4, Config: 0x82d0},
		"instructions":                 {Type: 0, Config: 1},
		"branches":                     {Type: 0, Config: 4},
		"cycles":                       {Type: 0, Config: 0},
		"page-faults":                  {Type: 1, Config: 2},
		"L1-dcache-store-misses":       {Type: 3, Config: 1<<16 | 1<<8},
	} {
		e := require.Get(p.Named(k, name))(t)
		require.Equal(t, name, pmu.Event{Attr: want, Role: pmu.Asked, Name: name},
			pmu.Event{Attr: e.Attr, Role: e.Role, Name: e.Name})
	}
	for name, clue := range map[string]string{
		"": "neither", "nonsense": "rNNNN", "rxyz": "rNNNN", "cpu/event=0x1000/": "too large", "cpu/nonsense=1/": "no term",
		"cpu/event=x/": "not a number", "gpu/event=1/": "no device",
		"cpu/event=1": "DEVICE/TERM", "cpu//": "DEVICE/TERM", "../../../etc/x/event=1": "DEVICE/TERM",
	} {
		if _, err := p.Named(k, name); err == nil || !strings.Contains(err.Error(), clue) {
			t.Errorf("%q: %v", name, err)
		}
	}
	require.Equal(t, "names", []string{"r1", "cpu/event=1,umask=2/", "x"}, pmu.SplitNames("r1, cpu/event=1,umask=2/,x"))
}
