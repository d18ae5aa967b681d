package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// PerfMap reads the functions that a program's JIT compiler lists as it makes them, a line of start, size and name each
// (Linux, tools/perf/Documentation/jit-interface.txt).
type PerfMap struct {
	Path string
	read int64      // bytes read so far
	all  []Function // listed so far
}

// NewPerfMap returns the map of a process that has not begun. What the file holds now is from an earlier one with its
// number.
func NewPerfMap(pid int) *PerfMap {
	m := &PerfMap{Path: fmt.Sprintf("/tmp/perf-%d.map", pid)}
	if info, err := os.Stat(m.Path); err == nil {
		m.read = info.Size()
	}
	return m
}

// Update reads what was added to the file, and updates the addresses of the functions called name: a compiler may make
// one several times, and put another in its place.
func (m *PerfMap) Update(at []uint64, name string) ([]uint64, error) {
	info, err := os.Stat(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		m.read = 0
		return at, nil
	}
	if err != nil || info.Size() == m.read {
		return at, err
	}
	if info.Size() < m.read { // written anew
		m.read = 0
	}
	file, err := os.Open(m.Path)
	if err != nil {
		return at, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, m.read, info.Size()-m.read))
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	m.read += int64(len(whole))
	at = slices.Clone(at)
	for line := range strings.Lines(string(whole)) {
		first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		second, symbol, _ := strings.Cut(rest, " ")
		start, err1 := strconv.ParseUint(first, 16, 64)
		size, err2 := strconv.ParseUint(second, 16, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		m.all = append(m.all, Function{Name: symbol, Addr: start})
		at = slices.DeleteFunc(at, func(addr uint64) bool { return addr-start < size })
		if called(symbol, name) {
			at = append(at, start)
		}
	}
	return at, err
}

// Missing says that a program never listed a function until it ended, and how it ended.
func (m *PerfMap) Missing(program, name, end string) *Error {
	e := Errorf(program, "does it write that file? node needs --perf-basic-prof, Python 3.12 -X perf",
		"its JIT compiler listed no function %s in %s: %s", name, m.Path, end)
	if near := similar(name, m.all); len(near) > 0 {
		e.Remedy = "it listed " + strings.Join(near, ", ")
	} else if len(m.all) > 0 {
		e.Remedy = fmt.Sprintf("it listed %d others", len(m.all))
	}
	return e
}
