package extract

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// Relocatable files are laid out as if linked alone: the first address of a non-PIC program (x86-64 psABI, 3.3.3),
// and steps that keep all addresses within a signed 32-bit number.
const (
	layoutStart  = 0x401000
	layoutLimit  = 0x7000_0000
	layoutPage   = 0x1000
	externalSlot = 64   // one cache line per external symbol
	gotSlot      = 8    // psABI 5.2
	tlsBlock     = 4096 // thread-local variables lie at most this far below fs:0
)

// layOut assigns section addresses in a linker's order: code, read-only data, writable data. It returns the next free
// one.
func (o *object) layOut() uint64 {
	next := uint64(layoutStart)
	kind := func(s *section) int {
		switch {
		case s.executable:
			return 0
		case s.Flags&elf.SHF_WRITE == 0:
			return 1
		}
		return 2
	}
	for k := range 3 {
		for _, s := range o.sections {
			if kind(s) != k {
				continue
			}
			align := max(s.Addralign, 1)
			if align > layoutPage || align&(align-1) != 0 {
				align = layoutPage
			}
			next = (next + align - 1) &^ (align - 1)
			s.addr, s.base = next, next
			if s.size() < layoutLimit-next {
				next += s.size()
			} else { // a damaged file, or one that linkers refuse too
				s.Section.Size = 0
			}
		}
		next = (next + layoutPage - 1) &^ (layoutPage - 1)
	}
	return next
}

type relocator struct {
	o         *object
	symbols   []elf.Symbol
	bySect    map[int]*section
	externals map[string]uint64
	got       map[uint32]uint64 // by symbol
	next      uint64            // the next free address after all sections
}

// relocate fills the fields that a linker fills; end is the first address after all sections.
func (o *object) relocate(end uint64) {
	r := &relocator{o: o, bySect: map[int]*section{}, externals: map[string]uint64{}, got: map[uint32]uint64{}, next: end}
	r.symbols, _ = o.elf.Symbols()
	for _, s := range o.sections {
		r.bySect[s.index] = s
	}
	for _, rel := range o.elf.Sections {
		s := r.bySect[int(rel.Info)]
		if rel.Type != elf.SHT_RELA || s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		table, err := rel.Data()
		if err != nil {
			o.stats.BadRelocations++
			continue
		}
		// struct Elf64_Rela: offset, info, addend.
		for ; len(table) >= 24; table = table[24:] {
			r.apply(s, binary.LittleEndian.Uint64(table), binary.LittleEndian.Uint64(table[8:]), binary.LittleEndian.Uint64(table[16:]))
		}
		slices.SortFunc(s.filled, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	}
}

// relocations gives the size of the field that each kind fills, and what it fills it with (x86-64 psABI, table 4.9).
var relocations = map[elf.R_X86_64]struct {
	size int
	is   value
}{
	elf.R_X86_64_64: {8, absolute}, elf.R_X86_64_32: {4, absolute}, elf.R_X86_64_32S: {4, absolute},
	elf.R_X86_64_16: {2, absolute}, elf.R_X86_64_8: {1, absolute},
	elf.R_X86_64_PC64: {8, relative}, elf.R_X86_64_PC32: {4, relative}, elf.R_X86_64_PLT32: {4, relative},
	elf.R_X86_64_PC16: {2, relative}, elf.R_X86_64_PC8: {1, relative},
	elf.R_X86_64_GOTPCREL: {4, relativeSlot}, elf.R_X86_64_GOTPCRELX: {4, relativeSlot},
	elf.R_X86_64_REX_GOTPCRELX: {4, relativeSlot},
	elf.R_X86_64_TLSGD:         {4, relativeSlot}, elf.R_X86_64_TLSLD: {4, relativeSlot},
	elf.R_X86_64_GOTTPOFF: {4, relativeSlot}, elf.R_X86_64_GOTPC32_TLSDESC: {4, relativeSlot},
	elf.R_X86_64_TPOFF32: {4, threadLocal}, elf.R_X86_64_DTPOFF32: {4, threadLocal},
	elf.R_X86_64_TPOFF64: {8, threadLocal}, elf.R_X86_64_DTPOFF64: {8, threadLocal},
	elf.R_X86_64_SIZE32: {4, symbolSize}, elf.R_X86_64_SIZE64: {8, symbolSize},
	// the large model's
	elf.R_X86_64_GOT64: {8, slotOffset}, elf.R_X86_64_GOTOFF64: {8, slotOffset},
	elf.R_X86_64_GOTPC64: {8, slotOffset}, elf.R_X86_64_GOTPCREL64: {8, slotOffset},
	elf.R_X86_64_GOTPLT64: {8, slotOffset}, elf.R_X86_64_PLTOFF64: {8, slotOffset},
	elf.R_X86_64_GOT32: {4, slotOffset}, elf.R_X86_64_GOTPC32: {4, slotOffset},
}

type value int

const (
	absolute     value = iota // the symbol's address
	relative                  // its distance from the field
	relativeSlot              // the distance of its entry in the global offset table
	slotOffset                // that entry's distance from the table
	threadLocal               // its distance from fs:0
	symbolSize
)

// apply computes one relocation. It skips and counts unknown ones.
func (r *relocator) apply(s *section, offset, info, addend uint64) {
	data := s.data()
	kind, number := elf.R_X86_64(info&0xffffffff), uint32(info>>32)
	field, known := relocations[kind]
	if !known || offset > uint64(len(data)) || uint64(len(data))-offset < uint64(field.size) {
		if kind != elf.R_X86_64_NONE && kind != elf.R_X86_64_TLSDESC_CALL { // TLSDESC_CALL only marks an instruction
			r.o.stats.BadRelocations++
		}
		return
	}
	var symbol elf.Symbol
	if number > 0 && int(number) <= len(r.symbols) {
		symbol = r.symbols[number-1]
	}
	place := s.addr + offset
	v := addend
	switch field.is {
	case absolute:
		v += r.address(number)
	case relative:
		v += r.address(number) - place
	case relativeSlot:
		v += r.slot(number) - place
	case slotOffset:
		v += r.slot(number) - layoutStart
	case threadLocal:
		v += symbol.Value%tlsBlock - tlsBlock
	case symbolSize:
		v += symbol.Size
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], v)
	copy(data[offset:], word[:field.size])
	s.filled = append(s.filled, span{place, place + uint64(field.size)})
}

// address returns a symbol's address. An external or common symbol gets a slot of its own, so that no two
// variables share an address.
func (r *relocator) address(number uint32) uint64 {
	if number == 0 || int(number) > len(r.symbols) {
		return 0
	}
	sym := &r.symbols[number-1]
	if sym.Section == elf.SHN_ABS {
		return sym.Value
	}
	if s := r.bySect[int(sym.Section)]; s != nil {
		return s.addr + sym.Value
	}
	key := sym.Name
	if key == "" {
		key = fmt.Sprintf("\x00%d", number)
	}
	at, known := r.externals[key]
	if !known {
		at = r.next
		r.externals[key] = at
		size := uint64(externalSlot)
		if sym.Section == elf.SHN_COMMON && sym.Size < layoutLimit-at {
			size = max(size, (sym.Size+externalSlot-1)&^(externalSlot-1))
		}
		r.next = min(at+size, layoutLimit)
	}
	return at
}

// slot returns the address of the symbol's entry in the global offset table.
func (r *relocator) slot(number uint32) uint64 {
	at, known := r.got[number]
	if !known {
		at = uint64(layoutLimit) + gotSlot*uint64(len(r.got)) // after all externals
		r.got[number] = at
	}
	return at
}

// relocated reports whether a relocation wrote any byte of the range.
func (s *section) relocated(lo, hi uint64) bool {
	i := sort.Search(len(s.filled), func(i int) bool { return s.filled[i].hi > lo })
	return i < len(s.filled) && s.filled[i].lo < hi
}
