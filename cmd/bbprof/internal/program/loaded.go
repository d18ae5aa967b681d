package program

import (
	"debug/elf"
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
		return f.Addr + c.Exe.Slide(start), err
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
	library := "none of its shared libraries"
	if f.Library != "" {
		library = "no shared library " + f.Library + " of it"
	}
	return 0, Errorf(c.Name, "ldd lists the libraries, nm -D their functions; one that dlopen(3) loads is not there yet",
		"%s holds a function %s when its own code begins", library, f.Name)
}

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
		file := filepath.Base(o.path)
		if in != "" && file != filepath.Base(in) {
			continue
		}
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
	bias uint64 // from its addresses to those in memory
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
		for _, s := range file.Progs {
			if s.Type == elf.PT_LOAD && s.Off&^0xfff == m.Offset {
				all = append(all, object{m.Name, m.Low - m.Offset - (s.Vaddr - s.Off)})
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
