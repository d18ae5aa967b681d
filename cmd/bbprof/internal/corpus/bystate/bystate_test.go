package bystate

import (
	"context"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// scripted takes cycles by a rule about the state that a block starts from.
type scripted func(captured bool, s initial.State, memory byte) float64

func (f scripted) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	cycles := 0.0
	if c := b.Setup.Captured; c != nil {
		cycles = f(true, c.State, c.Pages[0].Data[1])
	} else {
		cycles = f(false, *b.Setup.Init, byte(b.Setup.Init.Fill>>8))
	}
	if cycles == 0 {
		return profiler.Result{Status: profiler.Rejected, Reason: verdict.Unmappable, Rejection: &verdict.Rejection{Reason: verdict.Unmappable}}, nil
	}
	return profiler.Result{Status: profiler.OK, Cycles: cycles}, nil
}

func TestCompare(t *testing.T) {
	slowIf := func(slow bool) float64 {
		if slow {
			return 8
		}
		return 2
	}
	for _, c := range []struct {
		name   string
		rule   scripted
		cause  Cause
		change string
	}{
		{"same", func(bool, initial.State, byte) float64 { return 2 }, "", ""},
		{"within 5 %", func(captured bool, _ initial.State, _ byte) float64 {
			if captured {
				return 2.09
			}
			return 2
		}, "", ""},
		{"equal pointers", func(_ bool, s initial.State, _ byte) float64 { return slowIf(s.GPR[asm.RAX] == s.GPR[asm.RCX]) }, EqualPointers, "the state distinct"},
		{"a shift count", func(_ bool, s initial.State, _ byte) float64 { return slowIf(s.GPR[asm.RCX] == 3) }, Value, "the program's state with the paper's rcx"},
		{"a pointer", func(_ bool, s initial.State, _ byte) float64 { return slowIf(s.GPR[asm.RAX] == 0x7000) }, Address, "the program's state with the paper's rax"},
		{"a pointer that is mapped in one state alone", func(captured bool, s initial.State, _ byte) float64 {
			if captured && s.GPR[asm.RAX] != 0x7000 {
				return 0
			}
			return slowIf(s.GPR[asm.RAX] == 0x7000)
		}, Address, "the paper's state with the program's rax"},
		{"flags", func(_ bool, s initial.State, _ byte) float64 { return slowIf(s.Flags&1 != 0) }, Flags, "the program's state with flags clear"},
		{"subnormals", func(_ bool, s initial.State, _ byte) float64 { return slowIf(s.MXCSR == initial.DefaultMXCSR) }, Subnormals, "the program's state with the paper's mxcsr"},
		{"vectors", func(_ bool, s initial.State, _ byte) float64 { return slowIf(len(s.Vectors) > 0) }, Vectors, "the program's state with vector registers zero"},
		{"memory", func(_ bool, _ initial.State, m byte) float64 { return slowIf(m == 0) }, Memory, "the program's state with the paper's word in memory"},
		{"several at once", func(captured bool, s initial.State, m byte) float64 {
			return slowIf(captured && (m == 0 || s.GPR[asm.RCX] == 3))
		}, Unknown, ""},
	} {
		state := &initial.Captured{Pages: []initial.Page{{Address: 0x7000}}}
		state.MXCSR, state.Flags, state.Vectors = initial.DefaultMXCSR, 1, []initial.Vector{{Bits: 128}}
		state.GPR[asm.RAX], state.GPR[asm.RCX] = 0x7000, 3
		code, _ := hex.DecodeString("48d308") // ror qword ptr [rax], cl
		got, err := Compare(t.Context(), c.rule, Block{Code: code, State: state})
		if err != nil || got.Cause != c.cause || got.Change != c.change {
			t.Errorf("%s: %q by %q, %v; want %q by %q", c.name, got.Cause, got.Change, err, c.cause, c.change)
		}
	}
}

func TestExplains(t *testing.T) {
	for _, c := range []struct {
		cycles, want, from float64
		explains           bool
	}{
		{1, 1, 2, true}, {1.04, 1, 2, true}, {1.4, 1.51, 8.99, true}, {1.19, 1, 2, true}, {1.21, 1, 2, false},
		{2, 1, 2, false}, {0, 1, 2, false}, {3.9, 4, 3, true},
	} {
		if got := explains(c.cycles, c.want, c.from); got != c.explains {
			t.Errorf("%v on the way from %v to %v: %t", c.cycles, c.from, c.want, got)
		}
	}
}

func TestSummarize(t *testing.T) {
	s := Summarize([]Comparison{
		{Hex: "90", Captured: 1, Paper: 1.04, Distinct: 1.2},
		{Hex: "91", Captured: 1, Paper: 16, Distinct: 1, Cause: EqualPointers},
		{Hex: "92", Reason: verdict.Alias4K},
		{Hex: "93", Captured: 3, Paper: 2, Cause: Unknown},
		{Hex: "94", Captured: 3, PaperReason: verdict.SIGFPE},
	})
	order := ""
	for _, c := range s.List {
		order += c.Hex
	}
	s.List = nil
	want := Summary{Blocks: 5, Measured: 4, Compared: 3, Apart: 2, ComparedDistinct: 2, ApartDistinct: 1,
		Causes: map[Cause]int{EqualPointers: 1, Unknown: 1}, Rejected: map[verdict.Reason]int{verdict.Alias4K: 1}}
	if diff := cmp.Diff(want, s); diff != "" || order != "9193909294" {
		t.Errorf("order %s (-want +got)\n%s", order, diff)
	}
}
