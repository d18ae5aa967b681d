// Package compare tests whether one piece of code is faster than another regardless of placement. Placement changes
// speed more than many optimisations do (Mytkowicz, Diwan, Hauswirth and Sweeney, "Producing Wrong Data Without Doing
// Anything Obviously Wrong!", ASPLOS 2009). So all sides are measured in the same random layouts, and the differences
// are tested layout by layout.
//
// [Blocks] prepares blocks; [Run] measures programs and anything else too.
package compare

import (
	"math/rand/v2"

	"github.com/bbprof/bbprof/asm"
)

const (
	// page is the range of a random start: address bits above the low 12 change neither the cache lines nor the fetch
	// blocks that code meets.
	page = 4096
	// codeUnit is the step of code addresses in bytes: compilers align functions to it on x86-64, so changes elsewhere
	// in a program move them by it.
	codeUnit = 16
	// dataUnit is the step of data addresses: a cache line. A smaller step could make accesses cross lines, which
	// changes more than the block's placement.
	dataUnit = 64
)

// Layout is a set-up in which all sides are measured: where code and data are for blocks, what lies above the stack for
// programs.
type Layout struct {
	Number int    `json:"number"`                // from 1
	Start  int    `json:"start_bytes,omitzero"`  // of the code in its page
	Data   int    `json:"data_bytes,omitzero"`   // offset of all data
	Apart  []int  `json:"apart_bytes,omitempty"` // offset of each pointer's data, see [Layout.Spread]
	Env    int    `json:"env_bytes,omitzero"`    // added to a program's environment
	Stack  int    `json:"stack_bytes,omitzero"`  // by which its stack starts lower in addition
	Heap   int    `json:"heap_bytes,omitzero"`   // by which its heap starts higher
	Link   uint32 `json:"link_seed,omitzero"`    // seed of the link, for linked programs
	Order  string `json:"order,omitempty"`       // of the object files, for linked programs
	// Objects are these files in that order, for -objects of another link.
	Objects []string `json:"objects,omitempty"`
}

// Draw draws n layouts for blocks. Layout i of a seed does not depend on n. Starts are uniform over a page, so padding
// before the code would change nothing: a uniform start plus padding is uniform.
func Draw(seed uint64, n int) []Layout {
	layouts := make([]Layout, n)
	for i := range layouts {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		layouts[i] = Layout{Number: i + 1, Start: codeUnit * r.IntN(page/codeUnit), Data: dataUnit * r.IntN(page/dataUnit)}
	}
	return layouts
}

// pointers counts the registers, by encoding number, and the word that fills memory.
const pointers = 17

// Spread draws a position for each pointer of a block's layout instead of one for all: the allocator determines the
// distance of a program's buffers, and they alias if its low 12 bits are 0. The stack and frame pointers stay together.
func (l Layout) Spread(seed uint64) Layout {
	r := rand.New(rand.NewPCG(^seed, uint64(l.Number)))
	l.Apart = make([]int, pointers)
	for i := range l.Apart {
		l.Apart[i] = dataUnit * r.IntN(page/dataUnit)
	}
	l.Apart[asm.RBP] = l.Apart[asm.RSP]
	return l
}
