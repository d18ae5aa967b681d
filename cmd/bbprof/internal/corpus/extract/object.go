package extract

import (
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
	isGo        bool   // it has the table of functions of the Go runtime
	name        string // as the user named it, lib.a(member.o) in an archive
	elf         *elf.File
	relocatable bool
	sections    []*section // those that occupy memory, by address
	functions   []function
	regions     []region // if not empty, blocks come only from these
	stats       *Stats
}

// A section is an address range backed by the file.
type section struct {
	*elf.Section
	index      int    // in the file
	addr       uint64 // of the first byte; in a relocatable file, assigned by the layout
	base       uint64 // what the addresses in rows count from: 0, or in a relocatable file the first byte
	executable bool
	bytes      []byte
	loaded     bool
	filled     []span // fields that a relocation wrote, sorted
}

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

// openObject reads the headers, applies relocations and finds regions, with the names that assembly gives them.
func openObject(name string, r io.ReaderAt, marks []string, stats *Stats) (*object, error) {
	if !isELF(r) {
		return nil, notELF(name, r)
	}
	f, err := elf.NewFile(r)
	switch {
	case err != nil:
		return nil, &InputError{Subject: name, Problem: "a damaged ELF file: " + plain(err)}
	case f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || f.Machine != elf.EM_X86_64:
		return nil, &InputError{Subject: name, Problem: fmt.Sprintf("an ELF file of %v for %v", f.Class, f.Machine),
			Remedy: "bbprof extracts x86-64 code alone"}
	case f.Type == elf.ET_CORE:
		return nil, &InputError{Subject: name, Problem: "a core dump", Remedy: "name the program that dumped it"}
	case len(f.Sections) > maxSections:
		return nil, &InputError{Subject: name, Problem: fmt.Sprintf("%d sections; at most %d are read", len(f.Sections), maxSections)}
	}
	o := &object{name: name, elf: f, relocatable: f.Type == elf.ET_REL, stats: stats}
	for i, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Addr+s.Size < s.Addr {
			continue
		}
		in := &section{Section: s, index: i, addr: s.Addr, executable: s.Flags&elf.SHF_EXECINSTR != 0 && s.Type == elf.SHT_PROGBITS}
		if in.executable { // no more than a damaged file holds
			s.Size = uint64(len(in.data()))
		}
		if s.Size > 0 {
			o.sections = append(o.sections, in)
		}
	}
	end := uint64(0)
	if o.relocatable {
		if symbols, _ := f.Symbols(); slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__gnu_lto_slim" }) {
			return nil, &InputError{Subject: name, Problem: "it holds GCC's intermediate code alone, as -flto makes it",
				Remedy: "compile it with -ffat-lto-objects too, or name the linked program"}
		}
		end = o.layOut()
	}
	slices.SortStableFunc(o.sections, func(a, b *section) int { return cmp.Compare(a.addr, b.addr) })
	if o.relocatable {
		o.relocate(end)
	}
	return o, o.findRegions(marks)
}

// notELF says what a file is instead.
func notELF(name string, r io.ReaderAt) error {
	problem := "not an ELF file or an archive of them"
	magic := make([]byte, 4)
	n, err := r.ReadAt(magic, 0)
	switch extension := filepath.Ext(name); {
	case string(magic) == "BC\xc0\xde": // https://llvm.org/docs/BitCodeFormat.html#magic-numbers
		return &InputError{Subject: name, Problem: "it holds LLVM's intermediate code alone, as -flto makes it",
			Remedy: "compile it with -ffat-lto-objects too, or name the linked program"}
	case n == 0 && errors.Is(err, io.EOF):
		problem = "an empty file"
	case n == 0:
		return unreadable(name, err)
	case slices.Contains([]string{".c", ".cc", ".cpp", ".cxx"}, extension):
		return &InputError{Subject: name, Problem: "source code", Remedy: "compile it, and name the object: cc -O2 -c " + name +
			" && bbprof extract " + strings.TrimSuffix(filepath.Base(name), extension) + ".o"}
	}
	return &InputError{Subject: name, Problem: problem, Remedy: "name a program, a shared library, a .o, a .a, or assembly in a .s file"}
}

func unreadable(name string, err error) error { return &InputError{Subject: name, Problem: plain(err)} }

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
