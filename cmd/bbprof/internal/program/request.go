package program

import (
	"cmp"
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
func (c Command) Allocator(p *debuggee.Process) (Allocator, error) {
	var a Allocator
	for _, f := range []struct {
		name string
		at   *uint64
	}{{"malloc", &a.Malloc}, {"memalign", &a.Memalign}} {
		found, err := c.allocating(p, f.name)
		if err != nil {
			return Allocator{}, err
		}
		*f.at = found
	}
	return a, nil
}

func (c Command) allocating(p *debuggee.Process, name string) (uint64, error) {
	if f, err := c.Exe.Function(name); err == nil && !f.Shared {
		start, err := p.Entry()
		return f.Addr + c.Exe.Slide(start), err
	}
	all, err := c.loaded(p, name, "")
	if err != nil {
		return 0, err
	}
	// One loaded to replace the C library's precedes it in symbol lookup.
	slices.SortStableFunc(all, func(a, b Function) int { return cmp.Compare(isLibc(a.Library), isLibc(b.Library)) })
	if len(all) == 0 {
		return 0, &Error{Subject: c.Name, Problem: "it has no function " + name + ", which is needed to move a heap block"}
	}
	return all[0].Addr, nil
}

func isLibc(library string) int {
	if library == "libc.so.6" {
		return 1
	}
	return 0
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
	end, thread := (*debuggee.End)(nil), 0
	for n := 0; n < r.Number && end == nil; n++ {
		if n > 0 {
			if _, err := p.Step(thread); err != nil {
				return err
			}
		}
		stop, err := p.Run()
		if err != nil {
			return err
		}
		end, thread = stop.End, stop.Thread
	}
	if end != nil {
		return Errorf(c.Name, unsteady, "there is no call %d of malloc this time: %v", r.Number, end)
	}
	regs, err := p.Regs(thread)
	if err != nil {
		return err
	}
	if got := regs.GPR[asm.RDI]; got != r.Bytes {
		return Errorf(c.Name, unsteady,
			"its call %d of malloc asks for %d bytes now, and asked for %d before", r.Number, got, r.Bytes)
	}
	if r.Align > 0 {
		if err := p.Divert(thread, a.Memalign, uint64(r.Align), r.Bytes); err != nil {
			return err
		}
	}
	return p.Unbreak(a.Malloc)
}

const unsteady = "blocks can be moved only in a program that allocates the same in each run"
