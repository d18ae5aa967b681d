package hostile

import (
	"math/rand/v2"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

// Valid blocks are, and come in many kinds.
func TestValidBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mnemonics := map[string]bool{}
	for range 800 {
		insts := require.Get(asm.Decode(ValidBlock(rng)))(t)
		for i := range insts {
			mnemonics[insts[i].Mnemonic] = true
		}
	}
	if len(mnemonics) < 200 {
		t.Errorf("only %d mnemonics", len(mnemonics))
	}
}

// Mutated blocks differ now and then, and never are empty.
func TestMutated(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	changed := 0
	for range 1000 {
		m := Mutated(rng, []byte{0x90})
		if len(m) == 0 {
			t.Fatal("an empty block")
		}
		if string(m) != "\x90" {
			changed++
		}
	}
	if changed < 800 {
		t.Errorf("%d of 1000 changed", changed)
	}
}
