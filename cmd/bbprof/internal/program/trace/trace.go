// Package trace derives every memory access in a window of a program from its registers by single-stepping, from a
// function's first instruction on. The program runs natively without address randomisation, so all addresses, unlike an
// emulator's, are those of timed runs in the same set-up. What they imply is counted exactly, by the rules for blocks.
package trace

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/invariants"
)

type Window struct {
	launch.Control

	Function     string
	Instructions int             // from the function's first, including callees
	Core         invariants.Core // each load is compared with as many stores as its store buffer holds
	Stepped      func(int)       // receives the number of instructions traced now and then; may be nil
	Blocks       bool            // follow malloc up to the window, to name the blocks accessed
}

// Counts holds what the addresses of a window imply.
type Counts struct {
	invariants.Prediction     // totals of the window, not means per iteration
	Instructions          int // fewer than in the window if the program ended before
	Lines, Pages          int // distinct
	Aliases               []Alias
}

type Alias struct {
	Load, Store Access
	Times       int // in the window
}

// Access is an instruction with the first address that it accessed.
type Access struct {
	Place string // function and offset
	Text  string
	Addr  uint64
	What  string // what is there
	// Block is the malloc call since the program's entry that returned the memory, if there is one and Window.Blocks is
	// set.
	Block launch.Request
}

// Count runs a program in a set-up to the end of the window, and ends it there.
func Count(ctx context.Context, c launch.Command, s launch.Setup, w Window) (counts Counts, err error) {
	f, err := c.Exe.Function(w.Function)
	if err != nil {
		return Counts{}, err
	}
	err = c.Control(ctx, s, w.Control, func(p *debuggee.Process) error {
		t := tracer{Process: p, command: c, setup: s, w: w, insts: map[uint64]*asm.Inst{}}
		err := t.run(f)
		if err == nil {
			counts, err = t.counts()
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = launch.Errorf(c.Name, "raise -timeout, or make the window smaller",
			"it did not reach the end of the window of %s in time and was killed", w.Function)
	}
	return counts, err
}

type tracer struct {
	*debuggee.Process
	command launch.Command
	setup   launch.Setup
	w       Window
	insts   map[uint64]*asm.Inst // by address; nil if it cannot be decoded
	rips    []uint64             // of the instructions that accessed memory, by first access
	index   map[uint64]int       // in rips
	all     []asm.Access         // Inst is an index into rips
	steps   int
	blocks  []block
}

type block struct {
	request launch.Request
	at      uint64
}

func (t *tracer) run(f launch.Function) error {
	follow := t.w.Blocks || t.setup.Request.Number > 0
	if follow {
		if err := t.command.ToEntry(t.Process); err != nil {
			return err
		}
	}
	entry, err := t.command.Locate(t.Process, f)
	if err != nil {
		return err
	}
	if err := t.Break(entry); err != nil {
		return err
	}
	var stop debuggee.Stop
	if follow {
		stop, err = t.follow(entry)
	} else {
		stop, err = t.Run()
	}
	if err != nil {
		return err
	}
	if stop.End != nil {
		return launch.Errorf(t.command.Name, "is the function inlined where it is used, or not reached with these arguments?",
			"it never called %s: %v", t.w.Function, stop.End)
	}
	if err := t.Unbreak(entry); err != nil {
		return err
	}
	t.index = map[uint64]int{}
	for t.steps < t.w.Instructions {
		regs, err := t.Regs(stop.Thread)
		if err != nil {
			return err
		}
		step, err := t.Step(stop.Thread)
		if err != nil {
			return err
		}
		if step.Gone || step.Elsewhere != 0 {
			return nil
		}
		if step.Executed {
			t.access(regs)
			if !step.Again {
				if t.steps++; t.steps%debuggee.StepsShown == 0 && t.w.Stepped != nil {
					t.w.Stepped(t.steps)
				}
			}
		}
	}
	return nil
}

// follow runs to the window and records what malloc returns on the way.
func (t *tracer) follow(window uint64) (debuggee.Stop, error) {
	a, err := t.command.Allocator(t.Process)
	if bad := (*launch.Error)(nil); errors.As(err, &bad) && t.setup.Request.Number == 0 {
		return t.Run() // no malloc
	}
	if err != nil {
		return debuggee.Stop{}, err
	}
	for {
		if err := t.Break(a.Malloc); err != nil {
			return debuggee.Stop{}, err
		}
		stop, err := t.Run()
		if err != nil || stop.End != nil || stop.Regs.RIP == window {
			return stop, cmp.Or(err, t.Unbreak(a.Malloc))
		}
		if err := t.request(a, stop.Thread); err != nil {
			return debuggee.Stop{}, err
		}
		if len(t.blocks) == launch.MaxRequest {
			return t.Run()
		}
	}
}

// request runs a thread from the start of malloc until it returns, without a breakpoint there.
func (t *tracer) request(a launch.Allocator, thread int) error {
	regs, err := t.Regs(thread)
	if err != nil {
		return err
	}
	back, err := t.Word(regs.GPR[asm.RSP])
	if err != nil {
		return err
	}
	if err := t.Unbreak(a.Malloc); err != nil {
		return err
	}
	b := block{request: launch.Request{Number: len(t.blocks) + 1, Bytes: regs.GPR[asm.RDI]}}
	if r := t.setup.Request; r.Number == b.request.Number && r.Align > 0 {
		if err := t.Divert(thread, a.Memalign, uint64(r.Align), b.request.Bytes); err != nil {
			return err
		}
	}
	for {
		step, err := t.RunTo(thread, back)
		if err != nil {
			return err
		}
		if step.Executed || step.Gone {
			b.at = step.Regs.GPR[asm.RAX] // 0 if it is gone
			break
		}
	}
	t.blocks = append(t.blocks, b)
	return nil
}

// blockOf returns the last block that contained an address.
func (t *tracer) blockOf(addr uint64) launch.Request {
	for _, b := range slices.Backward(t.blocks) {
		if b.at <= addr && addr < b.at+b.request.Bytes {
			return b.request
		}
	}
	return launch.Request{}
}

func (t *tracer) access(regs asm.Regs) {
	at := regs.RIP
	in, ok := t.insts[at]
	if !ok {
		in = t.decode(at)
		t.insts[at] = in
	}
	if in == nil || len(in.Mem) == 0 {
		return
	}
	n, ok := t.index[at]
	if !ok {
		n = len(t.rips)
		t.rips, t.index[at] = append(t.rips, at), n
	}
	regs.RIP += uint64(len(in.Bytes))
	const counter = 1 // rcx, by hardware number
	for k, m := range in.Mem {
		if _, vector := m.Index.Vector(); vector {
			continue // of unknown address
		}
		if m.String && m.Repeat != asm.Once && regs.GPR[counter] == 0 {
			continue // no iteration
		}
		t.all = append(t.all, asm.Access{Inst: n, Mem: k, Addr: m.Addr(&regs), Width: m.Width, Elem: m.Width, Read: m.Read, Write: m.Write})
	}
}

func (t *tracer) decode(at uint64) *asm.Inst {
	var code [15]byte // the longest (Intel SDM vol. 2, 2.3.11)
	step, err := asm.StepOver(code[:t.Code(at, code[:])])
	if err != nil {
		return nil
	}
	insts, err := asm.Decode(code[:step.Length])
	if err != nil {
		return nil
	}
	return &insts[0]
}

const (
	line = 64
	page = 4096
)

func (t *tracer) counts() (Counts, error) {
	frames, lines := map[uint64]int{}, map[uint64]bool{}
	for _, a := range t.all {
		for addr := a.Addr &^ (line - 1); addr < a.Addr+uint64(a.Width); addr += line {
			lines[addr] = true
			if p := addr &^ (page - 1); frames[p] == 0 {
				frames[p] = len(frames) + 1
			}
		}
	}
	tr := invariants.Trace{Accesses: t.all, Copies: 1, Frame: frames}
	c := Counts{Prediction: invariants.Predict(tr, t.w.Core), Instructions: t.steps, Lines: len(lines), Pages: len(frames)}
	c.Forwards = nil
	symbols, err := t.command.Symbols(t.Process)
	if err != nil {
		return Counts{}, err
	}
	describe := func(a asm.Access) Access {
		at := t.rips[a.Inst]
		return Access{Place: symbols.Name(at), Text: t.insts[at].Text(), Addr: a.Addr, What: symbols.Name(a.Addr), Block: t.blockOf(a.Addr)}
	}
	pairs := map[[2]int]int{}
	invariants.Aliasing(tr, t.w.Core, func(load, store asm.Access) {
		key := [2]int{load.Inst, store.Inst}
		i, ok := pairs[key]
		if !ok {
			i = len(c.Aliases)
			pairs[key] = i
			c.Aliases = append(c.Aliases, Alias{Load: describe(load), Store: describe(store)})
		}
		c.Aliases[i].Times++
	})
	slices.SortStableFunc(c.Aliases, func(a, b Alias) int { return cmp.Compare(b.Times, a.Times) })
	return c, nil
}
