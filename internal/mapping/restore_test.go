package mapping

import (
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
)

// dirty lists each word once, by the first page of its frame, whichever page the store used.
func TestStored(t *testing.T) {
	m := Mapping{Pages: []mapper.Page{{Addr: 0x9000, Frame: 0}, {Addr: 0x3000, Frame: 1}, {Addr: 0x5000, Frame: 0}}}
	store := func(addr uint64, width int) asm.Access { return asm.Access{Addr: addr, Width: width, Write: true} }
	for _, c := range []struct {
		name     string
		accesses []asm.Access
		earlier  []uint64
		want     []uint64
	}{
		{"nothing", nil, nil, nil},
		{"an earlier list", nil, []uint64{0x3008, 0x9010}, []uint64{0x3008, 0x9010}},
		{"a byte", []asm.Access{store(0x300f, 1)}, nil, []uint64{0x3008}},
		{"across two words", []asm.Access{store(0x300f, 2)}, nil, []uint64{0x3008, 0x3010}},
		{"up to the next word", []asm.Access{store(0x3008, 8)}, nil, []uint64{0x3008}},
		{"by another page of the frame", []asm.Access{store(0x5ff8, 8), store(0x9ff8, 8)}, []uint64{0x9ff8}, []uint64{0x9ff8}},
		{"across two pages, the upper not mapped", []asm.Access{store(0x3ff8, 16)}, nil, []uint64{0x3ff8}},
		{"many at once", []asm.Access{store(0x9ff0, 16), store(0x3000, 24)}, nil, []uint64{0x3000, 0x3008, 0x3010, 0x9ff0, 0x9ff8}},
		{"beyond all pages", []asm.Access{store(0x7000, 8)}, nil, nil},
		{"a load", []asm.Access{{Addr: 0x3000, Width: 8, Read: true}}, nil, nil},
	} {
		if got := m.touchedWords(c.accesses, c.earlier, true); !slices.Equal(got, c.want) {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	if got := (Mapping{}).touchedWords([]asm.Access{store(0, 8)}, nil, false); got != nil {
		t.Errorf("without a page: %#x", got)
	}
}

// TestThroughOwnPages: a word is restored through the page by which the block first accesses its line. If there is none, or no pages
// share a frame, it is restored through the page in the list.
func TestThroughOwnPages(t *testing.T) {
	shared := []mapper.Page{{Addr: 0x9000, Frame: 0}, {Addr: 0x3000, Frame: 1}, {Addr: 0, Frame: 0}}
	access := func(addr uint64, width int) asm.Access { return asm.Access{Addr: addr, Width: width} }
	for _, c := range []struct {
		name        string
		pages       []mapper.Page
		accesses    []asm.Access
		words, want []uint64
	}{
		{"each by its own page", shared, []asm.Access{access(0x9008, 8), access(0x100, 8), access(0x3010, 8)}, []uint64{0x3010, 0x9008, 0x9100}, []uint64{0x3010, 0x9008, 0x100}},
		{"by lines", shared, []asm.Access{access(0x107, 1)}, []uint64{0x9100, 0x9138, 0x9140}, []uint64{0x100, 0x138, 0x9140}},
		{"across lines", shared, []asm.Access{access(0x13c, 8)}, []uint64{0x9138, 0x9140, 0x9180}, []uint64{0x138, 0x140, 0x9180}},
		{"by the first", shared, []asm.Access{access(0x100, 8), access(0x9100, 8)}, []uint64{0x9100}, []uint64{0x100}},
		{"beyond all pages", shared, []asm.Access{access(0x5100, 8)}, []uint64{0x9100}, []uint64{0x9100}},
		{"a frame each", shared[:2], []asm.Access{access(0x9100, 8)}, []uint64{0x3100, 0x9100}, []uint64{0x3100, 0x9100}},
	} {
		m := &MappedBlock{Mapping: Mapping{Pages: c.pages}, Trace: invariants.Trace{Accesses: c.accesses, Frame: map[uint64]int{}}}
		for _, p := range c.pages {
			m.Trace.Frame[p.Addr] = p.Frame
		}
		if got := m.throughOwnPages(c.words); !slices.Equal(got, c.want) {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}
