package extract

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// An InputError reports a fault in a file that the user named.
type InputError = words.Error

// An object is one ELF file: a program, a shared library or an assembler's output.
type object struct {
	name        string // as the user named it, lib.a(member.o) in an archive
	elf         *elf.File
	relocatable bool
	sections    []*section // those that occupy memory, by address
	externals   map[string]uint64
	functions   []function
	regions     []region // if not empty, blocks come only from these
	marks       []string // names of regions marked in assembly
	stats       *Stats
}

// A section is an address range backed by the file.
type section struct {
	*elf.Section
	index      int    // in the file
	addr       uint64 // of the first byte; in a relocatable file, assigned by the layout
	shown      uint64 // of the first byte, as rows show it
	executable bool
	bytes      []byte
	loaded     bool
	filled     []fill // by offset
}

// A fill is a field written by a relocation.
type fill struct{ offset, size int }

const maxSections = 1 << 20 // a relocatable file of 10^6 functions with a section each

func (s *section) size() uint64 { return s.Section.Size }
func (s *section) end() uint64  { return s.addr + s.Section.Size }

// data reads a section once, as much as a damaged file holds.
func (s *section) data() []byte {
	if !s.loaded {
		s.loaded = true
		if s.Type != elf.SHT_NOBITS {
			s.bytes, _ = s.Data()
			s.bytes = s.bytes[:min(uint64(len(s.bytes)), s.size())]
		}
	}
	return s.bytes
}

// openObject reads the headers and applies relocations.
func openObject(name string, r io.ReaderAt, stats *Stats) (*object, error) {
	if err := checkIdent(name, r); err != nil {
		return nil, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, &InputError{Subject: name, Problem: "a damaged ELF file: " + plain(err)}
	}
	o := &object{name: name, elf: f, relocatable: f.Type == elf.ET_REL, stats: stats}
	switch {
	case f.Type == elf.ET_CORE:
		return nil, &InputError{Subject: name, Problem: "a core dump", Remedy: "name the program that dumped it"}
	case len(f.Sections) > maxSections:
		return nil, &InputError{Subject: name, Problem: fmt.Sprintf("%d sections; at most %d are read", len(f.Sections), maxSections)}
	}
	for i, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Size == 0 || s.Addr+s.Size < s.Addr {
			continue
		}
		o.sections = append(o.sections, &section{
			Section: s, index: i, addr: s.Addr, shown: s.Addr,
			executable: s.Flags&elf.SHF_EXECINSTR != 0 && s.Type == elf.SHT_PROGBITS,
		})
	}
	for _, s := range o.sections {
		if s.executable { // no more than a damaged file holds
			s.Section.Size = uint64(len(s.data()))
		}
	}
	o.sections = slices.DeleteFunc(o.sections, func(s *section) bool { return s.size() == 0 })
	if o.relocatable {
		o.layOut()
	}
	slices.SortStableFunc(o.sections, func(a, b *section) int { return cmp.Compare(a.addr, b.addr) })
	if o.relocatable {
		o.relocate()
	}
	return o, nil
}

// sources lists the suffixes of C and C++ sources.
var sources = map[string]bool{".c": true, ".cc": true, ".cpp": true, ".cxx": true}

// checkIdent rejects a file that is not x86-64 ELF, and says what it is instead.
func checkIdent(name string, r io.ReaderAt) error {
	var h [20]byte // e_ident, e_type, e_machine
	n, err := r.ReadAt(h[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return &InputError{Subject: name, Problem: plain(err)}
	}
	if n < len(h) || !bytes.HasPrefix(h[:], []byte(elf.ELFMAG)) {
		problem := "not an ELF file or an archive of them"
		if n == 0 {
			problem = "an empty file"
		}
		if base, ok := strings.CutSuffix(name, filepath.Ext(name)); ok && sources[filepath.Ext(name)] {
			return &InputError{Subject: name, Problem: "source code", Remedy: "compile it, and name the object: cc -O2 " +
				"-c " + name + " && bbprof extract " + filepath.Base(base) + ".o"}
		}
		return &InputError{Subject: name, Problem: problem, Remedy: "name a program, a shared library, a .o, a .a, or assembly in a .s file"}
	}
	machine := elf.Machine(binary.LittleEndian.Uint16(h[18:]))
	if elf.Data(h[elf.EI_DATA]) == elf.ELFDATA2MSB {
		machine = elf.Machine(binary.BigEndian.Uint16(h[18:]))
	}
	if elf.Class(h[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(h[elf.EI_DATA]) != elf.ELFDATA2LSB || machine != elf.EM_X86_64 {
		return &InputError{
			Subject: name, Remedy: "bbprof extracts x86-64 code alone",
			Problem: fmt.Sprintf("an ELF file of %v for %v", elf.Class(h[elf.EI_CLASS]), machine),
		}
	}
	return nil
}

// plain strips the path that package os adds: our errors name the file.
func plain(err error) string {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

func (o *object) at(addr uint64) *section {
	i, found := slices.BinarySearchFunc(o.sections, addr, func(s *section, a uint64) int { return cmp.Compare(s.addr, a) })
	if found {
		return o.sections[i]
	}
	if i > 0 && addr < o.sections[i-1].end() {
		return o.sections[i-1]
	}
	return nil
}

func (o *object) code(addr uint64) *section {
	if s := o.at(addr); s != nil && s.executable {
		return s
	}
	return nil
}

// word reads a little-endian number of 4 or 8 bytes from a section.
func (o *object) word(addr uint64, size int) (uint64, bool) {
	s := o.at(addr)
	if s == nil {
		return 0, false
	}
	data := s.data()
	at := addr - s.addr
	if at > uint64(len(data)) || uint64(len(data))-at < uint64(size) {
		return 0, false
	}
	if size == 4 {
		return uint64(binary.LittleEndian.Uint32(data[at:])), true
	}
	return binary.LittleEndian.Uint64(data[at:]), true
}
