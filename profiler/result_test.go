package profiler

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/verdict"
)

// TestImpossible: the whole interval must lie below the core's limit.
func TestImpossible(t *testing.T) {
	for _, c := range []struct {
		name, hex    string
		width        int
		cycles, half float64
		want         Impossible
		says         string
	}{
		{"two nops at six a cycle", "9090", 6, 0.32, 0.0084, "", ""},
		{"and a little less", "9090", 6, 0.32, 0.0082, BelowDispatch, "fewer than the 0.333 that 2 instructions need on a core that renames 6 a cycle"},
		{"on a core of eight", "9090", 8, 0.32, 0.01, "", ""},
		{"on one that is not known", "9090", 0, 0.1, 0.01, "", ""},
		{"a chain on one that is not known", "4801c0", 0, 0.001, 0.0005, BelowLatency, "the 1 that a chain"},
		{"an imul", "480fafc0", 6, 2.94, 0.016, "", ""},
		{"one that is too fast", "480fafc0", 6, 2.94, 0.014, BelowLatency, "fewer than the 3 that a chain through registers takes"},
		{"both: the chain says more", "4801c0", 6, 0.1, 0.01, BelowLatency, "the 1 that a chain"},
	} {
		insts := require.Get(asm.Decode(unhex(t, c.hex)))(t)
		s := &session{}
		s.cpu.DispatchWidth = c.width
		m := &mapping.MappedBlock{ImageBuilder: mapping.ImageBuilder{Program: mapping.Program{Insts: insts}}}
		got, why := s.impossible(m, timing.Timed{Estimate: stat.Estimate{Value: c.cycles, Half: c.half}})
		if got != c.want || (why == "") != (got == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q, %q, want %q", c.name, got, why, c.want)
		}
	}
}

// TestEmulated: an emulated machine measures nothing, whatever else it could do.
func TestEmulated(t *testing.T) {
	tcg := func(leaf, _ uint32) (eax, ebx, ecx, edx uint32) { // QEMU without KVM
		if leaf == 0x4000_0000 {
			return 0x4000_0001, 0x54474354, 0x43544743, 0x47435447
		}
		return 0, 0, 0, 0
	}
	_, err := newProfiler(t.Context(), Options{}, simulated.Machine{CPUID: tcg})
	if lacks, ok := errors.AsType[*verdict.HostError](err); !ok || lacks.Busy || !strings.Contains(lacks.Missing, "emulated") {
		t.Error(err)
	}
}

// TestReachesZero: an interval or a speed that reaches 0 is a rejection on any core, because the shorter image was slow by itself.
// `8323ef5b` was accepted with -2.065 cycles in 7 of 24 layouts, and -0.019 in the mean.
func TestReachesZero(t *testing.T) {
	for _, c := range []struct {
		cycles, half, slowest float64
		rejected              bool
	}{
		{0.01, 0.01, 0.01, true}, {0.01, 0.0099, 0.01, false}, {-0.1, 0.01, 0.001, true}, {0.083, 0.01, 0.083, false},
		{1, 0, -2.065, true}, {1, 0, 0, true}, {1, 0, 0.001, false},
	} {
		timed := timing.Timed{Estimate: stat.Estimate{Value: c.cycles, Half: c.half}}
		r := job{}.unstable(timed, []Speed{{Cycles: c.slowest, Layouts: []int{1, 6}}, {Cycles: 1.017, Layouts: []int{0, 2}}})
		if (r != nil) != c.rejected || r != nil && r.Reason != verdict.Unstable {
			t.Errorf("%+v: %v", c, r)
		}
	}
}

// TestWhyOnce: JSON omits a counter's why only if it equals that of the counter before.
func TestWhyOnce(t *testing.T) {
	var r Result
	for _, why := range []string{"none", "none", "none", "doubled", "doubled", "", "none"} {
		r.Counters = append(r.Counters, CounterReport{Why: why})
	}
	text := require.Get(json.Marshal(r))(t)
	var parsed struct{ Counters []CounterReport }
	require.NoError(t, json.Unmarshal(text, &parsed))
	for i, want := range []string{"none", "", "", "doubled", "", "", "none"} {
		require.Equal(t, i, want, parsed.Counters[i].Why)
	}
	require.Equal(t, "the result itself", "none", r.Counters[1].Why)
}
