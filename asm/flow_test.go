package asm

import (
	"encoding/hex"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestStepOver(t *testing.T) {
	for _, tt := range []struct {
		hex  string
		want Step
	}{
		{"4801c0", Step{Length: 3}},
		{"7ffe", Step{Length: 2, Flow: FlowBranch, Target: -2}},
		{"0f8400010000", Step{Length: 6, Flow: FlowBranch, Target: 256}},
		{"e2fe", Step{Length: 2, Flow: FlowBranch, Target: -2}},
		{"e300", Step{Length: 2, Flow: FlowBranch}},
		{"c7f810000000", Step{Length: 6, Flow: FlowBranch, Target: 16}},
		{"eb7f", Step{Length: 2, Flow: FlowJump, Target: 127}},
		{"3effe0", Step{Length: 3, Flow: FlowJumpIndirect}},
		{"ff25f8ffffff", Step{Length: 6, Flow: FlowJumpIndirect, RIPDisp: 2}},
		{"e8fbffffff", Step{Length: 5, Flow: FlowCall, Target: -5}},
		{"41ff542408", Step{Length: 5, Flow: FlowCallIndirect}},
		{"f3c3", Step{Length: 2, Flow: FlowReturn}},
		{"c20800", Step{Length: 3, Flow: FlowReturn}},
		{"0f05", Step{Length: 2, Flow: FlowSystem}},
		{"cd80", Step{Length: 2, Flow: FlowSystem}},
		{"0f0b", Step{Length: 2, Flow: FlowTrap}},
		{"cc", Step{Length: 1, Flow: FlowTrap, Pads: true}},
		{"f4", Step{Length: 1, Flow: FlowTrap}},
		{"660f1f440000", Step{Length: 6, Pads: true}},
		{"90", Step{Length: 1, Pads: true}},
		{"f30f1efa", Step{Length: 4, Endbr: true}},
		{"f348ab", Step{Length: 3, Repeats: true}},
		{"48ab", Step{Length: 2}},
		{"488b0510000000", Step{Length: 7, RIPDisp: 3}},
	} {
		code := require.Hex(t, tt.hex+"90")
		require.Equal(t, tt.hex, tt.want, require.Get(StepOver(code))(t))
	}
	for _, bad := range []string{"", "06", "e80000", "0f"} {
		code, _ := hex.DecodeString(bad)
		if got, err := StepOver(code); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, got)
		}
	}
}
