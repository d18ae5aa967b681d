// Package trace reads every memory access of a stretch of a program off its registers, by single
// steps: from the first instruction of a function on, as many instructions as a window has. The program
// runs natively and without address randomisation, so all addresses are those of the runs that are
// timed in the same set-up, which an emulator's are not. What the addresses alone say of the stretch
// is counted exactly by the rules that blocks are judged by.
package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/invariants"
)

// Window is a stretch of a program.
type Window struct {
	Function     string
	Instructions int             // from the function's first on, with all that it calls
	Core         invariants.Core // as many stores back as its store buffer holds, a load is held against
	CPUs         []int           // to run on: the first; default the last that is allowed
	Stdin        string
	Timeout      time.Duration // of one run, default 1 minute
	Stepped      func(int)     // is told now and then how many instructions have been traced; nil is nobody
	Blocks       bool          // follow malloc up to the window, so that accesses are known by their blocks
}

// Counts are what the addresses of a window say.
type Counts struct {
	invariants.Prediction     // totals of the window, not means of an iteration
	Instructions          int // fewer than the window has if the program ended before
	Lines, Pages          int // distinct ones
	Vectors               int // accesses left out, whose addresses are in vector registers
	Aliases               []Alias
}

// Alias is an instruction that loads and one whose store its load met in the low 12 bits alone.
type Alias struct {
	Load, Store Access
	Times       int // in the window
}

// Access is an instruction with the first address that it accessed.
type Access struct {
	Place string // function and offset
	Text  string
	Addr  uint64
	What  string // that stands there
	// Block is the call of malloc, from the program's entry on, that gave the memory, if Window.Blocks asks for it
	// and one did.
	Block program.Request
}

// Count runs a program in a set-up up to the end of the window, where it is ended.
func Count(ctx context.Context, c program.Command, s program.Setup, w Window) (counts Counts, err error) {
	f, err := c.Exe.Function(w.Function)
	if err != nil {
		return Counts{}, err
	}
	control := program.Control{CPUs: w.CPUs, Timeout: cmp.Or(w.Timeout, time.Minute), Setup: s, Streams: program.Streams{Stdin: w.Stdin}}
	err = c.Control(ctx, control, func(p *debuggee.Process) error {
		t := tracer{Process: p, command: c, setup: s, w: w, insts: map[uint64]*asm.Inst{}}
		err := t.run(f)
		if err == nil {
			counts, err = t.counts()
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = &program.Error{Subject: c.Name, Problem: fmt.Sprintf("it did not come to the end of the window of %s in time and was killed", w.Function), Remedy: "raise -timeout, or make the window smaller"}
	}
	return counts, err
}

type tracer struct {
	*debuggee.Process
	command program.Command
	setup   program.Setup
	w       Window
	insts   map[uint64]*asm.Inst // by address; nil is one that cannot be decoded
	rips    []uint64             // of the instructions that accessed memory, in the order of their first access
	index   map[uint64]int       // in rips
	all     []asm.Access         // Inst is an index of rips
	steps   int
	vectors int
	blocks  []block
}

// block is memory that malloc gave.
type block struct {
	request program.Request
	at      uint64
}

func (t *tracer) run(f program.Function) error {
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
		return &program.Error{Subject: t.command.Name, Problem: fmt.Sprintf("it never called %s: %v", t.w.Function, stop.End), Remedy: "is the function inlined where it is used, or not reached with these arguments?"}
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

// follow runs to the window, and notes on the way what malloc gives.
func (t *tracer) follow(window uint64) (debuggee.Stop, error) {
	a, err := t.command.Allocator(t.Process)
	if bad := (*program.Error)(nil); errors.As(err, &bad) && t.setup.Request.Number == 0 {
		return t.Run() // it has no malloc
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
		if len(t.blocks) == program.MaxRequest {
			return t.Run()
		}
	}
}

// request runs a thread that stands at the start of malloc until it returns, with no breakpoint there meanwhile.
func (t *tracer) request(a program.Allocator, thread int) error {
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
	b := block{request: program.Request{Number: len(t.blocks) + 1, Bytes: regs.GPR[asm.RDI]}}
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
		if step.Gone {
			break
		}
		if step.Executed {
			b.at = step.Regs.GPR[asm.RAX]
			break
		}
	}
	t.blocks = append(t.blocks, b)
	return nil
}

// blockOf is the last block that an address was in.
func (t *tracer) blockOf(addr uint64) program.Request {
	for _, b := range slices.Backward(t.blocks) {
		if b.at <= addr && addr < b.at+b.request.Bytes {
			return b.request
		}
	}
	return program.Request{}
}

// access notes what an instruction accessed that had these registers before it.
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
			t.vectors++
			continue
		}
		if m.String && m.Repeat != asm.Once && regs.GPR[counter] == 0 {
			continue // no round at all
		}
		t.all = append(t.all, asm.Access{Inst: n, Mem: k, Addr: m.Addr(&regs), Width: m.Width, Elem: m.Width, Read: m.Read, Write: m.Write})
	}
}

// decode reads the instruction at an address: the shortest run of bytes that is one.
func (t *tracer) decode(at uint64) *asm.Inst {
	var code [15]byte // the longest (Intel SDM vol. 2, 2.3.11)
	n := t.Code(at, code[:])
	for size := 1; size <= n; size++ {
		if insts, err := asm.Decode(code[:size]); err == nil && len(insts) == 1 {
			return &insts[0]
		}
	}
	return nil
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
	c := Counts{Prediction: invariants.Predict(tr, t.w.Core), Instructions: t.steps, Lines: len(lines), Pages: len(frames), Vectors: t.vectors}
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
