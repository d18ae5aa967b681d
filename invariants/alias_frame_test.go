package invariants

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
)

// TestMayAlias: BHive's list asks for a byte that two pages share, and a load of it; it does not ask for a store, nor for a line.
func TestMayAlias(t *testing.T) {
	const here, there = 0x12345000, 0x12346000
	load := func(addr uint64) asm.Access { return asm.Access{Addr: addr, Width: 8, Elem: 8, Read: true} }
	store := func(addr uint64) asm.Access { return asm.Access{Addr: addr, Width: 8, Elem: 8, Write: true} }
	for _, test := range []struct {
		name string
		a, b asm.Access
		may  bool
	}{
		{"two loads of one byte", load(here + 0x100), load(there + 0x107), true},
		{"a store and a load", store(here + 0x100), load(there + 0x100), true},
		{"two stores", store(here + 0x100), store(there + 0x100), false},
		{"other bytes of one line", store(here + 0x100), load(there + 0x108), false},
		{"one page", store(here + 0x100), load(here + 0x100), false},
		{"across the end of a page", store(here + 0xffc), load(here), true},
	} {
		trace := Trace{Accesses: []asm.Access{test.a, test.b}, Frame: map[uint64]int{here: 0, there: 0}}
		if may := MayAlias(trace); may != test.may {
			t.Errorf("%s: %v", test.name, may)
		}
	}
}
