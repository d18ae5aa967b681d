// Package capture takes the states in which a program visits some of its blocks.
//
// The program runs natively under ptrace with a breakpoint at each block. Which visits are taken is
// decided by a reservoir for each block, as they come: the program runs once. A visit that is drawn is
// followed an instruction at a time, while all other threads stand still: what each instruction is about
// to access follows from its operands and the registers, so a page is read before the block changes it.
// What was drawn first and then displaced is forgotten; pages with equal contents are kept once.
package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
)

// Block is a block of a program, or of a library that it loads.
type Block struct {
	Code     []byte
	File     string
	Function string
	Offset   uint64 // an address by the file
}

// Visit is one visit of a block.
type Visit struct {
	Block         int    // which of those given
	Number        uint64 // of the visit, from 1
	Of            uint64 // among so many it was drawn
	Before, After initial.Captured
}

type Options struct {
	Samples int    // visits of each block
	First   uint64 // to be drawn from the first of its visits; 0: from all
	Seed    uint64
	CPUs    []int // to run on: the first; default the last that is allowed
	Streams program.Streams
	Timeout time.Duration
	Random  bool // the program gets other random bytes in every run
}

// Report says what became of each block, and of the program.
type Report struct {
	Blocks            []Outcome
	End               string // how the program ended, "" if with status 0
	Threads, Children int    // that it started
	Stopped           bool   // it was killed because ctx ended or the time was up
	Taken             int    // visits that were followed to their end
	Time              time.Duration
}

// Outcome is that of one block.
type Outcome struct {
	Visits uint64 // that were seen
	Kept   int
	Out    string         // why none can be taken, "" if they can
	Lost   map[string]int // visits that were drawn and could not be taken, by the reason
}

// Run runs a program and yields the visits that are kept, block after block. What was captured until ctx
// ended, or the time was up, or something failed, is yielded too before the error is returned.
func Run(ctx context.Context, c program.Command, s program.Setup, blocks []Block, o Options, yield func(Visit) error) (Report, error) {
	began := time.Now()
	k := &capturing{layout: xsaveLayoutOf(host.AskCPUID), options: o, at: map[uint64]*watched{}, pool: pool{}}
	var end *debuggee.End
	err := c.Control(ctx, program.Control{CPUs: o.CPUs, Timeout: o.Timeout, Setup: s, Streams: o.Streams}, func(p *debuggee.Process) (err error) {
		k.Process = p
		end, err = k.run(c, blocks)
		return err
	})
	if k.Process == nil { // it was not started
		return Report{}, err
	}
	r := k.report(end)
	timedOut := errors.Is(err, context.DeadlineExceeded)
	r.Stopped = timedOut || errors.Is(err, context.Canceled)
	if timedOut {
		err = &program.Error{Subject: c.Name, Problem: "it did not end in time and was killed; what was captured until then is written", Remedy: "raise -timeout, or watch fewer blocks"}
	}
	for i, w := range k.watched {
		for _, v := range w.inOrder() {
			one := Visit{Block: i, Number: v.number, Of: w.sampler.seen, Before: v.before.captured(), After: v.after.captured()}
			if err := yield(one); err != nil {
				return r, err
			}
		}
	}
	r.Time = time.Since(began)
	return r, err
}

// watched is a block in the program.
type watched struct {
	Block
	insts   []asm.Inst
	at      uint64 // its address in memory
	sampler *sampler
	kept    []*visit // nil where none could be taken
	out     string
	lost    map[string]int
}

// after is the address of what follows an instruction.
func (w *watched) after(in *asm.Inst) uint64 { return w.at + uint64(in.Offset+len(in.Bytes)) }

func (w *watched) inOrder() []*visit {
	list := slices.DeleteFunc(slices.Clone(w.kept), func(v *visit) bool { return v == nil })
	slices.SortFunc(list, func(a, b *visit) int { return cmp.Compare(a.number, b.number) })
	return list
}

type capturing struct {
	*debuggee.Process
	layout  xsaveLayout
	options Options
	watched []*watched
	at      map[uint64]*watched // those that have a breakpoint, by address
	pool    pool
	taken   int
}

func (k *capturing) run(c program.Command, blocks []Block) (*debuggee.End, error) {
	for _, b := range blocks {
		k.watched = append(k.watched, &watched{Block: b, sampler: newSampler(k.options.Samples, k.options.Seed, b.Offset), lost: map[string]int{}})
	}
	if !k.options.Random {
		if err := k.FixRandom(); err != nil {
			return nil, err
		}
	}
	objects, err := c.Objects(k.Process)
	if err != nil {
		return nil, err
	}
	for _, w := range k.watched {
		if err := k.watch(w, objects); err != nil {
			return nil, err
		}
	}
	for {
		stop, err := k.Run()
		if err != nil || stop.End != nil {
			return stop.End, err
		}
		w := k.at[stop.Regs.RIP]
		if w == nil {
			return nil, fmt.Errorf("the program stopped at %#x, where no breakpoint is", stop.Regs.RIP)
		}
		if err := k.visited(w, stop.Thread); err != nil {
			return nil, err
		}
	}
}

// watch puts a breakpoint at a block, or says why it cannot be.
func (k *capturing) watch(w *watched, objects map[string]uint64) error {
	insts, err := asm.Decode(w.Code)
	if err != nil {
		w.out = err.Error()
		return nil
	}
	if r := asm.Refuse(insts); r != nil {
		w.out = fmt.Sprintf("%s: %s", r.Reason, r.Detail)
		return nil
	}
	path, err := filepath.Abs(w.File)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	bias, ok := objects[path]
	w.insts, w.at = insts, w.Offset+bias
	code := make([]byte, len(w.Code))
	switch {
	case !ok:
		w.out = "its file is not loaded when the program's own code begins"
	case k.Code(w.at, code) < len(code) || string(code) != string(w.Code):
		w.out = "other bytes are at its address in the program"
	case k.at[w.at] != nil:
		w.out = "it is listed twice"
	default:
		k.at[w.at] = w
		return k.Break(w.at)
	}
	return nil
}

// visited is called when a thread stands at a block.
func (k *capturing) visited(w *watched, thread int) error {
	slot, drawn := w.sampler.visit()
	last := w.sampler.seen == k.options.First
	if last {
		delete(k.at, w.at)
		if err := k.Unbreak(w.at); err != nil {
			return err
		}
	}
	if !drawn {
		if last {
			return nil
		}
		return k.pass(w, thread)
	}
	v, why, err := k.follow(w, thread)
	if err != nil {
		return err
	}
	if v == nil {
		w.lost[why]++
		return nil
	}
	k.taken++
	v.number = w.sampler.seen
	for len(w.kept) <= slot {
		w.kept = append(w.kept, nil)
	}
	if old := w.kept[slot]; old != nil {
		k.pool.drop(old)
	}
	w.kept[slot] = v
	return nil
}

// pass has a thread execute the instruction at a breakpoint, with all rounds of a string instruction.
func (k *capturing) pass(w *watched, thread int) error {
	_, err := k.execute(w, &w.insts[0], thread)
	return err
}

// execute has a thread execute an instruction of a block: a step, but for a string instruction, each round
// of which would be one.
func (k *capturing) execute(w *watched, in *asm.Inst, thread int) (debuggee.Step, error) {
	if slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Repeat != asm.Once }) {
		return k.RunTo(thread, w.after(in))
	}
	return k.Step(thread)
}

func (k *capturing) report(end *debuggee.End) (r Report) {
	if end != nil && (end.Exec || end.Signal != 0 || end.Status != 0) {
		r.End = end.String()
	}
	r.Taken = k.taken
	r.Threads, r.Children = k.Born()
	for _, w := range k.watched {
		kept := len(w.inOrder())
		r.Blocks = append(r.Blocks, Outcome{Visits: w.sampler.seen, Kept: kept, Out: w.out, Lost: maps.Clone(w.lost)})
	}
	return r
}
