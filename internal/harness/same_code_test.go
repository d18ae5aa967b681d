package harness

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
)

// TestSameCode: set-ups that differ in values alone run the same instructions at the same places.
func TestSameCode(t *testing.T) {
	load := func(value uint64, flags uint64, same bool) []asm.Inst {
		init := initial.Paper()
		init.GPR[asm.RAX], init.GPR[asm.R11], init.Flags = value, value, flags
		return require.Get(asm.Decode(registerLoads(init, none, same)))(t)
	}
	differ := func(a, b []asm.Inst) bool {
		if len(a) != len(b) {
			return true
		}
		for i := range a {
			if a[i].Mnemonic != b[i].Mnemonic || a[i].Offset != b[i].Offset || len(a[i].Bytes) != len(b[i].Bytes) {
				return true
			}
		}
		return false
	}
	for _, value := range []uint64{0, 1, 0x7fffffff, 0xffffffff, 1 << 32, ^uint64(0), 1 << 63} {
		for _, flags := range []uint64{0, 1, 1 << 11, 0x8d5} {
			if differ(load(0x12345600, 0, true), load(value, flags, true)) {
				t.Errorf("%#x and flags %#x are set by other code", value, flags)
			}
		}
	}
	if !differ(load(0, 0, false), load(1<<32, 0, false)) {
		t.Error("without SameCode there is nothing to test")
	}
}
