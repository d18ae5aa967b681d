package launch

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

type Function struct {
	Name string
	Addr uint64 // in the file, see Executable.Slide
	// Shared means that a shared library contains it, named by Library if given. [Command.Locate] finds it when the
	// library is loaded.
	Shared  bool
	Library string
}

// Function finds a function by its name in the symbol table, mangled or as written, by its address there, such as
// 0x401136, or in a shared library, such as libz.so.1:crc32. An *Error suggests similar names.
func (e *Executable) Function(name string) (Function, error) {
	if library, rest, ok := strings.Cut(name, ":"); ok && strings.Contains(library, ".so") {
		return Function{Name: rest, Shared: true, Library: library}, nil
	}
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

// functions lists the program's own functions, without duplicates, and the names imported from shared libraries. A
// stripped program has few or none.
func (e *Executable) functions() (defined []Function, imported []string, stripped bool, err error) {
	all, stripped, err := symbols(e.Path)
	typed := map[uint64]bool{}
	for _, s := range all {
		typed[s.Value] = typed[s.Value] || elf.ST_TYPE(s.Info) == elf.STT_FUNC
	}
	for _, s := range all {
		inCode := int(s.Section) < len(e.code) && e.code[s.Section]
		switch kind := elf.ST_TYPE(s.Info); {
		case kind == elf.STT_NOTYPE && s.Value != 0 && !typed[s.Value] && inCode: // assembly without .type
			defined = append(defined, Function{Name: s.Name, Addr: s.Value})
		case kind != elf.STT_FUNC:
		case s.Section == elf.SHN_UNDEF:
			imported = append(imported, unversioned(s))
		default:
			defined = append(defined, Function{Name: s.Name, Addr: s.Value})
		}
	}
	slices.SortFunc(defined, func(a, b Function) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Addr, b.Addr))
	})
	slices.Sort(imported)
	return slices.Compact(defined), slices.Compact(imported), stripped, err
}

func symbols(path string) (all []elf.Symbol, stripped bool, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, false, &Error{Subject: path, Problem: "it cannot be read", Err: err}
	}
	defer file.Close()
	all, err = file.Symbols()
	stripped = errors.Is(err, elf.ErrNoSymbols)
	if err != nil && !stripped {
		return nil, false, &Error{Subject: path, Problem: "its symbol table cannot be read", Err: err}
	}
	dynamic, err := file.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, false, &Error{Subject: path, Problem: "its dynamic symbol table cannot be read", Err: err}
	}
	return append(all, dynamic...), stripped, nil
}

func unversioned(s elf.Symbol) string {
	name, _, _ := strings.Cut(s.Name, "@")
	return name
}

// demangled returns a C++ or Rust name as written, with or without parameter types, and any other name unchanged.
func demangled(symbol string, options ...demangle.Option) string {
	if !strings.HasPrefix(symbol, "_") {
		return symbol
	}
	return demangle.Filter(symbol, options...)
}

// called reports whether name denotes a symbol: app::twice<int>(int), app::twice<int> or app::twice.
func called(symbol, name string) bool {
	return symbol == name || strings.HasPrefix(symbol, "_") && (demangled(symbol) == name || demangled(symbol, demangle.NoParams) == name ||
		demangled(symbol, demangle.NoParams, demangle.NoTemplateParams) == name)
}

func find(path, name string, defined []Function, imported []string) (Function, error) {
	if shared := slices.ContainsFunc(imported, func(s string) bool { return called(s, name) }); len(defined) == 0 && !shared {
		return Function{}, Errorf(path, "link it with a symbol table", "it names no function")
	}
	if addr, err := strconv.ParseUint(name, 0, 64); err == nil {
		return byAddress(path, addr, defined)
	}
	var same []Function
	for _, f := range defined {
		if called(f.Name, name) {
			same = append(same, Function{Name: demangled(f.Name), Addr: f.Addr})
		}
	}
	switch {
	case len(same) == 1:
		return same[0], nil
	case len(same) > 1:
		return Function{}, Errorf(path, "name one by its address: "+addresses(same),
			"%d functions are called %s", len(same), name)
	case slices.ContainsFunc(imported, func(s string) bool { return called(s, name) }):
		return Function{Name: name, Shared: true}, nil
	}
	if clones := clonesOf(name, defined); len(clones) == 1 {
		return clones[0], nil
	}
	remedy := "nm lists what it has; a function that was inlined everywhere has no symbol"
	if near := similar(name, defined); len(near) > 0 {
		remedy = "it has " + strings.Join(near, ", ")
	}
	return Function{}, Errorf(path, remedy, "no function is called %s", name)
}

// cloneSuffix matches what compilers append to a function adapted to its callers: gcc's constprop and isra (its
// ipa-cp.cc and ipa-sra.cc), and lto_priv and clang's llvm for one renamed by link-time optimisation. A part or a cold
// half is not the function.
var cloneSuffix = regexp.MustCompile(`(\.(constprop|isra|lto_priv|llvm)\.[0-9]+)+$`)

// clonesOf returns the clones that a compiler left of a function that is gone.
func clonesOf(name string, defined []Function) (all []Function) {
	for _, f := range defined {
		if plain := cloneSuffix.ReplaceAllString(f.Name, ""); plain != f.Name && called(plain, name) {
			all = append(all, Function{Name: demangled(f.Name), Addr: f.Addr})
		}
	}
	return all
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
	return Function{}, Errorf(path, remedy, "no function starts at %#x", addr)
}

func addresses(fs []Function) string {
	var all []string
	for _, f := range fs {
		all = append(all, fmt.Sprintf("%#x", f.Addr))
	}
	return strings.Join(all, " or ")
}

const maxSuggestions = 5

// similar returns names that a user may have meant, the shortest first: those that differ in case or contain the name
// as a word (main.sum, sum.constprop.0, _ZN3app3sumEv), else those with up to a third of the letters wrong.
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
			if words.Distance(lower, strings.ToLower(f.Name)) <= max(1, len(name)/3) {
				near = append(near, f.Name)
			}
		}
	}
	near = slices.Compact(near)
	near = near[:min(len(near), maxSuggestions)]
	for i, name := range near {
		near[i] = demangled(name)
	}
	return near
}
