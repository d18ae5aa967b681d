package host

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// hybrid is an Arrow Lake-H: CPUs 0 to 3 are large cores, 4 to 7 small ones, 8 and 9 those of the low-power island.
func hybrid(allowed ...int) (cpu.ID, machine) {
	files := map[string]string{"cpu_core": "0-3\n", "cpu_atom": "4-7\n", "cpu_lowpower": "8-9\n"}
	return cpu.ID{Vendor: "GenuineIntel", Family: 6, Model: 0xc5, Hybrid: true}, machine{
		read: func(file string) ([]byte, error) {
			kind, isList := strings.CutSuffix(strings.TrimPrefix(file, cpu.Devices+"/"), "/cpus")
			if text, ok := files[kind]; ok && isList {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		},
		allowed: func() ([]int, error) { return allowed, nil },
		caches: func(number int) []Cache {
			l1d, l2 := 32<<10, 4<<20
			if number < 4 {
				l1d, l2 = 48<<10, 3<<20
			}
			return []Cache{{Level: 1, Kind: "data", Bytes: l1d}, {Level: 1, Kind: "instruction", Bytes: 64 << 10},
				{Level: 2, Kind: "unified", Bytes: l2}}
		},
	}
}

// TestDetectHybrid: the core, its sizes and its caches are those of the CPU chosen, and of the fastest kind where
// none is.
func TestDetectHybrid(t *testing.T) {
	t.Setenv(asCore, "")
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, c := range []struct {
		name            string
		allowed, chosen []int
		core            cpu.Name
		l1d, ways       int
		stores          int
	}{
		{"none chosen", all, nil, cpu.LionCove, 48 << 10, 12, 112},
		{"large cores chosen", all, []int{3, 2}, cpu.LionCove, 48 << 10, 12, 112},
		{"small ones chosen", all, []int{5, 4}, cpu.Skymont, 32 << 10, 8, 112},
		{"the low-power island chosen", all, []int{9}, cpu.Crestmont, 32 << 10, 8, 48},
		{"the small ones are all that is allowed", []int{8, 6}, nil, cpu.Skymont, 32 << 10, 8, 112},
		{"a CPU that is not there", all, []int{77}, cpu.Unknown, 32 << 10, 8, 112},
	} {
		id, m := hybrid(c.allowed...)
		got := detect(id, m, c.chosen)
		if got.Microarchitecture != c.core || got.L1D != c.l1d || got.Core.L1DWays != c.ways ||
			got.Core.StoreBuffer != c.stores || got.FrontEnd.L1I != 64<<10 ||
			got.MultiplyCycles != cpu.Of(c.core).MultiplyCycles || got.FrontEnd.OpCache != unroll.OpCache(cpu.Of(c.core).OpCache) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestDetectHybridUntold: a kernel without the devices, as in a virtual machine without counters, tells no kind, and
// who may not ask which CPUs are allowed is no better off: the core is not known, and nothing fails.
func TestDetectHybridUntold(t *testing.T) {
	t.Setenv(asCore, "")
	id, m := hybrid(0, 1)
	m.read = func(string) ([]byte, error) { return nil, os.ErrNotExist }
	for _, chosen := range [][]int{nil, {1}} {
		if got := detect(id, m, chosen); got.Microarchitecture != cpu.Unknown || got.FrontEnd.OpCache.Lines == 0 {
			t.Errorf("%v: %+v", chosen, got)
		}
	}
	_, m = hybrid()
	m.allowed = func() ([]int, error) { return nil, errors.New("no") }
	m.caches = func(int) []Cache { return nil }
	if got := detect(id, m, nil); got.Microarchitecture != cpu.Unknown || got.L1D == 0 || got.FrontEnd.L1I == 0 {
		t.Errorf("%+v", got)
	}
}

// TestKinds: of a hybrid CPU's kinds of core the fastest is measured on, unless another is chosen, and never two.
func TestKinds(t *testing.T) {
	hybrid := func(number int) string { return cpu.Kinds[min(number/4, 2)] }
	equal := func(int) string { return "" }
	for _, c := range []struct {
		cpus    []int
		kind    func(int) string
		fastest []int
		mixed   string
	}{
		{[]int{1, 0}, equal, []int{1, 0}, ""},
		{nil, hybrid, nil, ""},
		{[]int{5, 3, 4, 2}, hybrid, []int{3, 2}, "CPUs 5 (cpu_atom) and 3 (cpu_core)"},
		{[]int{9, 5, 4}, hybrid, []int{5, 4}, "CPUs 9 (cpu_lowpower) and 5 (cpu_atom)"},
		{[]int{9, 8}, hybrid, []int{9, 8}, ""},
	} {
		require.Equal(t, c.cpus, c.fastest, fastestKind(c.cpus, c.kind))
		lack, mixed := errors.AsType[*verdict.HostError](checkKinds(c.cpus, c.kind))
		if mixed != (c.mixed != "") || mixed && !strings.Contains(lack.Missing, c.mixed) {
			t.Errorf("%v: %v", c.cpus, lack)
		}
	}
}
