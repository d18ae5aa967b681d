// Package state reads and writes files of captured states: visits of blocks by their program, each with registers
// and pages before and after. docs/capture.md describes the format.
//
// A file is a ZIP archive: JSON that describes all visits, chunks of visits, and an index. Pages with equal
// contents are stored once, in the chunk of the first visit that has them; a visit refers to its pages by number.
// A [Reader] holds the index and a few chunks, regardless of the file's size.
package state

import (
	"encoding/binary"
	"fmt"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
)

// Visit is one visit of a block by its program.
type Visit struct {
	Entry
	Before initial.Captured
	// After is the state after the block's last instruction, with only the pages that the block changed.
	After initial.Captured
}

// Entry is a row of the index.
type Entry struct {
	ID       int    `json:"state"` // from 1, in file order
	Hex      string `json:"hex"`
	File     string `json:"file"` // with the block, as the program loaded it
	Function string `json:"function"`
	Offset   uint64 `json:"offset"`  // of the block in the file, as extract shows it
	Address  uint64 `json:"address"` // in the program's memory
	Visit    uint64 `json:"visit"`   // which visit was drawn, from 1
	Visits   uint64 `json:"visits"`  // out of how many
	Pages    int    `json:"pages"`   // touched by the block
	Changed  int    `json:"changed"` // of those, changed by the block
	// Skipped is the number of a loop's iterations in this visit before the state.
	Skipped uint64 `json:"skipped,omitempty"`
	// Entry is the offset of a loop's header in its code, at which Address is; nil: the code is a block.
	Entry *int `json:"entry,omitempty"`
}

// About describes what all visits of a file have in common.
type About struct {
	Program []string `json:"program"` // with arguments
	CPU     string   `json:"cpu"`
	Seed    uint64   `json:"seed"`
	Samples int      `json:"samples"` // requested per block
}

// The archive's files in order; chunks stand between the two.
const (
	aboutFile = "bbprof-states.json"
	chunkFile = "visits-%d-pages-%d"
	indexFile = "index.json"
)

// version of the format, in aboutFile.
const version = 2

const (
	pageSize = 4096

	// maxPages is how many pages a visit may touch: the number of frames for measuring it.
	maxPages = layout.MaxFrames

	// A chunk ends at this many visits or pages; its last visit may exceed that.
	fullVisits = 64
	fullPages  = 64
)

// maxRaw is the size of the largest chunk.
var maxRaw = fullVisits*2*(registersSize+4+maxPages*referenceSize) + (fullPages+2*maxPages)*pageSize

// registers is the file format of a state without its pages.
type registers struct {
	Address, FSBase, GSBase, Flags uint64
	GPR                            [16]uint64
	Opmasks                        [8]uint64
	MXCSR                          uint32
	X87                            initial.X87
	Vectors                        [32][8]uint64
}

var registersSize = binary.Size(registers{})

// reference refers to a page of a visit.
type reference struct {
	Address uint64 // bit 0: writable
	Page    uint32 // from 0, in file order
}

const referenceSize = 12

func registersOf(c *initial.Captured) (r registers, err error) {
	r = registers{c.Address, c.FSBase, c.GSBase, c.Flags, c.GPR, c.Opmasks, c.MXCSR, c.X87, [32][8]uint64{}}
	for _, v := range c.Vectors {
		if v.Reg < 0 || v.Reg >= len(r.Vectors) {
			return r, fmt.Errorf("there is no vector register %d", v.Reg)
		}
		r.Vectors[v.Reg] = v.Words
	}
	return r, nil
}

// captured returns the state without its pages. It omits zero vector registers.
func (r *registers) captured() (c initial.Captured) {
	c.State = initial.State{Name: "captured", GPR: r.GPR, FSBase: r.FSBase, GSBase: r.GSBase, Fill: initial.Paper().Fill,
		MXCSR: r.MXCSR, Opmasks: r.Opmasks, Flags: r.Flags}
	c.Address, c.X87 = r.Address, r.X87
	c.Vectors = initial.VectorsOf(&r.Vectors)
	return c
}
