package extract

import (
	"cmp"
	"debug/dwarf"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
)

// lines are where in its sources an object's code is from, by address.
type lines []sourceLine

type sourceLine struct {
	addr uint64
	file string // its last element; "" behind a sequence of instructions
	line int
}

// readLines reads the line tables of DWARF; nil where there are none. What is damaged of them is left out.
func (o *object) readLines() (list lines) {
	data, err := o.elf.DWARF()
	if err != nil || o.relocatable { // whose tables wait for a linker
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
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(len(a.file), len(b.file))) // what begins there comes after what ends there
	})
	return list
}

// at is file:line of an address, "" if that is not known.
func (l lines) at(addr uint64) string {
	i := sort.Search(len(l), func(i int) bool { return l[i].addr > addr }) - 1
	if i < 0 || l[i].file == "" {
		return ""
	}
	return l[i].file + ":" + strconv.Itoa(l[i].line)
}
