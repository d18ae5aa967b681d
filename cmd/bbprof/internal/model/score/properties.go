package score

import (
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// A Property is what a block is, has or does.
type Property struct {
	Name string
	// Coarse says that it tells of the block as a whole, and so says less of what a model gets wrong than
	// an instruction does.
	Coarse bool
}

// Properties are those of a block, for [Mistakes]: its instructions by name and by shape, its accesses,
// category and bound.
func Properties(b *Block) []Property {
	insts, err := asm.DecodeHex(b.Hex)
	if err != nil {
		return nil
	}
	var list []Property
	note := func(p Property) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	add := func(name string) { note(Property{Name: name}) }
	for i := range insts {
		in := &insts[i]
		add("instruction " + in.Mnemonic)
		shape := in.Shape()
		add("instruction " + shape)
		if SameRegisters(in.Text()) {
			add("instruction " + shape + ", the same register twice")
		}
		reads, writes := in.Accesses()
		if reads {
			add("loads")
		}
		if writes {
			add("stores")
		}
		if reads && writes {
			add("read-modify-write")
		}
	}
	if b.Category != "" {
		note(Property{"category " + b.Category, true})
	}
	if b.Bound != "" {
		note(Property{"bound by " + b.Bound, true})
	}
	if b.Forwards {
		add("store forwarding")
	}
	return list
}

// SameRegisters reports whether the last two operands are the same register, as in xor eax, eax, whose
// result many cores know without executing it.
func SameRegisters(text string) bool {
	_, operands, _ := strings.Cut(text, " ")
	list := strings.Split(operands, ", ")
	n := len(list)
	return n >= 2 && list[n-1] == list[n-2] && !strings.HasPrefix(list[n-1], "0x")
}
