package mapping

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// dirty lists the words that differ from their initial values in ascending order, each by its
// address on the first page of its frame.
func (m Mapping) dirty(c runner, p Plan) (dirty []uint64) {
	seen, words := map[int]bool{}, p.words(m.Pages)
	for i, q := range m.Pages {
		if seen[q.Frame] {
			continue
		}
		seen[q.Frame] = true
		frame := c.Frame(q.Frame)
		for off := 0; off < len(frame); off += 8 {
			was := p.Init.Word(uint64(off))
			if value, set := words[slot{q.Frame, uint64(off)}]; set {
				was = value
			}
			if p.Captured != nil {
				was = binary.LittleEndian.Uint64(p.Captured.Pages[i].Data[off:])
			}
			if binary.LittleEndian.Uint64(frame[off:]) != was {
				dirty = append(dirty, q.Addr+uint64(off))
			}
		}
	}
	slices.Sort(dirty)
	return dirty
}

// maxRestore returns the largest number of words that can be restored before each run.
func (m *MappedBlock) maxRestore() int {
	if m.Harness.Reset.Values {
		return layout.MaxValues
	}
	return layout.MaxRestore
}

// setRestore makes the images restore these words before each run.
func (m *MappedBlock) setRestore(words []uint64) {
	m.Restore = words
	var values []uint64
	if m.Harness.Reset.Values {
		first := m.Plan.words(m.Pages)
		for _, addr := range words {
			values = append(values, m.word(addr, first))
		}
	}
	m.Child.SetRestore(words, values)
}

// touchedWords lists, like dirty, each word that accesses touch, and the words of an earlier list. It skips accesses beyond the pages.
func (m Mapping) touchedWords(accesses []asm.Access, earlier []uint64) (words []uint64) {
	first := map[int]uint64{} // page of each frame
	for _, p := range slices.Backward(m.Pages) {
		first[p.Frame] = p.Addr
	}
	add := func(addr uint64) {
		if frame, ok := frameOf(m.Pages, addr); ok {
			words = append(words, first[frame]+addr%layout.PageSize&^7)
		}
	}
	for _, addr := range earlier {
		add(addr)
	}
	for _, a := range accesses {
		for addr := a.Addr &^ 7; addr < a.Addr+uint64(a.Width); addr += 8 {
			add(addr)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// throughOwnPages replaces the address of each word by the one through which the trace first accesses its line, if pages share a frame. AMD
// cores predict the L1D way from the linear address: a store through another page would slow the block's first access to the line.
func (m *MappedBlock) throughOwnPages(words []uint64) []uint64 {
	const line = 64
	if len(words) == 0 || len(m.Pages) <= m.Plan.Frames {
		return words
	}
	type place struct {
		frame int
		line  uint64
	}
	at := func(addr uint64) (place, bool) {
		frame, ok := m.Trace.Frame[layout.PageOf(addr)]
		return place{frame, addr % layout.PageSize / line}, ok
	}
	pages := map[place]uint64{}
	for _, a := range m.Trace.Accesses {
		first := a.Addr &^ (line - 1)
		for n := range (a.Addr - first + uint64(a.Width) + line - 1) / line {
			addr := first + n*line
			p, mapped := at(addr)
			if _, reached := pages[p]; mapped && !reached {
				pages[p] = layout.PageOf(addr)
			}
		}
	}
	for i, word := range words {
		p, _ := at(word)
		if page, reached := pages[p]; reached {
			words[i] = page + word%layout.PageSize
		}
	}
	return words
}

// addDirty adds the words that an image leaves changed to the list of words to restore before each run. They depend on the number of copies,
// because a later copy may restore a word. So addDirty runs each image. (Restoring all words that are stored to changed the time of one in fifty
// such blocks by 1 to 4 %.)
func (m *MappedBlock) addDirty(im harness.Image) error {
	if !m.Harness.Reset.Memory || len(m.Pages) == 0 {
		return nil
	}
	m.Refill()
	if err := m.Plan.RunOnce(m.Child, im); err != nil {
		return err
	}
	dirty := append(m.Restore, m.throughOwnPages(m.dirty(m.Child, m.Plan))...)
	slices.Sort(dirty)
	dirty = slices.Compact(dirty)
	if len(dirty) > m.maxRestore() {
		// The list is 64 KiB with values, more than any L1D holds, so this hides no block's miss.
		return &verdict.Rejection{Reason: verdict.L1DMiss, Detail: fmt.Sprintf(
			"a run changes %d words, and no more than %d can be put back before the next", len(dirty), m.maxRestore())}
	}
	m.setRestore(dirty)
	return nil
}
