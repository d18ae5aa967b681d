package launch

import (
	"cmp"
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
)

type Symbols struct {
	named  []elf.Symbol // of the program itself, by address in memory
	ranges []debuggee.Mapping
}

func (c Command) Symbols(p *debuggee.Process) (Symbols, error) {
	maps, err := p.Maps()
	if err != nil {
		return Symbols{}, err
	}
	s := Symbols{ranges: maps}
	start, err := p.Entry()
	if err != nil {
		return Symbols{}, err
	}
	all, _, err := symbols(c.Exe.Path)
	for _, one := range all {
		if t := elf.ST_TYPE(one.Info); one.Section != elf.SHN_UNDEF && (t == elf.STT_FUNC || t == elf.STT_OBJECT) {
			one.Value += c.Exe.slide(start)
			s.named = append(s.named, one)
		}
	}
	slices.SortStableFunc(s.named, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	return s, err
}

// Name returns the symbol that contains an address, with the offset; else the mapping, such as [stack].
func (s Symbols) Name(addr uint64) string {
	i, exact := slices.BinarySearchFunc(s.named, addr, func(one elf.Symbol, addr uint64) int { return cmp.Compare(one.Value, addr) })
	if !exact {
		i--
	}
	if i >= 0 && addr < s.named[i].Value+max(s.named[i].Size, 1) {
		name, by := demangled(s.named[i].Name), addr-s.named[i].Value
		if by > 0 {
			name += fmt.Sprintf("+%#x", by)
		}
		return name
	}
	if m := debuggee.Find(s.ranges, addr); m != nil && m.Name != "" {
		return filepath.Base(m.Name)
	} else if m != nil {
		return "memory without a name"
	}
	return "memory that is not mapped"
}
