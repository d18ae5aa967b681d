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
		Regs:     asm.Regs{GPR: init.GPR, RIP: layout.Home, FSBase: init.FSBase, GSBase: init.GSBase},
		Fill:     init.Fill,
		Mappable: layout.Mappable,
	}
}

// NewProbe plans the instrumentation of a block for the child.
func NewProbe(insts []asm.Inst, features asm.Features) (*asm.Probe, error) {
	return asm.NewProbe(insts, features, layout.SlotScratch)
}

// LogAt is where instrumented copy k logs its accesses.
func LogAt(probe *asm.Probe, k int) uint64 { return layout.Log + uint64(k*probe.LogSize()) }

// Suppressed reads what a mask suppressed of their accesses.
func Suppressed(probe *asm.Probe, log []byte, copies int, init initial.State) []asm.Access {
	start := Start(init)
	return probe.Suppressed(log, copies, &start.Regs)
}

// Accesses reads what instrumented copies have logged, in program order.
func Accesses(probe *asm.Probe, log []byte, copies int, init initial.State) []asm.Access {
	start := Start(init)
	return probe.Accesses(log, copies, &start.Regs)
}
