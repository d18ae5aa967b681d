package program

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/suggest"
)

// Function is a function of a program.
type Function struct {
	Name string
	Addr uint64 // by the file, see Executable.Slide
}

// Function finds a function by its name in the symbol table, or by its address there, such
// as 0x401136. An *Error names what it could have been.
func (e *Executable) Function(name string) (Function, error) {
	defined, imported, stripped, err := e.functions()
	if err != nil {
		return Function{}, err
	}
	f, err := find(e.Path, name, defined, imported)
	if bad := (*Error)(nil); stripped && errors.As(err, &bad) {
		bad.Problem += ", and it has no symbol table, only the names that shared libraries may use, if any"
		bad.Remedy = "link it without -s and do not strip it"
	}
	return f, err
}

// functions lists the functions that the program holds, without double entries, and the names
// of those that it takes from shared libraries. A stripped program has few or none.
func (e *Executable) functions() (defined []Function, imported []string, stripped bool, err error) {
	file, err := elf.Open(e.Path)
	if err != nil {
		return nil, nil, false, &Error{Program: e.Path, Problem: "it cannot be read", Err: err}
	}
	defer file.Close()
	symbols, err := file.Symbols()
	stripped = errors.Is(err, elf.ErrNoSymbols)
	if err != nil && !stripped {
		return nil, nil, false, &Error{Program: e.Path, Problem: "its symbol table cannot be read", Err: err}
	}
	dynamic, err := file.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, nil, false, &Error{Program: e.Path, Problem: "its dynamic symbol table cannot be read", Err: err}
	}
	for _, s := range append(symbols, dynamic...) {
		switch kind := elf.ST_TYPE(s.Info); {
		case kind != elf.STT_FUNC:
		case s.Section == elf.SHN_UNDEF:
			name, _, _ := strings.Cut(s.Name, "@") // of a versioned symbol
			imported = append(imported, name)
		default:
			defined = append(defined, Function{s.Name, s.Value})
		}
	}
	slices.SortFunc(defined, func(a, b Function) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Addr, b.Addr))
	})
	slices.Sort(imported)
	return slices.Compact(defined), slices.Compact(imported), stripped, nil
}

func find(path, name string, defined []Function, imported []string) (Function, error) {
	if len(defined) == 0 {
		return Function{}, &Error{Program: path, Problem: "it names no function", Remedy: "link it with a symbol table"}
	}
	if addr, err := strconv.ParseUint(name, 0, 64); err == nil {
		return byAddress(path, addr, defined)
	}
	var same []Function
	for _, f := range defined {
		if f.Name == name {
			same = append(same, f)
		}
	}
	switch {
	case len(same) == 1:
		return same[0], nil
	case len(same) > 1:
		return Function{}, &Error{Program: path, Problem: fmt.Sprintf("%d functions are called %s", len(same), name), Remedy: "name one by its address: " + addresses(same)}
	case slices.Contains(imported, name):
		return Function{}, &Error{Program: path, Problem: fmt.Sprintf("%s is not in it but in a shared library", name), Remedy: "link it statically, or count a function that calls it"}
	}
	remedy := "nm lists what it has; a function that was inlined everywhere has no symbol"
	if near := similar(name, defined); len(near) > 0 {
		remedy = "it has " + strings.Join(near, ", ")
	}
	return Function{}, &Error{Program: path, Problem: fmt.Sprintf("no function is called %s", name), Remedy: remedy}
}

func byAddress(path string, addr uint64, defined []Function) (Function, error) {
	var below *Function
	for i, f := range defined {
		if f.Addr == addr {
			return f, nil
		}
		if f.Addr < addr && (below == nil || f.Addr > below.Addr) {
			below = &defined[i]
		}
	}
	remedy := "nm lists where functions start"
	if below != nil {
		remedy = fmt.Sprintf("the one before it is %s at %#x", below.Name, below.Addr)
	}
	return Function{}, &Error{Program: path, Problem: fmt.Sprintf("no function starts at %#x", addr), Remedy: remedy}
}

func addresses(fs []Function) string {
	var all []string
	for _, f := range fs {
		all = append(all, fmt.Sprintf("%#x", f.Addr))
	}
	return strings.Join(all, " or ")
}

const maxSuggestions = 5

// similar are the names that a user may have meant: those that differ in case, or that hold
// the name as a word (main.sum, sum.constprop.0, _ZN3app3sumEv), the shortest first; else those
// that are at most a third of their letters away.
func similar(name string, defined []Function) []string {
	var near []string
	lower := strings.ToLower(name)
	for _, f := range defined {
		if strings.Contains(strings.ToLower(f.Name), lower) {
			near = append(near, f.Name)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	if len(near) == 0 {
		for _, f := range defined {
			if suggest.Distance(lower, strings.ToLower(f.Name)) <= max(1, len(name)/3) {
				near = append(near, f.Name)
			}
		}
	}
	near = slices.Compact(near)
	return near[:min(len(near), maxSuggestions)]
}
