package launch

import (
	"cmp"
	"debug/elf"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
)

// Locate returns a function's address in a program that has not yet executed anything. For a shared library's function
// it first runs the dynamic linker, up to the program's entry.
func (c Command) Locate(p *debuggee.Process, f Function) (uint64, error) {
	if !f.Shared {
		start, err := p.Entry()
		return f.Addr + c.Exe.slide(start), err
	}
	if err := c.ToEntry(p); err != nil {
		return 0, err
	}
	found, err := c.loaded(p, f.Name, f.Library)
	if err != nil {
		return 0, err
	}
	if len(found) == 1 {
		return found[0].Addr, nil
	}
	if len(found) > 1 {
		var names []string
		for _, one := range found {
			names = append(names, one.Library+":"+one.Name)
		}
		slices.Sort(names)
		return 0, Errorf(c.Name, "name one with its library: "+strings.Join(slices.Compact(names), " or "),
			"%d functions of its shared libraries are called %s", len(found), f.Name)
	}
	const remedy = "ldd lists the libraries, nm -D their functions"
	if f.Library == "" {
		return 0, Errorf(c.Name, remedy+"; of one that dlopen(3) loads write LIBRARY:"+f.Name,
			"none of its shared libraries holds a function %s when its own code begins", f.Name)
	}
	missing := Errorf(c.Name, remedy, "no shared library %s of it holds a function %s", f.Library, f.Name)
	all, err := objects(p)
	if err == nil && !slices.ContainsFunc(all, func(o object) bool { return o.called(filepath.Base(f.Library)) }) {
		missing.Err = ErrNotLoaded
	}
	return 0, cmp.Or(err, error(missing))
}

// ErrNotLoaded reports a library that is not there when the program's own code begins; dlopen(3) may load it later.
var ErrNotLoaded = errors.New("it is not loaded when the program's own code begins")

// ToEntry runs the dynamic linker, if any, up to the program's own first instruction.
func (c Command) ToEntry(p *debuggee.Process) error {
	end, err := toEntry(p)
	if err == nil && end != nil {
		err = Errorf(c.Name, "run it by itself first", "its own code never began: %v", end)
	}
	return err
}

func (c Command) loaded(p *debuggee.Process, name, in string) (found []Function, err error) {
	all, err := objects(p)
	if err != nil {
		return nil, err
	}
	for _, o := range all[min(len(all), 1):] { // the program itself comes first
		if in != "" && !o.called(filepath.Base(in)) {
			continue
		}
		file := filepath.Base(o.path)
		at, err := o.functions(name)
		if err != nil {
			return nil, err
		}
		for _, addr := range at {
			found = append(found, Function{Name: name, Addr: addr, Shared: true, Library: file})
		}
	}
	return found, nil
}

// Awaited returns a function that finds the entry of a library's function, none until the program has loaded the library
// by dlopen(3). It is to be called at system calls.
func (c Command) Awaited(p *debuggee.Process, f Function) func(at []uint64) ([]uint64, error) {
	mapped := 0
	return func(at []uint64) ([]uint64, error) {
		maps, err := p.Maps()
		if err != nil || len(maps) == mapped {
			return at, err
		}
		mapped = len(maps)
		found, err := c.loaded(p, f.Name, f.Library)
		at = nil
		for _, f := range found {
			at = append(at, f.Addr)
		}
		return at, err
	}
}

// Objects returns the ELF files that a program has mapped, by path, with the offset from file to memory addresses. It
// first runs the dynamic linker, up to the program's entry.
func (c Command) Objects(p *debuggee.Process) (map[string]uint64, error) {
	if err := c.ToEntry(p); err != nil {
		return nil, err
	}
	all, err := objects(p)
	biases := map[string]uint64{}
	for _, o := range all {
		biases[o.path] = o.bias
	}
	return biases, err
}

type object struct {
	path string
	name string // DT_SONAME, by which programs ask for it
	bias uint64 // from its addresses to those in memory
}

// called reports whether a library is meant: by the name of its file or its own, without the end of the version too.
func (o object) called(library string) bool {
	return strings.HasPrefix(filepath.Base(o.path)+".", library+".") || strings.HasPrefix(o.name+".", library+".")
}

func objects(p *debuggee.Process) (all []object, err error) {
	maps, err := p.Maps()
	if err != nil {
		return nil, err
	}
	for _, m := range maps {
		known := slices.ContainsFunc(all, func(o object) bool { return o.path == m.Name })
		if known || !strings.HasPrefix(m.Name, "/") {
			continue
		}
		file, err := elf.Open(m.Name)
		if err != nil {
			continue // a data file
		}
		name, _ := file.DynString(elf.DT_SONAME)
		for _, s := range file.Progs {
			if s.Type == elf.PT_LOAD && s.Off&^0xfff == m.Offset {
				all = append(all, object{m.Name, cmp.Or(append(name, "")...), m.Low - m.Offset - (s.Vaddr - s.Off)})
				break
			}
		}
		file.Close()
	}
	return all, nil
}

func (o object) functions(name string) (at []uint64, err error) {
	all, _, err := symbols(o.path)
	for _, s := range all {
		if !called(unversioned(s), name) || s.Section == elf.SHN_UNDEF {
			continue
		}
		const ifunc = elf.STT_LOOS // STT_GNU_IFUNC: its value is a function that selects one
		switch elf.ST_TYPE(s.Info) {
		case ifunc:
			return nil, Errorf(o.path, "count a function that calls it, or name the variant",
				"%s is an ifunc: the CPU's variant is chosen at run time", name)
		case elf.STT_FUNC:
			at = append(at, o.bias+s.Value)
		}
	}
	slices.Sort(at)
	return slices.Compact(at), err
}
