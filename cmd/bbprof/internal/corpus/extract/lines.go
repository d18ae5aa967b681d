package extract

import (
	"cmp"
	"debug/dwarf"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
)

// lines maps addresses of an object to source lines.
type lines []sourceLine

type sourceLine struct {
	addr uint64
	file string // base name; "" after a sequence of instructions
	line int
}

// readLines reads the DWARF line tables, nil if there are none, and skips damaged ones.
func (o *object) readLines() (list lines) {
	data, err := o.elf.DWARF()
	if err != nil || o.relocatable { // relocatable tables need a linker
		return nil
	}
	units := data.Reader()
	for {
		unit, err := units.Next()
		if err != nil || unit == nil {
			break
		}
		units.SkipChildren()
		if unit.Tag != dwarf.TagCompileUnit {
			continue
		}
		table, err := data.LineReader(unit)
		if err != nil || table == nil {
			continue
		}
		var e dwarf.LineEntry
		for table.Next(&e) == nil {
			l := sourceLine{addr: e.Address}
			if !e.EndSequence && e.File != nil && e.Line > 0 {
				l.file, l.line = filepath.Base(e.File.Name), e.Line
			}
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b sourceLine) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(len(a.file), len(b.file))) // at one address, an end sorts before a start
	})
	return list
}

// at returns file:line of an address, "" if unknown.
func (l lines) at(addr uint64) string {
	i := sort.Search(len(l), func(i int) bool { return l[i].addr > addr }) - 1
	if i < 0 || l[i].file == "" {
		return ""
	}
	return l[i].file + ":" + strconv.Itoa(l[i].line)
}
