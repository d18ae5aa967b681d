package score

import (
	"encoding/hex"
	"slices"

	"github.com/bbprof/bbprof/asm"
)

// Properties are what a block is, has and does, for [Mistakes]: its instructions by name and by shape,
// its accesses, category and bound.
func Properties(b *Block) []string {
	code, err := hex.DecodeString(b.Hex)
	if err != nil {
		return nil
	}
	insts, err := asm.Decode(code)
	if err != nil {
		return nil
	}
	var list []string
	add := func(p string) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for i := range insts {
		in := &insts[i]
		add("instruction " + in.Mnemonic)
		add("instruction " + in.Shape())
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
		add("category " + b.Category)
	}
	if b.Bound != "" {
		add("bound by " + b.Bound)
	}
	if b.Forwards {
		add("store forwarding")
	}
	return list
}
