package asm

import (
	"fmt"
	"strings"
)

// Category says what most of a block's work is.
type Category string

// The categories of BHive's classification (Chen et al., IISWC 2019, section V), which finds them with a topic model;
// here a rule assigns them.
const (
	Load         Category = "load"
	Store        Category = "store"
	LoadStore    Category = "load/store"
	Scalar       Category = "scalar"
	Vector       Category = "vector"
	ScalarVector Category = "scalar/vector"
)

// CategoryOf assigns a category by counting instructions. If at least half of them access memory, it is load or store
// if at most a third of the accesses go the other way, else load/store. Otherwise the block is vector or scalar by
// its instructions that compute, or scalar/vector if there are both kinds. An instruction that reads and writes
// memory counts as one access each way. A move computes nothing and counts only if the block has nothing else. An
// empty block has no category.
func CategoryOf(insts []Inst) Category {
	if len(insts) == 0 {
		return ""
	}
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	var accessing, loads, stores int
	var scalar, vector [2]int // moves first
	for i := range insts {
		in := &insts[i]
		reads, writes := in.Accesses()
		count(&loads, reads)
		count(&stores, writes)
		count(&accessing, reads || writes)
		computes := 1
		if in.moves() {
			computes = 0
		}
		count(&vector[computes], in.isVector())
		count(&scalar[computes], !in.isVector())
	}
	if 2*accessing >= len(insts) {
		switch total := loads + stores; {
		case 3*stores <= total:
			return Load
		case 3*loads <= total:
			return Store
		}
		return LoadStore
	}
	kind := 1
	if scalar[1]+vector[1] == 0 {
		kind = 0
	}
	switch {
	case vector[kind] == 0:
		return Scalar
	case scalar[kind] == 0:
		return Vector
	}
	return ScalarVector
}

// CategoryOfCode is CategoryOf for the bytes of a block; none for what is not a block.
func CategoryOfCode(code []byte) Category {
	insts, _ := Decode(code) // none on an error
	return CategoryOf(insts)
}

// Accesses reports whether the instruction reads memory and whether it writes memory.
func (in *Inst) Accesses() (reads, writes bool) {
	for _, m := range in.Mem {
		reads, writes = reads || m.Read, writes || m.Write
	}
	return reads, writes
}

// isVector reports whether the instruction works on vector registers, wide or scalar, or on MMX registers.
func (in *Inst) isVector() bool { return in.raw.form.isVec || in.raw.form.isMMX }

// moves reports whether the instruction copies a value and computes none.
func (in *Inst) moves() bool {
	name := strings.TrimPrefix(in.Mnemonic, "v")
	switch name {
	case "push", "pop", "nop", "lddqu":
		return true
	}
	return strings.HasPrefix(name, "mov") && !strings.HasPrefix(name, "movmsk")
}

// Shape is the instruction without its registers and values, such as "add r64, m64" or "vaddps ymm, ymm, m256": what
// decides how a core executes it.
func (in *Inst) Shape() string {
	d := &in.raw
	mask := ""
	if d.opmask != 0 {
		mask = "{k}"
	}
	return d.spell(in.Mnemonic, mask, "", d.appendShape)
}

func (d *rawInst) appendShape(b []byte, i int) []byte {
	o := d.form.ops[i]
	p := d.describe(o)
	switch {
	case p.Class == MemoryOperand && !d.form.agen:
		return fmt.Appendf(b, "m%d", 8*d.memWidth(o))
	case p.Class == MemoryOperand:
		return append(b, 'm')
	case p.Class == ImmediateOperand:
		return append(b, 'i')
	case o.kind == opA:
		return fmt.Appendf(b, "r%d", 8*p.Width)
	case p.Class == OtherOperand:
		return d.appendOperand(b, i)
	}
	return append(b, p.text...)
}
