package pmu

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
)

// Roles lists the roles that need an event, core cycles first.
func Roles() []Role {
	return []Role{Cycles, L1DReadMiss, L1DWriteMiss, L1IMiss, SplitLoad, SplitStore, AddressAlias}
}

// Every core that a CPU can have has a row with a source for each event.
func TestTable(t *testing.T) {
	table := require.Get(parseTable(eventTable))(t)
	found := map[Core]bool{Generic: true}
	for model := range 256 {
		for family, vendor := range map[int]string{6: "GenuineIntel", 0x17: "AuthenticAMD", 0x19: "AuthenticAMD", 0x1a: "AuthenticAMD"} {
			for _, device := range []string{"cpu", "cpu_core", "cpu_atom", "cpu_lowpower"} {
				found[Core(cpu.EventsOf(cpu.ID{Vendor: vendor, Family: family, Model: model}, device))] = true
			}
		}
	}
	for core := range table {
		if !found[core] {
			t.Errorf("events.txt has %s, which is the Events of no core in internal/cpu/cores.go", core)
		}
	}
	for core := range found {
		events := require.Get(eventsOf(core, Device{Type: TypeRaw}))(t)
		var roles []Role
		for _, e := range events {
			roles = append(roles, e.Role)
			if (e.Why == "") != (e.Name != "" && e.Source != "") || core != Generic && e.Role != Cycles && !strings.Contains(e.Source, ".json") {
				t.Errorf("%s: %+v", core, e)
			}
		}
		require.Equal(t, core, Roles(), roles)
	}
}

func TestCode(t *testing.T) {
	for text, want := range map[string]Attr{
		"event=0x41,umask=0x3f":          {Config: 0x3f41},
		"event=0x18e,umask=0x18":         {Config: 0x1_0000_188e},
		"event=0x81,config1=7":           {Config: 0x81, Config1: 7},
		"event=0xa3,umask=0x4,cmask=0x4": {Config: 0x0400_04a3},
	} {
		require.Equal(t, text, want, require.Get(parseCode(text))(t))
	}
	for _, table := range []string{"a|b|c|event=1|exact", "a|l1i_miss|x|event=1|about|s", "a|l1i_miss|x|evnt=1|exact|s", "a|l1i_miss|x||exact|s",
		"a|l1i_miss|x|event=0xg|exact|s"} {
		if _, err := parseTable(table); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", table, err)
		}
	}
}

func TestDecode(t *testing.T) {
	bytes := func(words ...uint64) (b []byte) {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	if c, err := decode(bytes(2, 100, 100, 7, 8), 2); err != nil || !slices.Equal(c.Values, []uint64{7, 8}) {
		t.Errorf("%+v, %v", c, err)
	}
	for name, b := range map[string][]byte{
		"no counters": nil, "not all of the time": bytes(2, 100, 99, 7, 8), "never": bytes(2, 0, 0, 7, 8),
		"another group": bytes(3, 100, 100, 7, 8, 9), "cut short": bytes(2, 100, 100, 7),
	} {
		if c, err := decode(b, 2); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
