package hunt

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

type Dimension string

const (
	Opcode      Dimension = "opcode"
	Width       Dimension = "width"
	OperandKind Dimension = "operand"
)

var dimensions = []Dimension{Opcode, Width, OperandKind}

type Forms struct {
	list       []asm.Form
	byMnemonic map[string][]int
	byKinds    map[string][]int
	kinds      []string // of each form
}

// NewForms indexes forms, except those that bbprof refuses to run.
func NewForms(list []asm.Form) Forms {
	f := Forms{byMnemonic: map[string][]int{}, byKinds: map[string][]int{}}
	for _, form := range list {
		if reason, _ := form.Refused(); reason != "" || savesState(&form) {
			continue
		}
		n := len(f.list)
		kinds := kindsOf(form.Name())
		f.list, f.kinds = append(f.list, form), append(f.kinds, kinds)
		f.byMnemonic[form.Mnemonic()] = append(f.byMnemonic[form.Mnemonic()], n)
		f.byKinds[kinds] = append(f.byKinds[kinds], n)
	}
	return f
}

// savesState reports whether a form accesses more memory than a vector, or memory of unstated width, as xsave does.
// Compilers rarely emit these, and llvm-mca's model of Golden Cove never ends at xsave.
func savesState(f *asm.Form) bool {
	const widest = 64 // bytes of a vector
	return slices.ContainsFunc(f.Operands(), func(o asm.Operand) bool {
		return o.Class == asm.MemoryOperand && (o.Width > widest || o.Width == 0 && f.Mnemonic() != "lea")
	})
}

// immediates carry their width in the name of a form, but not in a shape.
var immediates = regexp.MustCompile(`\bi\d+\b`)

var digits = regexp.MustCompile(`\d+|[xyz]mm`)

// kindsOf returns the operands of a form's name or a shape: "r64, i" of "add r64, i8".
func kindsOf(name string) string {
	_, operands, _ := strings.Cut(strings.TrimPrefix(name, "{evex} "), " ")
	return immediates.ReplaceAllString(operands, "i")
}

const mostNeighbours = 16

// neighbours lists forms that differ from an instruction in the opcode, in a width or in one operand's kind, the corpus'
// most frequent first.
func (h *hunter) neighbours(in *asm.Inst) map[Dimension][]int {
	f, kinds := &h.Usable, kindsOf(in.Shape())
	list := map[Dimension][]int{}
	for _, n := range f.byKinds[kinds] {
		if kinds != "" && f.list[n].Mnemonic() != in.Mnemonic {
			list[Opcode] = append(list[Opcode], n)
		}
	}
	for _, n := range f.byMnemonic[in.Mnemonic] {
		switch differ, widthAlone := difference(f.kinds[n], kinds); {
		case differ == 0:
		case widthAlone:
			list[Width] = append(list[Width], n)
		case differ == 1:
			list[OperandKind] = append(list[OperandKind], n)
		}
	}
	for _, d := range dimensions {
		all := list[d]
		h.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(h.use[f.list[b].Mnemonic()], h.use[f.list[a].Mnemonic()]) })
		list[d] = all[:min(len(all), mostNeighbours)]
	}
	return list
}

// difference counts the operands that differ, and reports whether only their widths do. Lists of different length differ
// in all operands.
func difference(a, b string) (n int, widthAlone bool) {
	x, y := strings.Split(a, ", "), strings.Split(b, ", ")
	if len(x) != len(y) {
		return len(x) + len(y), false
	}
	widthAlone = true
	for i := range x {
		if x[i] != y[i] {
			n++
			widthAlone = widthAlone && digits.ReplaceAllString(x[i], "#") == digits.ReplaceAllString(y[i], "#")
		}
	}
	return n, widthAlone && n > 0
}

// encode encodes a form with an instruction's operands. Operands that the instruction lacks get register 8 or 1.
func encode(f *asm.Form, in *asm.Inst) ([]byte, bool) {
	values, at, mask, ok := in.OperandValues()
	if !ok {
		return nil, false
	}
	operands := f.Operands()
	was := strings.Split(kindsOf(in.Shape()), ", ")
	if len(operands) != len(values) {
		return nil, false
	}
	hasMemory := strings.Contains(in.Text(), "[")
	for i, o := range operands {
		memory := strings.HasPrefix(was[i], "m") && !strings.HasPrefix(was[i], "mm")
		switch {
		case o.Class == asm.MemoryOperand && !hasMemory:
			at = asm.Address{Base: asm.RSI, Index: -1}
		case o.Class == asm.ImmediateOperand && was[i] != "i":
			values[i] = 1
		case o.Class != asm.ImmediateOperand && (memory || was[i] == "i"):
			values[i] = 1 // rcx, xmm1
		}
	}
	code, err := f.Encode(values, at, max(mask, 1))
	return code, err == nil
}

// generalise tries the neighbours of each instruction of the classes.
func (h *hunter) generalise(ctx context.Context, classes []Class) error {
	var blocks []Case
	for i := range classes {
		c := &classes[i]
		seen := map[string]bool{c.Text: true} // forms may differ only in the encoded width of an immediate
		for k := range c.pattern.insts {
			near := h.neighbours(&c.pattern.insts[k])
			for _, d := range dimensions {
				for _, form := range near[d] {
					code, ok := encode(&h.Usable.list[form], &c.pattern.insts[k])
					if !ok {
						continue
					}
					if b := c.pattern.exchanged(k, code); b != nil && !seen[b.text()] {
						v := Variant{Dimension: d, Outcome: Outcome{Case: b.asCase()}, Text: b.text(), Shape: b.shapes[k]}
						seen[v.Text] = true
						c.Variants = append(c.Variants, v)
						blocks = append(blocks, v.Case)
					}
				}
			}
		}
	}
	if err := h.try(ctx, blocks); err != nil {
		return err
	}
	for i := range classes {
		c := &classes[i]
		c.Variants = slices.DeleteFunc(c.Variants, func(v Variant) bool { return !h.outcomes[v.Case].known() })
		for k := range c.Variants {
			v := &c.Variants[k]
			v.Outcome = *h.outcomes[v.Case]
			if v.Same = v.sign(h.Threshold) == c.Sign; v.Same {
				c.patterns = append(c.patterns, newBlock(v.Hex))
			}
		}
	}
	return nil
}

// exchanged replaces the code of one instruction. It returns nil if that would change what the others access.
func (b *block) exchanged(k int, code []byte) *block {
	pieces := make([]piece, len(b.insts))
	for i := range pieces {
		pieces[i].of = i
	}
	pieces[k].code = code
	return b.rebuild(pieces)
}
