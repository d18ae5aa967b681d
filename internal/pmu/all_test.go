package pmu_test

import (
	"runtime"
	"slices"
	"strings"
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

func TestVendorList(t *testing.T) {
	const list = `[
		{"EventName": "LD_BLOCKS_PARTIAL.ADDRESS_ALIAS", "EventCode": "0x07", "UMask": "0x01", "CounterMask": "0", "Invert": "0", "MSRIndex": "0x00"},
		{"EventName": "UOPS_STALLED", "EventCode": "0x0e", "UMask": "0x1", "CounterMask": "1", "Invert": "1", "EdgeDetect": "1"},
		{"EventName": "ic_miss", "EventCode": "0x18e", "UMask": "0x18", "BriefDescription": "as AMD's are"},
		{"EventName": "OF_ATOM", "EventCode": "0x01", "Unit": "cpu_atom"},
		{"EventName": "OFFCORE", "EventCode": "0xB7,0xBB", "UMask": "0x01", "MSRIndex": "0x1a6,0x1a7"},
		{"EventName": "UNCORE", "EventCode": "0x34", "UMask": "0x11", "Unit": "CBO"},
		{"EventName": "OLD", "EventCode": "0x34", "Deprecated": "1"},
		{"MetricName": "IPC", "MetricExpr": "1"}
	]`
	want := []pmu.Selected{
		{"LD_BLOCKS_PARTIAL.ADDRESS_ALIAS", "cpu/event=0x7,umask=0x1/"},
		{"UOPS_STALLED", "cpu/event=0xe,umask=0x1,cmask=0x1,inv=0x1,edge=0x1/"},
		{"ic_miss", "cpu/event=0x18e,umask=0x18/"},
		{"OF_ATOM", "cpu/event=0x1/"},
	}
	for _, text := range []string{list, `{"Header": {"Version": "1"}, "Events": ` + list + `}`} {
		if got, err := pmu.VendorList(strings.NewReader(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for text, clue := range map[string]string{
		"":                                       "neither",
		"{}":                                     "no event",
		"[]":                                     "no event",
		`[{"EventName": "A", "EventCode": "x"}]`: `A: event is "x"`,
	} {
		if _, err := pmu.VendorList(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), clue) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzVendorList(f *testing.F) {
	f.Add(`[{"EventName": "A", "EventCode": "0x7", "UMask": "1"}]`)
	f.Add(`{"Events": [{"EventName": "A", "EventCode": "7", "CounterMask": "0x10"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := pmu.VendorList(strings.NewReader(text))
		if (err == nil) == (len(all) == 0) {
			t.Errorf("%d events, %v", len(all), err)
		}
	})
}
