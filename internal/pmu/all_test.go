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
	attrs := map[pmu.Attr]string{p.Event(pmu.Cycles).Attr: "core cycles"}
	for _, name := range all {
		e := require.Get(p.Named(k, name))(t)
		if e.Software() || attrs[e.Attr] != "" {
			t.Errorf("%s is of the kernel, or the same as %q", name, attrs[e.Attr])
		}
		attrs[e.Attr] = name
	}
	for name, want := range map[string]bool{
		"MEM_LOAD_RETIRED.L1_MISS": true, "LD_BLOCKS_PARTIAL.ADDRESS_ALIAS": true, "mem-stores": true, "instructions": runtime.GOOS == "linux",
		"mem-stores.unit": false, "topdown": false, "page-faults": false,
	} {
		require.Equal(t, name, want, slices.Contains(all, name))
	}
}
