package mapping

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// dirty lists the words that differ from what they hold first, by the first page on their
// frame, ascending.
func (m Mapping) dirty(c runner, p Plan) (dirty []uint64) {
	seen, words := map[int]bool{}, p.words(m.Pages)
	for i, q := range m.Pages {
		if seen[q.Frame] {
			continue
		}
		seen[q.Frame] = true
		frame := c.Frame(q.Frame)
		for off := 0; off < len(frame); off += 8 {
			was := p.Init.Fill
			if value, set := words[slot{q.Frame, uint64(off)}]; set {
				was = value
			}
			if p.Replay != nil {
				was = binary.LittleEndian.Uint64(p.Replay.Captured.Pages[i].Data[off:])
			}
			if binary.LittleEndian.Uint64(frame[off:]) != was {
				dirty = append(dirty, q.Addr+uint64(off))
			}
		}
	}
	slices.Sort(dirty)
	return dirty
}

// maxRestore is how many words can be put back before each run.
func (m *Mapped) maxRestore() int {
	if m.Harness.Reset.Values {
		return layout.MaxValues
	}
	return layout.MaxRestore
}

// setRestore has the images put these words back before each run.
func (m *Mapped) setRestore(words []uint64) {
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

// reached lists, as dirty does, each word that accesses reach, or the stores among them alone, and those of an earlier list. An access
// beyond the pages is left out.
func (m Mapping) reached(accesses []asm.Access, earlier []uint64, stores bool) []uint64 {
	const words = layout.PageSize / 8
	if len(m.Pages) == 0 {
		return nil
	}
	first := map[int]uint64{} // page by which a frame's words are listed
	frames := 0
	for _, p := range m.Pages {
		if _, ok := first[p.Frame]; !ok {
			first[p.Frame] = p.Addr
		}
		frames = max(frames, p.Frame+1)
	}
	stored := make([]bool, frames*words)
	on := finder{pages: m.Pages}
	add := func(addr uint64) {
		if i := on.page(layout.PageOf(addr)); i >= 0 {
			stored[m.Pages[i].Frame*words+int(addr%layout.PageSize)/8] = true
		}
	}
	for _, addr := range earlier {
		add(addr)
	}
	for _, a := range accesses {
		if stores && !a.Write {
			continue
		}
		for addr := a.Addr &^ 7; addr < a.Addr+uint64(a.Width); addr += 8 {
			add(addr)
		}
	}
	var list []uint64
	for i, is := range stored {
		if is {
			list = append(list, first[i/words]+8*uint64(i%words))
		}
	}
	slices.Sort(list)
	return list
}

// throughOwnPages gives each word the address by which the trace first reaches its line, where pages share a frame. On AMD the way of L1D
// is predicted from the linear address: a line that the prologue stored through another page costs the block's first access to it
// half a cycle on Zen 4 (TestManyWordsRestored).
func (m *Mapped) throughOwnPages(words []uint64) []uint64 {
	const line = 64
	if len(words) == 0 || !m.shareFrames() {
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

func (m *Mapped) shareFrames() bool {
	frames := map[int]bool{}
	for _, p := range m.Pages {
		frames[p.Frame] = true
	}
	return len(frames) < len(m.Pages)
}

// addDirty adds to the list of words to restore before each run those that an image leaves changed. What a run changes
// depends on how many copies it has: a later one may put a word back, and a word that is not restored tells a block that
// this is no dry run. So each image is asked, unless all words that are stored to are restored; to restore words that stores leave as they are would do, and moved the time of
// one in fifty such blocks by 1 to 4 %.
func (m *Mapped) addDirty(im harness.Image) error {
	if !m.Harness.Reset.Memory || len(m.Pages) == 0 {
		return nil
	}
	dirty := m.Restore
	if !m.restoresAll {
		m.Refill()
		if err := m.Plan.RunOnce(m.Child, im); err != nil {
			return err
		}
		dirty = append(dirty, m.throughOwnPages(m.dirty(m.Child, m.Plan))...)
	}
	slices.Sort(dirty)
	dirty = slices.Compact(dirty)
	if len(dirty) > m.maxRestore() {
		// 64 KiB with their values if each has one, more than any L1D holds, so no block's miss is lost.
		return &verdict.Rejection{Reason: verdict.L1DMiss, Detail: fmt.Sprintf("a run changes %d words, and no more than %d can be put back before the next", len(dirty), m.maxRestore())}
	}
	m.setRestore(dirty)
	return nil
}

// finder finds pages by their addresses. Successive accesses mostly are to one page.
type finder struct {
	pages []mapper.Page
	last  int
}

// page is the number of the page at an address, -1 if there is none.
func (f *finder) page(addr uint64) int {
	if f.pages[f.last].Addr == addr {
		return f.last
	}
	i := slices.IndexFunc(f.pages, func(p mapper.Page) bool { return p.Addr == addr })
	if i >= 0 {
		f.last = i
	}
	return i
}
