package mapper

import (
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// Stored lists, as Dirty does, each word that a store among the accesses reaches, and those of an
// earlier list. A store beyond the pages is left out.
func (m Mapping) Stored(accesses []asm.Access, earlier []uint64) []uint64 {
	return m.words(accesses, earlier, func(a asm.Access) bool { return a.Write })
}

// Suppressed lists likewise the words that accesses would have reached which a mask suppressed. When
// these are stored before each run, their pages are present and dirty; while a page is not, each
// suppressed access to it takes the CPU a microcode assist, for nothing makes it so.
func (m Mapping) Suppressed(accesses []asm.Access, earlier []uint64) []uint64 {
	return m.words(accesses, earlier, func(asm.Access) bool { return true })
}

func (m Mapping) words(accesses []asm.Access, earlier []uint64, wanted func(asm.Access) bool) []uint64 {
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
		if !wanted(a) {
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
