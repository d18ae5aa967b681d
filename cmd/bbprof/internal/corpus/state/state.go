// Package state reads and writes files of captured states: visits of blocks by their program, each
// with the registers and pages before and after it. docs/capture.md describes the format.
//
// A file is a ZIP archive: what holds for all its visits as JSON, chunks of visits, and an index. Pages with equal contents
// are stored once, in the chunk of the first visit that has them; a visit names its pages by number. A
// [Reader] holds the index and a few chunks, whatever the size of the file.
package state

import (
	"encoding/binary"
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
)

// Visit is one visit of a block by its program.
type Visit struct {
	Entry
	Before initial.Captured
	// After is the state after the block's last instruction. Its pages are those that the block changed.
	After initial.Captured
}

// Entry is a row of the index.
type Entry struct {
	ID       int // from 1, in the order of the file
	Hex      string
	File     string // that holds the block, as the program loaded it
	Function string
	Offset   uint64 // of the block as extract has it: an address by the file
	Address  uint64 // in the program's memory
	Visit    uint64 // which one, from 1
	Visits   uint64 // among how many it was drawn
	Pages    int    // that the block touches
	Changed  int    // of those, whose contents it changes
}

// About says of a file what holds for all its visits.
type About struct {
	Program []string `json:"program"` // with its arguments
	CPU     string   `json:"cpu"`
	Seed    uint64   `json:"seed"`
	Samples int      `json:"samples"` // wanted of each block
}

// Error blames a file.
type Error = words.Error

// The files of an archive, in this order; between the two its chunks.
const (
	aboutFile = "bbprof-states.json"
	chunkFile = "visits-%d-pages-%d"
	indexFile = "index.csv"
)

// version is that of the format, in aboutFile.
const version = 1

const (
	pageSize = 4096

	// MaxPages is how many pages a visit may touch: as many as there are frames to measure it on.
	MaxPages = layout.MaxFrames

	// A chunk ends when it has so many visits or pages; the last visit may go beyond that.
	fullVisits = 64
	fullPages  = 64
)

// maxRaw is the largest chunk: visits and pages of a full one.
var maxRaw = fullVisits*2*(registersSize+4+MaxPages*referenceSize) + (fullPages+2*MaxPages)*pageSize

// registers is a state without its pages, as files have it.
type registers struct {
	Address, FSBase, GSBase, Flags uint64
	GPR                            [16]uint64
	Opmasks                        [8]uint64
	MXCSR                          uint32
	X87                            initial.X87
	Vectors                        [32][8]uint64
}

var registersSize = binary.Size(registers{})

// reference is a page of a visit.
type reference struct {
	Address uint64 // bit 0: writable
	Page    uint32 // from 0, in the order of the file
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

// captured is the state, but for its pages. Vector registers that are zero are left out.
func (r *registers) captured() (c initial.Captured) {
	c.State = initial.State{Name: "captured", GPR: r.GPR, FSBase: r.FSBase, GSBase: r.GSBase, Fill: initial.Paper().Fill, MXCSR: r.MXCSR, Opmasks: r.Opmasks, Flags: r.Flags}
	c.Address, c.X87 = r.Address, r.X87
	c.Vectors = initial.VectorsOf(&r.Vectors)
	return c
}
