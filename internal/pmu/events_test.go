package pmu

import (
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
)

// Every core of the table has a row with a source for everything that is to be counted.
func TestTable(t *testing.T) {
	rows := require.Get(parseTable(eventTable))(t)
	byCore := map[Core][]row{}
	for _, r := range rows {
		byCore[r.core] = append(byCore[r.core], r)
		if !strings.Contains(r.source, ".json") {
			t.Errorf("%s, %s: source %q", r.core, r.role, r.source)
		}
		if (r.absent == "") != (r.code != Code{} || r.shares != "") || r.absent == "" && r.name == "" {
			t.Errorf("%+v", r)
		}
	}
	for _, core := range []Core{"haswell", "broadwell", "skylake", "icelake", "goldencove", "redwoodcove", "lioncove", "cougarcove",
		"gracemont", "crestmont", "skymont", "darkmont", "zen1", "zen2", "zen3", "zen4", "zen5"} {
		var roles []Role
		for _, r := range byCore[core] {
			roles = append(roles, r.role)
			if r.shares != "" && !slices.ContainsFunc(byCore[core], func(o row) bool { return o.role == r.shares && o.absent == "" && o.shares == "" }) {
				t.Errorf("%s: %s shares what is not there", core, r.role)
			}
		}
		if !slices.Equal(roles, Roles()[1:]) {
			t.Errorf("%s has %v", core, roles)
		}
		delete(byCore, core)
	}
	if len(byCore) > 0 {
		t.Errorf("cores that no test knows: %v", byCore)
	}
}

// Every core that a CPU can have is in the table.
func TestCores(t *testing.T) {
	rows := require.Get(parseTable(eventTable))(t)
	known := map[Core]bool{Generic: true}
	for _, r := range rows {
		known[r.core] = true
	}
	found := map[Core]bool{}
	for model := range 256 {
		for family, vendor := range map[int]string{6: "GenuineIntel", 0x17: "AuthenticAMD", 0x19: "AuthenticAMD", 0x1a: "AuthenticAMD"} {
			id := cpu.ID{Vendor: vendor, Family: family, Model: model}
			for _, device := range []string{"cpu", "cpu_core", "cpu_atom", "cpu_lowpower"} {
				core := Core(cpu.EventsOf(id, device))
				if !known[core] {
					t.Errorf("%s on %s is %q, which has no events", id, device, core)
				}
				found[core] = true
			}
		}
	}
	for core := range known {
		if !found[core] {
			t.Errorf("no CPU has %q", core)
		}
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]uint64{
		"event=0x41,umask=0x3f":          0x3f41,
		"event=0x18e,umask=0x18":         0x1_0000_188e,
		"event=0x81":                     0x81,
		"event=0xa3,umask=0x4,cmask=0x4": 0x0400_04a3,
	} {
		c, err := parseCode(text)
		if err != nil || c.config() != want {
			t.Errorf("%s: %#x, %v, want %#x", text, c.config(), err, want)
		}
	}
	for _, text := range []string{"", "event", "event=", "evnt=1", "event=0xg"} {
		if _, err := parseCode(text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
	for _, table := range []string{"a|b|c|event=1|exact", "a|l1i_miss|x|event=1|about|s", "a|l1i_miss|x|evnt=1|exact|s"} {
		if _, err := parseTable(table); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", table, err)
		}
	}
}

func TestDecode(t *testing.T) {
	bytes := func(words ...uint64) (b []byte) {
		for _, w := range words {
			for i := range 8 {
				b = append(b, byte(w>>(8*i)))
			}
		}
		return b
	}
	if c, err := Decode(bytes(2, 100, 100, 7, 8), 2); err != nil || !slices.Equal(c.Values, []uint64{7, 8}) {
		t.Errorf("%+v, %v", c, err)
	}
	for name, b := range map[string][]byte{
		"no counters": nil, "not all of the time": bytes(2, 100, 99, 7, 8), "never": bytes(2, 0, 0, 7, 8),
		"another group": bytes(3, 100, 100, 7, 8, 9), "cut short": bytes(2, 100, 100, 7),
	} {
		if c, err := Decode(b, 2); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
