package mapping

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
)

// TestWordsOfMemory: a refill writes set words to the frames of their pages; they are not dirty until they change.
func TestWordsOfMemory(t *testing.T) {
	p, im := plan(t)
	p.Frames = 2
	p.Init.Memory = initial.Memory{{Address: 0x3010, Value: 1}, {Address: 0x5ff8, Value: 2}, {Address: 0x7000, Value: 3}, {Address: 0x9ff8, Value: 4}}
	c := &fake{t: t, image: im}
	m := Mapping{Pages: []mapper.Page{{Addr: 0x9000, Frame: 0}, {Addr: 0x3000, Frame: 1}, {Addr: 0x5000, Frame: 0}}}
	for _, first := range []int{0, 2} {
		p.refill(c, m.Pages, first)
		for _, w := range []struct {
			frame, offset int
			want          uint64
		}{{1, 0x10, 1}, {1, 0x18, p.Init.Fill}, {0, 0xff8, 2}, {0, 0x10, p.Init.Fill}, {0, 0, p.Init.Fill}} {
			got := binary.LittleEndian.Uint64(c.Frame(first + w.frame)[w.offset:])
			require.Equal(t, fmt.Sprintf("frames from %d on: %+v", first, w), w.want, got)
		}
	}
	p.refill(c, m.Pages, 0)
	require.Equal(t, "after a refill", 0, len(m.dirty(c, p)))
	binary.LittleEndian.PutUint64(c.Frame(1)[0x10:], p.Init.Fill)
	require.Equal(t, "with the fill on a word that is set", []uint64{0x3010}, m.dirty(c, p))
	mapped := &MappedBlock{Mapping: m, Plan: p}
	for addr, want := range map[uint64]uint64{0x3010: 1, 0x9ff8: 2, 0x5ff8: 2, 0x3008: p.Init.Fill} {
		require.Equal(t, fmt.Sprintf("%#x", addr), want, mapped.word(addr, p.words(m.Pages)))
	}
}

// TestNoteMemory: notes report set words that the block does not find, or also finds at another address.
func TestNoteMemory(t *testing.T) {
	pages := []mapper.Page{{Addr: 0x9000, Frame: 0}, {Addr: 0x3000, Frame: 1}, {Addr: 0x5000, Frame: 0}}
	for _, c := range []struct {
		memory initial.Memory
		access asm.Access
		want   string
	}{
		{initial.Memory{{Address: 0x9010, Value: 1}}, asm.Access{Addr: 0x9010, Width: 8}, ""},
		{initial.Memory{{Address: 0x9010, Value: 1}}, asm.Access{Addr: 0x5018, Width: 8}, ""},
		{initial.Memory{{Address: 0x9010, Value: 1}}, asm.Access{Addr: 0x3010, Width: 8}, ""},
		{initial.Memory{{Address: 0x9010, Value: 1}}, asm.Access{Addr: 0x5017, Width: 1}, "an access to 0x5017 finds the word that is set at 0x9010"},
		{initial.Memory{{Address: 0x9010, Value: 1}}, asm.Access{Addr: 0x500c, Width: 8}, "an access to 0x500c finds the word"},
		{initial.Memory{{Address: 0x7010, Value: 1}}, asm.Access{}, "the word at 0x7010 is set, and no copy touches its page"},
		{initial.Memory{{Address: 0x5010, Value: 1}, {Address: 0x9010, Value: 2}}, asm.Access{}, "the word at 0x9010 holds 0x1 instead of 0x2"},
		{initial.Memory{{Address: 0x5010, Value: 1}, {Address: 0x9010, Value: 1}}, asm.Access{}, ""},
	} {
		m := &MappedBlock{Mapping: Mapping{Pages: pages}, Plan: Plan{Init: initial.State{Memory: c.memory}},
			Trace: invariants.Trace{Accesses: []asm.Access{c.access}}}
		m.noteMemory()
		if got := strings.Join(m.Notes, "; "); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%v, %+v: %q, want %q", c.memory, c.access, got, c.want)
		}
	}
}

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
	} {
		require.Equal(t, c.name, c.want, m.touchedWords(c.accesses, c.earlier))
	}
	require.Equal(t, "without a page", []uint64(nil), (Mapping{}).touchedWords([]asm.Access{store(0, 8)}, nil))
}

// TestThroughOwnPages: a word is restored through the page, if any, by which the block first accesses its line.
func TestThroughOwnPages(t *testing.T) {
	shared := []mapper.Page{{Addr: 0x9000, Frame: 0}, {Addr: 0x3000, Frame: 1}, {Addr: 0, Frame: 0}}
	access := func(addr uint64, width int) asm.Access { return asm.Access{Addr: addr, Width: width} }
	for _, c := range []struct {
		name        string
		pages       []mapper.Page
		accesses    []asm.Access
		words, want []uint64
	}{
		{"each by its own page", shared, []asm.Access{access(0x9008, 8), access(0x100, 8), access(0x3010, 8)},
			[]uint64{0x3010, 0x9008, 0x9100}, []uint64{0x3010, 0x9008, 0x100}},
		{"by lines", shared, []asm.Access{access(0x107, 1)}, []uint64{0x9100, 0x9138, 0x9140}, []uint64{0x100, 0x138, 0x9140}},
		{"across lines", shared, []asm.Access{access(0x13c, 8)}, []uint64{0x9138, 0x9140, 0x9180}, []uint64{0x138, 0x140, 0x9180}},
		{"by the first", shared, []asm.Access{access(0x100, 8), access(0x9100, 8)}, []uint64{0x9100}, []uint64{0x100}},
		{"beyond all pages", shared, []asm.Access{access(0x5100, 8)}, []uint64{0x9100}, []uint64{0x9100}},
		{"a frame each", shared[:2], []asm.Access{access(0x9100, 8)}, []uint64{0x3100, 0x9100}, []uint64{0x3100, 0x9100}},
	} {
		m := &MappedBlock{Mapping: Mapping{Pages: c.pages}, Plan: Plan{Frames: 2}, Trace: invariants.Trace{Accesses: c.accesses, Frame: map[uint64]int{}}}
		for _, p := range c.pages {
			m.Trace.Frame[p.Addr] = p.Frame
		}
		require.Equal(t, c.name, c.want, m.throughOwnPages(c.words))
	}
}
