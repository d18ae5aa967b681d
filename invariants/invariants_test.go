package invariants

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

func TestL1I(t *testing.T) {
	if f := L1I(32768, 32768); f.Rejection != nil || f.Evidence.Kind != Inferred || f.Evidence.Invariant != verdict.L1IMiss {
		t.Errorf("code that fills it: %+v", f)
	}
	if f := L1I(32769, 32768); f.Rejection == nil || f.Rejection.Reason != verdict.L1IMiss {
		t.Errorf("one byte more: %+v", f)
	}
}

func TestContextSwitches(t *testing.T) {
	e := ContextSwitches(6, 2)
	if e.Kind != Counted || e.Invariant != verdict.ContextSwitch || !strings.Contains(e.Detail, "6 windows kept") || !strings.Contains(e.Detail, "2 window(s)") {
		t.Errorf("%+v", e)
	}
}

// A trace of accesses to some pages. Instruction i loads or stores by register i.
const (
	pageA = 0x1234_5000
	pageB = 0x2345_6000
	pageC = 0x3456_7000
)

func load(addr uint64, width int) asm.Access {
	return asm.Access{Inst: 0, Addr: addr, Width: width, Elem: width, Read: true}
}

func store(addr uint64, width int) asm.Access {
	return asm.Access{Inst: 1, Addr: addr, Width: width, Elem: width, Write: true}
}

func trace(t *testing.T, accesses ...asm.Access) Trace {
	t.Helper()
	insts, err := asm.Decode([]byte{
		0x48, 0x8b, 0x03, // mov rax, [rbx]
		0x48, 0x89, 0x0a, // mov [rdx], rcx
		0x48, 0x8b, 0x02, // mov rax, [rdx]
	})
	if err != nil {
		t.Fatal(err)
	}
	return Trace{Accesses: accesses, Copies: 4, Insts: insts, Frame: map[uint64]int{pageA: 0, pageB: 1, pageC: 0}} // A and C share
}

var core = Core{L1DWays: 8, StoreBuffer: 4}

// check demands a rejection that blames instruction inst at addr, or none.
func check(t *testing.T, name string, f Finding, reason verdict.Reason, broken bool, inst int, addr uint64) {
	t.Helper()
	switch {
	case !broken && (f.Rejection != nil || f.Evidence.Invariant != reason || f.Evidence.Kind != Inferred || f.Evidence.Detail == ""):
		t.Errorf("%s: %v, %+v; want it to hold", name, f.Rejection, f.Evidence)
	case broken && f.Rejection == nil:
		t.Errorf("%s: it holds: %+v", name, f.Evidence)
	case broken && (f.Rejection.Reason != reason || f.Rejection.Inst == nil || f.Rejection.Inst.Index != inst || f.Rejection.Address == nil || *f.Rejection.Address != addr):
		t.Errorf("%s: %v at %v, want %s of instruction %d at %#x", name, f.Rejection, f.Rejection.Address, reason, inst, addr)
	}
}

func TestSplit(t *testing.T) {
	rep := func(addr uint64, width, elem int) asm.Access {
		return asm.Access{Addr: addr, Width: width, Elem: elem, Read: true}
	}
	for _, c := range []struct {
		name   string
		a      asm.Access
		broken bool
	}{
		{"to the end of a line", load(pageA+56, 8), false},
		{"one byte further", load(pageA+57, 8), true},
		{"one byte at the end", load(pageA+63, 1), false},
		{"a whole line", load(pageA, 64), false},
		{"a line's width, off by one", load(pageA+1, 64), true},
		{"32 bytes in the middle", load(pageA+32, 32), false},
		{"33 off", load(pageA+33, 32), true},
		{"10 bytes at 54", load(pageA+54, 10), false},
		{"10 bytes at 55", load(pageA+55, 10), true},
		{"512 bytes from a line's start", load(pageA, 512), false},
		{"512 bytes from its middle", load(pageA+16, 512), true},
		{"a string of aligned elements", rep(pageA+8, 4096, 8), false},
		{"a string of elements that cross", rep(pageA+4, 128, 8), true},
		{"that ends before it crosses", rep(pageA+4, 56, 8), false},
		{"and one element later", rep(pageA+4, 64, 8), true},
		{"bytes never cross", rep(pageA+3, 1000, 1), false},
	} {
		check(t, c.name, Split(trace(t, load(pageA, 8), c.a)), verdict.Misaligned, c.broken, 0, c.a.Addr)
	}
	check(t, "no access", Split(trace(t)), verdict.Misaligned, false, 0, 0)
}

func TestAlias4K(t *testing.T) {
	for _, c := range []struct {
		name   string
		list   []asm.Access
		broken bool
	}{
		{"no access", nil, false},
		{"load behind a store, other page, same offset", []asm.Access{store(pageB+8, 8), load(pageA+8, 8)}, true},
		{"overlapping by one byte from below", []asm.Access{store(pageB+8, 8), load(pageA+1, 8)}, true},
		{"just below", []asm.Access{store(pageB+8, 8), load(pageA, 8)}, false},
		{"overlapping by one byte from above", []asm.Access{store(pageB+8, 8), load(pageA+15, 8)}, true},
		{"just above", []asm.Access{store(pageB+8, 8), load(pageA+16, 8)}, false},
		{"the load comes first", []asm.Access{load(pageA+8, 8), store(pageB+8, 8)}, false},
		{"two loads", []asm.Access{load(pageB+8, 8), load(pageA+8, 8)}, false},
		{"the same address", []asm.Access{store(pageA+8, 8), load(pageA+8, 8)}, false},
		{"two pages on one frame", []asm.Access{store(pageC+8, 8), load(pageA+8, 8)}, false},
		{"still in the store buffer", []asm.Access{store(pageB+8, 8), store(pageB+64, 8), store(pageB+72, 8), store(pageB+80, 8), load(pageA+8, 8)}, true},
		{"one store too long ago", []asm.Access{store(pageB+8, 8), store(pageB+64, 8), store(pageB+72, 8), store(pageB+80, 8), store(pageB+88, 8), load(pageA+8, 8)}, false},
	} {
		var addr uint64
		if c.list != nil {
			addr = c.list[len(c.list)-1].Addr
		}
		check(t, c.name, Alias4K(trace(t, c.list...), core), verdict.Alias4K, c.broken, 0, addr)
	}
}

func TestOverlap12Wraps(t *testing.T) {
	if !overlap12(load(pageA+4094, 4), load(pageB+1, 1)) || overlap12(load(pageA+4094, 4), load(pageB+2, 1)) {
		t.Error("the low 12 bits do not wrap around")
	}
}

func TestAliasFrame(t *testing.T) {
	predicted := core
	predicted.WayPredicted = true
	for _, c := range []struct {
		name   string
		core   Core
		list   []asm.Access
		broken bool
	}{
		{"no access", predicted, nil, false},
		{"one page", predicted, []asm.Access{store(pageA, 8), load(pageA, 8)}, false},
		{"a frame each", predicted, []asm.Access{store(pageB, 8), load(pageA, 8)}, false},
		{"one frame, other lines", predicted, []asm.Access{store(pageC+64, 8), load(pageA+56, 8)}, false},
		{"one line", core, []asm.Access{store(pageC+64, 8), load(pageA+64+56, 8)}, true},
		{"the store comes last", core, []asm.Access{load(pageC+64, 8), store(pageA+64, 8)}, true},
		{"loads alone", core, []asm.Access{load(pageC+64, 8), load(pageA+64, 8)}, false},
		{"loads alone where ways are predicted", predicted, []asm.Access{load(pageC+64, 8), load(pageA+64, 8)}, true},
		{"a wide access reaches the line", core, []asm.Access{store(pageC+64, 8), load(pageA+32, 33)}, true},
		{"or does not", core, []asm.Access{store(pageC+64, 8), load(pageA+32, 32)}, false},
	} {
		var last asm.Access
		if c.list != nil {
			last = c.list[len(c.list)-1]
		}
		check(t, c.name, AliasFrame(trace(t, c.list...), c.core), verdict.AliasFrame, c.broken, last.Inst, last.Addr)
	}
}

func TestResidency(t *testing.T) {
	tr := trace(t, load(pageA+64, 8), load(pageB+64, 8), load(pageC+64, 8)) // two lines of set 1: C is A
	var own [page / line]int
	held := func(name string, ways int, want bool) {
		t.Helper()
		c := core
		c.L1DWays = ways
		f := Residency(tr, c, own)
		if (f.Rejection == nil) != want || !want && f.Rejection.Reason != verdict.L1DMiss || want && f.Evidence.Invariant != verdict.L1DMiss {
			t.Errorf("%s: %v, %+v", name, f.Rejection, f.Evidence)
		}
	}
	held("as many lines as ways", 2, true)
	held("one way fewer", 1, false)
	own[1] = 3
	held("with our own", 5, true)
	held("with our own, one way fewer", 4, false)
	own[1], own[2] = 0, 3 // another set
	held("ours in another set", 3, true)
	held("ours in another set, too many", 2, false)
}

func TestSelfForwarding(t *testing.T) {
	same := load(pageA, 8)
	same.Inst = 2 // by the store's own register
	for _, c := range []struct {
		name string
		list []asm.Access
		want int
	}{
		{"other register, same address", []asm.Access{store(pageA, 8), load(pageA, 8)}, 1},
		{"same register", []asm.Access{store(pageA, 8), same}, 0},
		{"next to it", []asm.Access{store(pageA, 8), load(pageA+8, 8)}, 0},
		{"by one byte", []asm.Access{store(pageA, 8), load(pageA+7, 8)}, 1},
		{"the load first", []asm.Access{load(pageA, 8), store(pageA, 8)}, 0},
		{"still in the buffer", []asm.Access{store(pageA, 8), store(pageB, 8), store(pageB, 8), store(pageB, 8), load(pageA, 8)}, 1},
		{"left the buffer", []asm.Access{store(pageA, 8), store(pageB, 8), store(pageB, 8), store(pageB, 8), store(pageB, 8), load(pageA, 8)}, 0},
		{"twice", []asm.Access{store(pageA, 8), load(pageA, 8), load(pageA, 4)}, 2},
	} {
		if n, example := SelfForwarding(trace(t, c.list...), core); n != c.want || (n > 0) != (example != "") {
			t.Errorf("%s: %d loads (%q), want %d", c.name, n, example, c.want)
		}
	}
}

func TestNewPages(t *testing.T) {
	in := func(copy int, a asm.Access) asm.Access { a.Copy = copy; return a }
	for _, c := range []struct {
		name string
		list []asm.Access
		want int
	}{
		{"none", nil, 0},
		{"the same page throughout", []asm.Access{in(0, load(pageA, 8)), in(1, load(pageA, 8)), in(2, load(pageA, 8)), in(3, load(pageA, 8))}, 0},
		{"a new one in the first half", []asm.Access{in(0, load(pageA, 8)), in(1, load(pageB, 8)), in(2, load(pageB, 8))}, 0},
		{"a new one in the second", []asm.Access{in(0, load(pageA, 8)), in(1, load(pageA, 8)), in(2, load(pageB, 8)), in(3, load(pageB+64, 8))}, 1},
		{"two, by an access across", []asm.Access{in(0, load(pageA, 8)), in(3, load(pageB+4092, 8))}, 2},
		{"the last byte of the page", []asm.Access{in(0, load(pageA, 8)), in(3, load(pageA+4088, 8))}, 0},
		{"one byte across", []asm.Access{in(0, load(pageA, 8)), in(3, load(pageA+4089, 8))}, 1},
	} {
		if n := NewPages(trace(t, c.list...)); n != c.want {
			t.Errorf("%s: %d, want %d", c.name, n, c.want)
		}
	}
}
