package extract

import (
	"debug/elf"
	"encoding/binary"
	"slices"
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

// layOut assigns section addresses in a linker's order: code, read-only data, writable data.
func (o *object) layOut() {
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
			s.addr, s.shown = next, 0
			if s.size() < layoutLimit-next {
				next += s.size()
			} else { // a damaged file, or one that linkers refuse too
				s.Section.Size = 0
			}
		}
		next = (next + layoutPage - 1) &^ (layoutPage - 1)
	}
	o.externals = map[string]uint64{"": next}
}

type relocator struct {
	o       *object
	symbols []elf.Symbol
	bySect  map[int]*section
	got     map[uint32]uint64 // by symbol
	next    uint64            // the next free address after all sections
}

func (o *object) relocate() {
	r := &relocator{o: o, bySect: map[int]*section{}, got: map[uint32]uint64{}, next: o.externals[""]}
	r.symbols, _ = o.elf.Symbols()
	for _, s := range o.sections {
		r.bySect[s.index] = s
	}
	for _, rel := range o.elf.Sections {
		if rel.Type != elf.SHT_RELA {
			continue
		}
		s := r.bySect[int(rel.Info)]
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		table, err := rel.Data()
		if err != nil {
			o.stats.BadRelocations++
			continue
		}
		// struct Elf64_Rela: offset, info, addend.
		for ; len(table) >= 24; table = table[24:] {
			r.apply(s, binary.LittleEndian.Uint64(table), binary.LittleEndian.Uint64(table[8:]), int64(binary.LittleEndian.Uint64(table[16:])))
		}
		slices.SortFunc(s.filled, func(a, b fill) int { return a.offset - b.offset })
	}
}

// apply computes one relocation (x86-64 psABI, table 4.9: S the symbol's address, A the addend, P the field's
// address). It skips and counts unknown ones.
func (r *relocator) apply(s *section, offset, info uint64, addend int64) {
	data := s.data()
	kind, number := elf.R_X86_64(info&0xffffffff), uint32(info>>32)
	size := relocationSize(kind)
	if size == 0 || offset > uint64(len(data)) || uint64(len(data))-offset < uint64(size) {
		if kind != elf.R_X86_64_NONE && kind != elf.R_X86_64_TLSDESC_CALL { // TLSDESC_CALL only marks an instruction
			r.o.stats.BadRelocations++
		}
		return
	}
	place := s.addr + offset
	var v uint64
	switch kind {
	case elf.R_X86_64_64, elf.R_X86_64_32, elf.R_X86_64_32S, elf.R_X86_64_16, elf.R_X86_64_8:
		v = r.address(number) + uint64(addend)
	case elf.R_X86_64_PC64, elf.R_X86_64_PC32, elf.R_X86_64_PLT32, elf.R_X86_64_PC16, elf.R_X86_64_PC8:
		v = r.address(number) + uint64(addend) - place
	case elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX,
		elf.R_X86_64_TLSGD, elf.R_X86_64_TLSLD, elf.R_X86_64_GOTTPOFF, elf.R_X86_64_GOTPC32_TLSDESC:
		v = r.slot(number) + uint64(addend) - place
	case elf.R_X86_64_TPOFF32, elf.R_X86_64_DTPOFF32, elf.R_X86_64_TPOFF64, elf.R_X86_64_DTPOFF64:
		v = uint64(int64(r.offsetInSection(number)%tlsBlock)+addend) - tlsBlock
	case elf.R_X86_64_SIZE32, elf.R_X86_64_SIZE64:
		v = uint64(addend)
		if number > 0 && int(number) <= len(r.symbols) {
			v += r.symbols[number-1].Size
		}
	default: // the large model's: offset to the global offset table
		v = r.slot(number) + uint64(addend) - layoutStart
	}
	for i := range size {
		data[offset+uint64(i)] = byte(v >> (8 * i))
	}
	s.filled = append(s.filled, fill{int(offset), size})
}

// relocationSize returns how many bytes a relocation fills, 0 if unknown.
func relocationSize(k elf.R_X86_64) int {
	switch k {
	case elf.R_X86_64_64, elf.R_X86_64_PC64, elf.R_X86_64_TPOFF64, elf.R_X86_64_DTPOFF64, elf.R_X86_64_SIZE64,
		elf.R_X86_64_GOT64, elf.R_X86_64_GOTOFF64, elf.R_X86_64_GOTPC64, elf.R_X86_64_GOTPCREL64, elf.R_X86_64_GOTPLT64, elf.R_X86_64_PLTOFF64:
		return 8
	case elf.R_X86_64_32, elf.R_X86_64_32S, elf.R_X86_64_PC32, elf.R_X86_64_PLT32,
		elf.R_X86_64_GOTPCREL, elf.R_X86_64_GOTPCRELX, elf.R_X86_64_REX_GOTPCRELX, elf.R_X86_64_GOT32, elf.R_X86_64_GOTPC32,
		elf.R_X86_64_TLSGD, elf.R_X86_64_TLSLD, elf.R_X86_64_GOTTPOFF, elf.R_X86_64_GOTPC32_TLSDESC,
		elf.R_X86_64_TPOFF32, elf.R_X86_64_DTPOFF32, elf.R_X86_64_SIZE32:
		return 4
	case elf.R_X86_64_16, elf.R_X86_64_PC16:
		return 2
	case elf.R_X86_64_8, elf.R_X86_64_PC8:
		return 1
	}
	return 0
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
		key = string(binary.LittleEndian.AppendUint32([]byte{0}, number))
	}
	if at, ok := r.o.externals[key]; ok {
		return at
	}
	at := r.next
	size := uint64(externalSlot)
	if sym.Section == elf.SHN_COMMON && sym.Size < layoutLimit-at {
		size = max(size, (sym.Size+externalSlot-1)&^(externalSlot-1))
	}
	r.o.externals[key] = at
	r.next = min(at+size, layoutLimit)
	return at
}

// slot returns the address of the symbol's entry in the global offset table.
func (r *relocator) slot(number uint32) uint64 {
	if at, ok := r.got[number]; ok {
		return at
	}
	at := uint64(layoutLimit) + gotSlot*uint64(len(r.got)) // after all externals
	r.got[number] = at
	return at
}

func (r *relocator) offsetInSection(number uint32) uint64 {
	if number == 0 || int(number) > len(r.symbols) {
		return 0
	}
	return r.symbols[number-1].Value
}

// relocated reports whether a relocation wrote any byte of the range.
func (s *section) relocated(lo, hi int) bool {
	i, _ := slices.BinarySearchFunc(s.filled, lo, func(f fill, at int) int { return f.offset + f.size - 1 - at })
	return i < len(s.filled) && s.filled[i].offset < hi
}
