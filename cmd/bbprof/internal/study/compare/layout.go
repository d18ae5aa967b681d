// Package compare tests whether pieces of code are faster than another, independently of where
// any happens to be placed. Placement changes the speed of code by more than many
// optimisations do (Mytkowicz, Diwan, Hauswirth and Sweeney, "Producing Wrong Data Without Doing
// Anything Obviously Wrong!", ASPLOS 2009). So all sides are measured in the same random layouts,
// and the test is of the differences layout by layout.
//
// [Blocks] says how blocks are measured; programs, and anything else, can be given to [Run] too.
package compare

import (
	"math/rand/v2"

	"github.com/bbprof/bbprof/asm"
)

const (
	// Page is the range of a random start: what lies above the low 12 bits of an address changes
	// neither which cache lines nor which fetch windows code meets.
	Page = 4096
	// CodeUnit is the step of code addresses, in bytes: the alignment that compilers give functions
	// on x86-64, so the distance by which a change elsewhere in a program moves them.
	CodeUnit = 16
	// DataUnit is the step of data addresses: a cache line. A smaller step would make accesses
	// cross lines that did not before, which changes the block and not only its place.
	DataUnit = 64
)

// Layout is one set-up in which all sides are measured: of blocks, where code and data are; of
// programs, what is above the stack.
type Layout struct {
	Number int    `json:"number"`                // from 1
	Start  int    `json:"start_bytes,omitzero"`  // of the code in its page
	Data   int    `json:"data_bytes,omitzero"`   // by which all data are moved
	Apart  []int  `json:"apart_bytes,omitempty"` // by which the data of each pointer are moved, see [Layout.Spread]
	Env    int    `json:"env_bytes,omitzero"`    // by which a program's environment is longer
	Stack  int    `json:"stack_bytes,omitzero"`  // by which its stack starts lower still
	Heap   int    `json:"heap_bytes,omitzero"`   // by which its heap starts higher
	Link   uint32 `json:"link_seed,omitzero"`    // of linked programs: which link, by its seed
	Order  string `json:"order,omitempty"`       // likewise: of the object files
}

// Draw makes n layouts for blocks. Layout i of a seed does not depend on n. Starts are uniform over a page, so that padding before the code would change
// nothing: a uniform start plus padding is uniform.
func Draw(seed uint64, n int) []Layout {
	layouts := make([]Layout, n)
	for i := range layouts {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		layouts[i] = Layout{Number: i + 1, Start: CodeUnit * r.IntN(Page/CodeUnit), Data: DataUnit * r.IntN(Page/DataUnit)}
	}
	return layouts
}

// pointers are the registers by encoding number, and the word that fills memory.
const pointers = 17

// Spread draws a place for each pointer of a layout of blocks instead of one for all: two buffers of a
// program have their distance from the allocator, and where its low 12 bits are 0 they alias. The stack
// and frame pointers stay together.
func (l Layout) Spread(seed uint64) Layout {
	r := rand.New(rand.NewPCG(^seed, uint64(l.Number)))
	l.Apart = make([]int, pointers)
	for i := range l.Apart {
		l.Apart[i] = DataUnit * r.IntN(Page/DataUnit)
	}
	l.Apart[asm.RBP] = l.Apart[asm.RSP]
	return l
}
