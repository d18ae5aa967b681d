package asm

import "slices"

// Branch is the direct branch at the end of a block: jcc, jmp, loop or jrcxz.
type Branch struct {
	*Inst
	// Target is where it leads, in bytes from the block's start.
	Target int64
	opcode []byte // with its prefixes, in the form with a displacement of 8 bits
	near   bool   // the block has the form with a displacement of 32 bits
}

// TrailingBranch is the branch that a block ends with, if it ends with one.
func TrailingBranch(insts []Inst) (b Branch, ok bool) {
	if len(insts) == 0 {
		return b, false
	}
	in := &insts[len(insts)-1]
	step := in.raw.step()
	if step.Flow != FlowBranch && step.Flow != FlowJump || in.raw.form.name == "xbegin" ||
		in.raw.opsize16 { // AMD cuts the target to 16 bits, Intel does not
		return b, false
	}
	b.Inst, b.Target = in, int64(in.Offset+len(in.Bytes))+step.Target
	b.opcode = in.Bytes[:len(in.Bytes)-1]
	switch op := in.raw.opcode; {
	case op == 0xe9:
		b.near, b.opcode = true, append(slices.Clone(in.Bytes[:len(in.Bytes)-5]), 0xeb)
	case op>>4 == 8:
		b.near, b.opcode = true, append(slices.Clone(in.Bytes[:len(in.Bytes)-6]), 0x70|op&0xf)
	}
	return b, true
}

// WithoutBranch returns the instructions before the branch that the block ends with, or all.
func WithoutBranch(insts []Inst) []Inst {
	if _, ok := TrailingBranch(insts); ok {
		return insts[:len(insts)-1]
	}
	return insts
}

// InnerBranches lists, by index, the conditional branches before the block's end that lead to a later instruction, or to the next copy where no
// branch ends the block.
func InnerBranches(insts []Inst) (list []int) {
	rest := WithoutBranch(insts)
	starts := map[int64]bool{}
	for i := range insts {
		starts[int64(insts[i].Offset)] = true
		if next := insts[i].Offset + len(insts[i].Bytes); i+1 == len(rest) {
			starts[int64(next)] = true
		}
	}
	for i := range rest {
		if b, ok := TrailingBranch(rest[:i+1]); ok && b.Conditional() && b.Target > int64(b.Offset) && starts[b.Target] {
			list = append(list, i)
		}
	}
	return list
}

// ToStart reports whether it leads to the block's own start.
func (b Branch) ToStart() bool { return b.Target == 0 }

// Conditional reports whether it can fall through.
func (b Branch) Conditional() bool { return b.raw.form.name != "jmp" }

// Invertible reports whether there is a branch with the opposite condition.
func (b Branch) Invertible() bool { return b.opcode[len(b.opcode)-1]>>4 == 7 }

// Emit appends the branch to an address, in the form that the block has or, where that does not reach, the longer
// one; ok is false if there is none.
func (b Branch) Emit(e *Emitter, target uint64) (ok bool) {
	if to := int64(target) - int64(e.PC()) - int64(len(b.opcode)+1); !b.near && to == int64(int8(to)) {
		e.Raw(b.opcode...)
		e.Raw(byte(to))
		return true
	}
	last := len(b.opcode) - 1
	prefixes, op := b.opcode[:last], b.opcode[last]
	switch {
	case op == 0xeb:
		e.relative32(target, append(slices.Clone(prefixes), 0xe9)...)
	case b.Invertible():
		e.relative32(target, append(slices.Clone(prefixes), 0x0f, 0x80|op&0xf)...)
	default:
		return false
	}
	return true
}

// EmitFar appends code that goes to any address where the branch is taken.
func (b Branch) EmitFar(e *Emitter, target uint64) {
	e.Raw(b.opcode...)
	e.Raw(2)       // to the second jump
	e.Raw(0xeb, 5) // past it
	e.Jmp(target)
}

// FromOpcode is how many bytes of the branch, or of what EmitFar makes of it, come from the byte on whose lowest bit inverts the condition.
func (b Branch) FromOpcode(far bool) int {
	switch {
	case far:
		return 9
	case b.near:
		return 5
	}
	return 2
}

// Condition is what it depends on: flags, and rcx of loop and jrcxz.
func (b Branch) Condition() Values {
	reads, _ := b.Dataflow()
	return reads
}

// Constant is the immediate operand of an instruction, if it has one.
func (in *Inst) Constant() (v int64, ok bool) {
	for i, o := range in.raw.form.ops {
		if o.kind.class == ImmediateOperand {
			return in.raw.immediate(i), true
		}
	}
	return 0, false
}

// GPRs are the general registers that an instruction reads or writes, by their numbers.
func (in *Inst) GPRs() uint16 {
	reads, writes := in.Dataflow()
	return reads.GPR | writes.GPR
}
