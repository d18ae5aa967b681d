package values

import (
	"fmt"
	"math/bits"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/rewrite"
)

// refreshed is a block with instructions before it that put back what it overwrites of its data inputs, each from a
// register that the block does not use.
type refreshed struct {
	// In dependent an instruction that waits for an input clears it and another sets it, so that each iteration waits
	// for the one before, as in the block: its time shows latencies. In independent a move sets it: its time shows
	// throughputs. They are equal where nothing is put back.
	dependent, independent []byte
	saved                  map[string]string // the registers that hold the inputs' values, by the input's name
}

// refresh marks the inputs that cannot be put back.
func refresh(code []byte, insts []asm.Inst, inputs []Input, possible bool) refreshed {
	var dependent, independent []byte
	saved, free, state := map[string]string{}, unused(insts), asm.StateOf(insts)
	branch, loop := asm.TrailingBranch(insts)
	possible = possible && !(loop && branch.ToStart())
	emit := func(to *[]byte, form string, values ...int) {
		*to = append(*to, rewrite.Encode(form, asm.Address{Index: -1}, values...)...)
	}
	zero, carry := rewrite.None, rewrite.None // a vector register that stays zero; a general one that holds the flag
	for i := range inputs {
		in := &inputs[i]
		if !in.written || in.Role != Data {
			continue
		}
		from := rewrite.None
		switch {
		case !possible:
		case in.kind == general, in.Name == "cf": // putting registers back changes flags, and only carry is easily set
			from = free.general()
		case in.kind == vector:
			if zero == rewrite.None {
				zero = free.vector()
			}
			from = free.vector()
		}
		if in.Fading = from == rewrite.None; in.Fading {
			continue
		}
		switch to := in.number; in.kind {
		case flag:
			saved[in.Name], carry = asm.Reg(from).String(), from
		case general:
			saved[in.Name] = asm.Reg(from).String()
			emit(&dependent, "and r64, i8", to, 0)
			emit(&dependent, "or r64, r64", to, from)
			emit(&independent, "mov r64, r64", to, from)
		case vector:
			kind := in.Name[:1] + "mm"
			saved[in.Name] = fmt.Sprint(kind, from)
			switch {
			case state.VectorBits == 512:
				emit(&dependent, "vpandq zmm, zmm, zmm", to, to, zero)
				emit(&dependent, "vporq zmm, zmm, zmm", to, to, from)
			case state.VEX:
				emit(&dependent, fmt.Sprintf("vandps %s, %[1]s, %[1]s", kind), to, to, zero)
				emit(&dependent, fmt.Sprintf("vorps %s, %[1]s, %[1]s", kind), to, to, from)
			default:
				emit(&dependent, "andps xmm, xmm", to, zero)
				emit(&dependent, "orps xmm, xmm", to, from)
			}
			independent = append(independent, rewrite.MovVector(to, from, state)...)
		}
	}
	if carry != rewrite.None {
		emit(&dependent, "bt r64, i8", carry, 0)
		emit(&independent, "bt r64, i8", carry, 0)
	}
	return refreshed{append(dependent, code...), append(independent, code...), saved}
}

// registers are those that nobody has taken.
type registers asm.Values

func unused(insts []asm.Inst) *registers {
	used := asm.Values{GPR: 1 << asm.RSP}
	for i := range insts {
		reads, writes := insts[i].Dataflow()
		used = used.Or(reads).Or(writes)
	}
	return &registers{GPR: ^used.GPR, Vector: ^used.Vector}
}

func (r *registers) general() int {
	if r.GPR == 0 {
		return rewrite.None
	}
	n := bits.TrailingZeros16(r.GPR)
	r.GPR &^= 1 << n
	return n
}

// vector takes a vector register that every encoding can name.
func (r *registers) vector() int {
	n := bits.TrailingZeros32(r.Vector)
	if n > 15 {
		return rewrite.None
	}
	r.Vector &^= 1 << n
	return n
}
