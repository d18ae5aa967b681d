package pmu_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
)

// TestAll: the table's events, the kernel's and the device's, each once, core cycles not among them.
func TestAll(t *testing.T) {
	k := pmutest.New(4)
	const events = "/sys/bus/event_source/devices/cpu/events/"
	k.Files[events+"mem-stores"] = "event=0xd0,umask=0x82"
	k.Files[events+"mem-stores.unit"] = "none"
	k.Files[events+"topdown"] = "event=0x00,slots=1"        // a term that is nowhere
	k.Files[events+"misses-again"] = "event=0xd1,umask=0x8" // in the table
	p := probe(t, k, skylake)
	all := require.Get(p.All(k))(t)
	count := map[string]int{}
	attrs := map[pmu.Attr]string{}
	for _, s := range all {
		count[s.Name]++
		e := require.Get(p.Named(k, s.By))(t)
		if e.Software() {
			t.Errorf("%s is no event of the CPU", s.Name)
		}
		if attrs[e.Attr] != "" {
			t.Errorf("%s is %s", s.Name, attrs[e.Attr])
		}
		attrs[e.Attr] = s.Name
	}
	for name, want := range map[string]int{
		"MEM_LOAD_RETIRED.L1_MISS": 1, "LD_BLOCKS_PARTIAL.ADDRESS_ALIAS": 1, "mem-stores": 1, "mem-stores.unit": 0, "topdown": 0, "misses-again": 0,
		"cycles": 0, "cpu-cycles": 0, "page-faults": 0,
	} {
		if count[name] != want {
			t.Errorf("%s is there %d times, want %d: %v", name, count[name], want, all)
		}
	}
	if generic := slices.ContainsFunc(all, func(s pmu.Selected) bool { return s.Name == "instructions" }); !generic && runtime.GOOS == "linux" {
		t.Error("no generic event")
	}
}
