package harness

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
)

// Start is what a block finds before its first run: the initial state, at layout.Home, with
// nothing mapped but bbprof's own memory.
func Start(init initial.State) asm.Start {
	return asm.Start{
		Regs: asm.Regs{GPR: init.GPR, RIP: layout.Home, FSBase: init.FSBase, GSBase: init.GSBase},
		Fill: init.Fill,
	}
}

// NewProbe plans the instrumentation of a block for the child.
func NewProbe(insts []asm.Inst, features asm.Features) (*asm.Probe, error) {
	return asm.NewProbe(insts, features, layout.SlotScratch)
}

// logAt is where instrumented copy k logs its accesses.
func logAt(probe *asm.Probe, k int) uint64 { return layout.Log + uint64(k*probe.LogSize()) }

// StartAt is Start for a block that believes that it stands at an address.
func StartAt(init initial.State, home uint64) asm.Start {
	start := Start(init)
	start.Regs.RIP = home
	return start
}
