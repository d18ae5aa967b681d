// Package expect is what tests may expect of the core at hand where cores differ: a row a core that differs, each
// value as it was measured there, and one for all others. What code needs to know of a core is in package cpu.
package expect

import (
	"cmp"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
)

// Core is what tests expect of a core.
type Core struct {
	// SteadyAfter is how many copies of a prologue of 13 instructions start faster than the others go on.
	SteadyAfter int
	// FullSlots says that copies that take all slots of a cycle take as long as a loop of them.
	FullSlots bool
	// SlowDecoders says that the decoders serve six short instructions a cycle slower than the op cache does.
	SlowDecoders bool
	// AliasWaits says that a load waits where it aliases with a store, that computing subnormals takes longer, and
	// that a load that a register serves takes the same at each alignment.
	AliasWaits bool
	// EntryLines says that what op-cache entries meet a cache line decides the time of nops of several lengths, and
	// DecodersStarve that code is slower beyond L2 and not before.
	EntryLines, DecodersStarve bool
	// PairedSlots says that the slot which a copy starts at decides the time of sums and comparisons.
	PairedSlots bool
	// SecondCause says that where a chain of subnormals or loads through two pages are slow, the slot or the line of
	// the copies is a second, weaker cause: 3 % with the slot, up to 15 % with the place in a line.
	SecondCause bool
	// KernelsSlow says that the kernels of docs/explain.md take longer where they alias, by what their tests have.
	KernelsSlow bool
}

// others is what holds for a core without a row.
var others = Core{SteadyAfter: 8, FullSlots: true, SlowDecoders: true, AliasWaits: true}

// Of is what to expect of a core.
func Of(name cpu.Name) Core {
	row := cpu.Of(name)
	c := others
	c.SlowDecoders = !row.NoOpCache // or there is nothing to compare with
	if change, ok := rows[cmp.Or(row.Like, name)]; ok {
		change(&c)
	}
	return c
}

// Here is what to expect of the CPU at hand.
func Here() Core { return Of(host.Detect().Microarchitecture) }

// rows are what is otherwise on a core.
var rows = map[cpu.Name]func(*Core){
	cpu.GoldenCove: func(c *Core) {
		c.SlowDecoders = false // six decoders of 32 bytes (Optimization Reference Manual, "Golden Cove Microarchitecture")
	},
	cpu.RedwoodCove: func(c *Core) { // measured on Granite Rapids
		c.SlowDecoders = false
		c.FullSlots = false // some 0.03 cycles a copy less than a loop
		c.AliasWaits = false
		c.PairedSlots = true
	},
	cpu.Zen4: func(c *Core) { // measured on Genoa
		c.EntryLines, c.DecodersStarve, c.KernelsSlow = true, true, true
	},
	cpu.Zen5: func(c *Core) { // measured on Turin
		c.SteadyAfter, c.SecondCause = 16, true
	},
}
