package mapping

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
)

// TestWordsOfMemory: a refill writes set words to the frames of their pages, also to other frames after a remap, and they are not
// dirty until they change.
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
			if got := binary.LittleEndian.Uint64(c.Frame(first + w.frame)[w.offset:]); got != w.want {
				t.Errorf("frames from %d on: frame %d holds %#x at %#x, want %#x", first, w.frame, got, w.offset, w.want)
			}
		}
	}
	p.Refill(c, m.Pages...)
	if d := m.dirty(c, p); len(d) != 0 {
		t.Errorf("after a refill: %#x", d)
	}
	binary.LittleEndian.PutUint64(c.Frame(1)[0x10:], p.Init.Fill)
	if d, want := m.dirty(c, p), []uint64{0x3010}; !slices.Equal(d, want) {
		t.Errorf("with the fill on a word that is set: %#x, want %#x", d, want)
	}
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
		m := &MappedBlock{Mapping: Mapping{Pages: pages}, Plan: Plan{Init: initial.State{Memory: c.memory}}, Trace: invariants.Trace{Accesses: []asm.Access{c.access}}}
		m.noteMemory()
		if got := strings.Join(m.Notes, "; "); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%v, %+v: %q, want %q", c.memory, c.access, got, c.want)
		}
	}
}

// TestWordsWithValues: the images restore words to their own values only if some words are set.
func TestWordsWithValues(t *testing.T) {
	for _, memory := range []initial.Memory{nil, {{Address: 8, Value: 1}}, nil} {
		task := Task{Harness: harness.Harness{Reset: harness.Reset{Memory: true}}}
		task.startFrom(initial.State{Memory: memory})
		if got := task.Harness.Reset.Values; got != (memory != nil) {
			t.Errorf("%s", fmt.Sprint(memory, got))
		}
	}
}
