package values

import (
	"cmp"
	"fmt"

	"github.com/bbprof/bbprof/asm"
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
func refresh(code []byte, insts []asm.Inst, inputs []Input, possible bool) (r refreshed, err error) {
	saved := map[string]string{}
	used := usedBy(insts)
	state := asm.StateOf(insts)
	branch, loop := asm.TrailingBranch(insts)
	possible = possible && !(loop && branch.ToStart())
	emit := func(to *[]byte, name string, values ...int64) {
		f := asm.FormNamed(name)
		if f == nil {
			err = cmp.Or(err, fmt.Errorf("no instruction form is called %q", name))
			return
		}
		one, failed := f.Encode(values, asm.Address{Index: -1}, 1)
		err = cmp.Or(err, failed)
		*to = append(*to, one...)
	}
	var dependent, independent []byte
	zero := -1 // a vector register that stays zero
	carry := -1
	for i := range inputs {
		in := &inputs[i]
		if !in.written || in.Role != Data {
			continue
		}
		in.Fading = true
		if !possible {
			continue
		}
		if in.kind == flag && in.Name != "cf" { // putting registers back changes flags, and only carry is easily set
			continue
		}
		switch in.kind {
		case general, flag:
			r, ok := used.spareGeneral()
			if !ok {
				continue
			}
			saved[in.Name] = asm.Reg(r).String()
			if in.kind == flag {
				carry = r
			} else {
				emit(&dependent, "and r64, i8", int64(in.number), 0)
				emit(&dependent, "or r64, r64", int64(in.number), int64(r))
				emit(&independent, "mov r64, r64", int64(in.number), int64(r))
			}
		case vector:
			if zero < 0 {
				var ok bool
				if zero, ok = used.spareVector(); !ok {
					continue
				}
			}
			r, ok := used.spareVector()
			if !ok {
				continue
			}
			saved[in.Name] = in.Name[:1] + fmt.Sprintf("mm%d", r)
			x, y, name := int64(in.number), int64(r), fmt.Sprintf("%cmm", in.Name[0])
			switch {
			case state.VectorBits == 512:
				emit(&dependent, "vpandq zmm, zmm, zmm", x, x, int64(zero))
				emit(&dependent, "vporq zmm, zmm, zmm", x, x, y)
				emit(&independent, "vmovdqa64 zmm, zmm", x, y)
			case state.VEX:
				emit(&dependent, fmt.Sprintf("vandps %s, %[1]s, %[1]s", name), x, x, int64(zero))
				emit(&dependent, fmt.Sprintf("vorps %s, %[1]s, %[1]s", name), x, x, y)
				emit(&independent, fmt.Sprintf("vmovaps %s, %[1]s", name), x, y)
			default:
				emit(&dependent, "andps xmm, xmm", x, int64(zero))
				emit(&dependent, "orps xmm, xmm", x, y)
				emit(&independent, "movaps xmm, xmm", x, y)
			}
		default: // an opmask or memory
			continue
		}
		in.Fading = false
	}
	if carry >= 0 {
		emit(&dependent, "bt r64, i8", int64(carry), 0)
		emit(&independent, "bt r64, i8", int64(carry), 0)
	}
	return refreshed{append(dependent, code...), append(independent, code...), saved}, err
}

// registers tells which registers are taken.
type registers asm.Values

func usedBy(insts []asm.Inst) *registers {
	var all asm.Values
	for i := range insts {
		reads, writes := insts[i].Dataflow()
		all = all.Or(reads).Or(writes)
	}
	all.GPR |= 1 << asm.RSP
	return (*registers)(&all)
}

// spareGeneral takes a general register that nobody uses.
func (r *registers) spareGeneral() (n int, ok bool) {
	for n := range 16 {
		if r.GPR>>n&1 == 0 {
			r.GPR |= 1 << n
			return n, true
		}
	}
	return 0, false
}

// spareVector takes a vector register that every encoding can name.
func (r *registers) spareVector() (n int, ok bool) {
	for n := range 16 {
		if r.Vector>>n&1 == 0 {
			r.Vector |= 1 << n
			return n, true
		}
	}
	return 0, false
}
