package bounds

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
)

// change is how a block is to differ from the one asked about.
type change struct {
	copies  int              // of the block in a row, at least 1
	before  map[int][][]byte // instructions to put in front of an instruction, in every copy
	spread  [][]byte         // instructions to spread evenly over all copies
	replace map[int][]byte   // what stands in an instruction's place; empty: nothing
}

// apply makes the changed block. Operands relative to rip keep their place.
func (c change) apply(insts []asm.Inst) []byte {
	var code []byte
	copies := max(c.copies, 1)
	total, done := copies*len(insts), 0
	for n := range copies {
		for i := range insts {
			for _, b := range c.before[i] {
				code = append(code, b...)
			}
			at := n*len(insts) + i
			for ; done < len(c.spread)*(at+1)/total; done++ {
				code = append(code, c.spread[done]...)
			}
			if other, ok := c.replace[i]; ok {
				code = append(code, other...)
				continue
			}
			in := &insts[i]
			code = append(code, in.Bytes...)
			if in.RIPDisp > 0 {
				moved := len(code) - (in.Offset + len(in.Bytes))
				field := code[len(code)-len(in.Bytes)+in.RIPDisp:][:4]
				binary.LittleEndian.PutUint32(field, binary.LittleEndian.Uint32(field)-uint32(moved))
			}
		}
	}
	return code
}
