package mapping

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/mapper"
)

// slot is a word of a frame.
type slot struct {
	frame  int
	offset uint64
}

func (s slot) holds(addr uint64, width int) bool {
	off := addr % layout.PageSize
	return off < s.offset+8 && s.offset < off+uint64(width)
}

// words maps slots to initial values other than the fill word. If two words share a slot, the one at the lower address counts.
func (p Plan) words(pages []mapper.Page) map[slot]uint64 {
	if len(p.Init.Memory) == 0 {
		return nil
	}
	words := map[slot]uint64{}
	for _, w := range p.Init.Memory {
		if frame, ok := frameOf(pages, w.Address); ok {
			at := slot{frame, w.Address % layout.PageSize}
			if _, taken := words[at]; !taken {
				words[at] = w.Value
			}
		}
	}
	return words
}

// word returns the initial value of a word of the block's memory.
func (m *MappedBlock) word(addr uint64, words map[slot]uint64) uint64 {
	if m.Plan.Captured != nil {
		if page := m.Plan.captured(addr); page != nil {
			return binary.LittleEndian.Uint64(page.Data[addr%layout.PageSize:])
		}
		return 0
	}
	if frame, ok := frameOf(m.Pages, addr); ok {
		if value, set := words[slot{frame, addr % layout.PageSize}]; set {
			return value
		}
	}
	return m.Plan.Init.Word(addr)
}

func frameOf(pages []mapper.Page, addr uint64) (frame int, ok bool) {
	for _, q := range pages {
		if q.Addr == layout.PageOf(addr) {
			return q.Frame, true
		}
	}
	return 0, false
}

// noteMemory warns of set words that the block does not access, or also accesses at another address.
func (m *MappedBlock) noteMemory() {
	words := m.Plan.words(m.Pages)
	for _, w := range m.Plan.Init.Memory {
		frame, ok := frameOf(m.Pages, w.Address)
		if !ok {
			m.note("the word at %#x is set, and no copy touches its page", w.Address)
			continue
		}
		at := slot{frame, w.Address % layout.PageSize}
		if held := words[at]; held != w.Value {
			m.note("the word at %#x holds %#x instead of %#x, since another set word is the same word of their pages' frame; "+
				"more frames (-frames) tell them apart",
				w.Address, held, w.Value)
			continue
		}
		for _, a := range m.Trace.Accesses {
			other, ok := frameOf(m.Pages, a.Addr)
			if ok && other == frame && layout.PageOf(a.Addr) != layout.PageOf(w.Address) && at.holds(a.Addr, a.Width) {
				m.note("an access to %#x finds the word that is set at %#x, since their pages share a frame; more frames "+
					"(-frames) tell them apart", a.Addr, w.Address)
				break
			}
		}
	}
}
