package profiler

import (
	"errors"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/verdict"
)

// TestImpossible: the whole interval has to lie below what the core can do.
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
		insts, err := asm.Decode(unhex(t, c.hex))
		if err != nil {
			t.Fatal(err)
		}
		s := &session{}
		s.cpu.DispatchWidth = c.width
		m := &mapping.Mapped{Placer: mapping.Placer{Program: mapping.Program{Insts: insts}}}
		got, why := s.impossible(m, timing.Timed{Estimate: stat.Estimate{Value: c.cycles, Half: c.half}})
		if got != c.want || (why == "") != (got == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q, %q, want %q", c.name, got, why, c.want)
		}
	}
}

// TestReachesZero: no block takes no time, so an interval that reaches 0 is a rejection, on whatever core.
func TestReachesZero(t *testing.T) {
	for _, c := range []struct {
		name     string
		e        stat.Estimate
		rejected bool
	}{
		{"an emulator's add", stat.Estimate{Value: 0.0001, Half: 0.0009}, true},
		{"just to 0", stat.Estimate{Value: 0.01, Half: 0.01}, true},
		{"below 0", stat.Estimate{Value: -0.1, Half: 0.01}, true},
		{"just above", stat.Estimate{Value: 0.01, Half: 0.0099}, false},
		{"a nop at twelve a cycle", stat.Estimate{Value: 0.083, Half: 0.01}, false},
	} {
		r := job{}.unsteady(timing.Timed{Estimate: c.e}, []Speed{{Cycles: max(c.e.Value, 0.001)}})
		if (r != nil) != c.rejected || r != nil && (r.Reason != verdict.Unstable || !strings.Contains(r.Detail, "reaches 0")) {
			t.Errorf("%s: %v", c.name, r)
		}
	}
}

// tcg is the CPUID of QEMU without KVM.
func tcg(leaf, _ uint32) (eax, ebx, ecx, edx uint32) {
	if leaf == 0x4000_0000 {
		return 0x4000_0001, 0x54474354, 0x43544743, 0x47435447
	}
	return 0, 0, 0, 0
}

// TestEmulated: an emulated machine measures nothing, whatever else it could do.
func TestEmulated(t *testing.T) {
	for _, o := range []Options{{}, {Clock: TSCClock}, {CPUs: []int{0}}} {
		p, err := newProfiler(t.Context(), o, simulated.Machine{CPUID: tcg})
		if err == nil {
			p.Close()
		}
		if lacks, ok := errors.AsType[*verdict.HostError](err); !ok || lacks.Busy || !strings.Contains(lacks.Missing, "emulated") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
