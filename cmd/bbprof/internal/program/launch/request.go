package launch

import (
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
)

// MaxRequest is the last call of malloc that can be selected: each earlier one is a stop of some 50 µs.
const MaxRequest = 10000

// Allocator holds the addresses of a program's malloc(3) and the same library's memalign(3).
type Allocator struct{ Malloc, Memalign uint64 }

// Allocator finds them in a program at its entry: in the program itself, or else in a library that replaces the C
// library's.
func (c Command) Allocator(p *debuggee.Process) (a Allocator, err error) {
	if a.Malloc, err = c.allocating(p, "malloc"); err == nil {
		a.Memalign, err = c.allocating(p, "memalign")
	}
	return a, err
}

func (c Command) allocating(p *debuggee.Process, name string) (uint64, error) {
	if f, err := c.Exe.Function(name); err == nil && !f.Shared {
		return c.Locate(p, f)
	}
	all, err := c.loaded(p, name, "")
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, &Error{Subject: c.Name, Problem: "it has no function " + name + ", which is needed to move a heap block"}
	}
	// One loaded to replace the C library's precedes it in symbol lookup.
	i := slices.IndexFunc(all, func(f Function) bool { return f.Library != "libc.so.6" })
	return all[max(i, 0)].Addr, nil
}

// toRequest runs a program from its entry to the malloc call that r selects, and makes that return an aligned block if
// r says so.
func (c Command) toRequest(p *debuggee.Process, r Request) error {
	a, err := c.Allocator(p)
	if err != nil {
		return err
	}
	if err := p.Break(a.Malloc); err != nil {
		return err
	}
	var stop debuggee.Stop
	for n := range r.Number {
		if n > 0 {
			if _, err := p.Step(stop.Thread); err != nil {
				return err
			}
		}
		if stop, err = p.Run(); err != nil {
			return err
		}
		if stop.End != nil {
			return Errorf(c.Name, unsteady, "there is no call %d of malloc this time: %v", r.Number, stop.End)
		}
	}
	if got := stop.Regs.GPR[asm.RDI]; got != r.Bytes {
		return Errorf(c.Name, unsteady,
			"its call %d of malloc asks for %d bytes now, and asked for %d before", r.Number, got, r.Bytes)
	}
	if r.Align > 0 {
		if err := p.Divert(stop.Thread, a.Memalign, uint64(r.Align), r.Bytes); err != nil {
			return err
		}
	}
	return p.Unbreak(a.Malloc)
}

const unsteady = "blocks can be moved only in a program that allocates the same in each run"
