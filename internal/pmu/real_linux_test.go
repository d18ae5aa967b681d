package pmu

import "testing"

// Whatever this kernel has, the probe says what, and why not.
func TestProbeHere(t *testing.T) {
	p, err := Probe(Linux{}, CPU{Vendor: "AuthenticAMD", Family: 0x17})
	if err != nil {
		t.Fatal(err)
	}
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

// Software events are counted everywhere, through the same calls.
func TestSoftwareEvents(t *testing.T) {
	group := []Attr{{Type: TypeSoftware, Config: 1}, {Type: TypeSoftware, Config: 3}} // task clock, context switches
	c, err := Trial(Linux{}, group)
	if err != nil {
		t.Skip(err)
	}
	if len(c.Values) != 2 || c.Values[0] == 0 || c.Enabled != c.Running {
		t.Errorf("%+v", c)
	}
	if allowed, _ := userRDPMC(Linux{}, group[0]); allowed {
		t.Error("a software event is on no counter, yet rdpmc is said to read it")
	}
}
