package pmu

import (
	"fmt"
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
