package pmu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
)

// Whatever this kernel has, the probe says what, and why not.
func TestProbeHere(t *testing.T) {
	p := require.Get(Probe(Linux{}, CPU{ID: cpu.ID{Vendor: "AuthenticAMD", Family: 0x17}}))(t)
	if p.Available == (p.Reason != "") || len(p.Events) != len(Roles()) {
		t.Errorf("%+v", p)
	}
	for _, e := range p.Events {
		if e.Available == (e.Why != "") {
			t.Errorf("%+v", e)
		}
	}
	t.Logf("%+v", p)
}

// What happens in user mode is counted there alone, which needs no privilege.
func TestUserModeAlone(t *testing.T) {
	const excludeKernel, offset = 1 << 5, 40 // in struct perf_event_attr's flags (linux/perf_event.h)
	for _, c := range []struct {
		attr Attr
		user bool
	}{
		{Attr{Type: TypeHardware}, true}, {Attr{Type: TypeRaw, Config: 3}, true}, {Attr{Type: TypeSoftware, Config: 1}, true},
		{Attr{Type: TypeSoftware, Config: 2}, true}, {Attr{Type: TypeSoftware, Config: 3}, false}, {Attr{Type: TypeSoftware, Config: 4}, false},
	} {
		require.Equal(t, fmt.Sprintf("%+v", c.attr), c.user, c.attr.Bytes()[offset]&excludeKernel != 0)
	}
}

// Software events are counted everywhere, through the same calls.
func TestSoftwareEvents(t *testing.T) {
	group := []Attr{{Type: TypeSoftware, Config: 1}, {Type: TypeSoftware, Config: 3}} // task clock, context switches
	c, err := Try(Linux{}, group)
	if err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	if len(c.Values) != 2 || c.Values[0] == 0 || c.Enabled != c.Running {
		t.Errorf("%+v", c)
	}
	if allowed, _ := userRDPMC(Linux{}, group[0]); allowed {
		t.Error("a software event is on no counter, yet rdpmc is said to read it")
	}
}

// What the kernel does in Work is far more than what this thread does for it, and all of it is worked off:
// CPU time says so on every kernel.
func TestWorkIsTheKernels(t *testing.T) {
	clock := []Attr{{Type: TypeSoftware, Config: 1}} // task clock, in ns; it counts both modes
	idle, err := during(Linux{}, clock, func() error { return nil })
	if err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	require.NoError(t, (Linux{}).Work())
	busy, err := during(Linux{}, clock, Linux{}.Work)
	// A line takes a tenth of a ns at least: 640 bytes a ns are beyond every memory.
	if err != nil || busy.Values[0] < idle.Values[0]+KernelLines/10 {
		t.Errorf("%d ns with the kernel's work and %d without, %v", busy.Values[0], idle.Values[0], err)
	}
	if err := userAlone(Linux{}, clock); err == nil || !strings.Contains(err.Error(), "the kernel does too") {
		t.Errorf("a clock of both modes passes: %v", err)
	}
}
