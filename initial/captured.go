package initial

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/layout"
)

// Captured is the state in which a program reached a block, with the memory that one execution of the block touches
// there.
type Captured struct {
	// State holds the registers; its flags are rflags at the capture. Fill is unused: a page that is not in Pages is
	// unmapped.
	State
	Address uint64 // of the block in its program; of a loop, of its header
	// Header is the offset of a loop's header in its code. A loop runs as it stands, all its blocks, until control leaves it. nil: the code
	// is one block.
	Header *int
	X87    X87    // as FXSAVE has it (SDM vol. 1, 10.5.1)
	Pages  []Page // sorted by address, without duplicates
}

// X87 is the state of the x87 unit.
type X87 struct {
	Control   uint16      `json:"control"`
	Status    uint16      `json:"status"`
	Tags      uint8       `json:"tags"`      // a bit for each physical register that is not empty
	Registers [8][10]byte `json:"registers"` // st0 to st7
}

// Page is a page of a program's memory at the moment of a capture.
type Page struct {
	Address  uint64 // of its first byte
	Writable bool
	Data     [pageSize]byte
}

const pageSize = 4096

// Put changes a word of the memory; a word on none of its pages is left out.
func (c *Captured) Put(w Word) {
	for i, p := range c.Pages {
		if w.Address&^(pageSize-1) == p.Address {
			binary.LittleEndian.PutUint64(p.Data[w.Address%pageSize:], w.Value)
			c.Pages[i] = p
		}
	}
}

// Flags of rflags beside the arithmetic ones (SDM vol. 1, 3.4.3). Those that a program can set in user mode are DF,
// NT, AC, ID and TF.
const (
	arithmeticFlags = 1<<0 | 1<<2 | 1<<4 | 1<<6 | 1<<7 | 1<<11
	flagTF          = 1 << 8
	otherFlags      = 1<<10 | 1<<14 | 1<<18 | 1<<21 // DF, NT, AC, ID
	fixedFlags      = 1<<9 | 1<<1                   // IF and the bit that is always 1
)

// RFlags are the flags that a run starts with, as popf loads them: those that user mode can set, without the trap
// flag, which would stop the child at each instruction (see Check).
func (s State) RFlags() uint64 { return s.Flags&(arithmeticFlags|otherFlags) | fixedFlags }

// Check refuses states that no program can be in, and the trap flag.
func (c *Captured) Check() error {
	switch {
	case c.MXCSR > 0xffff:
		return fmt.Errorf("captured state: mxcsr is %#x and has 16 bits", c.MXCSR)
	case c.FSBase >= layout.UserEnd || c.GSBase >= layout.UserEnd:
		return fmt.Errorf("captured state: a segment's base is below %#x, and fs_base is %#x and gs_base %#x", uint64(layout.UserEnd), c.FSBase, c.GSBase)
	case c.Address >= layout.UserEnd:
		return fmt.Errorf("captured state: the block's address %#x is not in user space", c.Address)
	case c.Flags&flagTF != 0:
		return fmt.Errorf("captured state: the trap flag is set (rflags %#x): each instruction would trap", c.Flags)
	}
	for i, v := range c.Vectors {
		known := func(w Vector) bool { return w.Reg == v.Reg }
		if v.Reg < 0 || v.Reg >= vectorRegs || v.Bits != 128 && v.Bits != 256 && v.Bits != 512 || slices.ContainsFunc(c.Vectors[:i], known) {
			return fmt.Errorf("captured state: vector register %d of %d bits: there are 0 to %d, each once, of 128, 256 or 512", v.Reg, v.Bits, vectorRegs-1)
		}
	}
	for i, p := range c.Pages {
		if p.Address%pageSize != 0 || i > 0 && p.Address <= c.Pages[i-1].Address {
			return fmt.Errorf("captured state: the page at %#x is not a page, or not after the one before it", p.Address)
		}
	}
	return nil
}

// Start is the state that the block starts from. Each vector register is loaded no wider than its value needs, so
// that zero upper halves stay clean; zero registers are left out.
func (c *Captured) Start() State {
	s := c.State
	var vectors [vectorRegs][vectorWords]uint64
	for _, v := range c.Vectors {
		vectors[v.Reg] = v.Words
	}
	s.Name, s.X87, s.Vectors = CapturedName, &c.X87, VectorsOf(&vectors)
	return s
}

// CapturedName is what results call such a state.
const CapturedName = "captured"

// VectorsOf lists the nonzero registers, each as the narrowest register that holds its value.
func VectorsOf(all *[vectorRegs][vectorWords]uint64) (list []Vector) {
	for i, words := range all {
		bits := 512
		for bits > 128 && slices.Max(words[bits/128:bits/64]) == 0 {
			bits /= 2
		}
		if slices.Max(words[:bits/64]) > 0 {
			list = append(list, Vector{Reg: i, Bits: bits, Words: words})
		}
	}
	return list
}
