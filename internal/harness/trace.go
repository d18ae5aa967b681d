package harness

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// NewProbe plans the instrumentation of a block for the child.
func NewProbe(insts []asm.Inst, features asm.Features) (*asm.Probe, error) {
	return asm.NewProbe(insts, features, layout.SlotScratch)
}

// logAt returns the address of the log of instrumented copy k.
func logAt(probe *asm.Probe, k int) uint64 { return layout.Log + uint64(k*probe.LogSize()) }
