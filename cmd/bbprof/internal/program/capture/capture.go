// Package capture records the states in which a program visits some of its blocks.
//
// The program runs once, natively under ptrace, with a breakpoint at each block. A reservoir for each block decides
// which visits to keep as they come. A drawn visit is single-stepped while all other threads are stopped: an
// instruction's accesses follow from its operands and the registers, so a page is read before the block changes it.
// Displaced visits are dropped.
package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/verdict"
)

type Block struct {
	Code     []byte
	File     string
	Function string
	Offset   uint64 // address in the file
	Entry    *int   // of a loop: the offset of its header in Code; nil: Code is one block
}

type Visit struct {
	Block         int    // index of the block
	Number        uint64 // from 1
	Of            uint64 // number of visits it was drawn from
	Skipped       uint64 // iterations of a loop, from its start on, that come before the state
	Before, After initial.Captured
	Steps         int // instructions from Before to After
}

type Options struct {
	launch.Control

	Samples int    // visits kept per block
	First   uint64 // draw only from the first so many visits; 0: from all
	Seed    uint64
	Random  bool // let the program's random bytes differ between runs
}

type Report struct {
	Blocks            []Outcome
	End               string // how the program ended; "" for status 0
	Threads, Children int    // started by the program
	Stopped           bool   // killed because ctx ended or the time was up
	Time              time.Duration
}

type Outcome struct {
	Visits uint64 // seen
	Kept   int
	Out    string         // why none can be captured; "" if they can
	Lost   map[string]int // drawn visits that could not be captured, by reason
}

// Run runs a program and yields the kept visits, block after block. If ctx ends, time runs out or something fails, it
// still yields what was captured before.
func Run(ctx context.Context, c launch.Command, blocks []Block, o Options, yield func(Visit) error) (Report, error) {
	began := time.Now()
	k := &session{layout: host.XSaveOffsets(host.AskCPUID), options: o, at: map[uint64]*site{}, entered: map[uint64][]*site{}}
	var end *debuggee.End
	err := c.Control(ctx, launch.Setup{}, o.Control, func(p *debuggee.Process) (err error) {
		k.Process = p
		end, err = k.run(c, blocks)
		return err
	})
	if k.Process == nil { // not started
		return Report{}, err
	}
	r := k.report(end)
	timedOut := errors.Is(err, context.DeadlineExceeded)
	r.Stopped = timedOut || errors.Is(err, context.Canceled)
	if timedOut {
		err = launch.Errorf(c.Name, "raise -timeout, or watch fewer blocks",
			"it did not end in time and was killed; what was captured until then is written")
	}
	for i, w := range k.sites {
		for _, v := range w.inOrder() {
			v.Block, v.Of = i, w.sampler.seen
			if err := yield(*v); err != nil {
				return r, err
			}
		}
	}
	r.Time = time.Since(began)
	return r, err
}

type site struct {
	Block
	Outcome
	insts   []asm.Inst
	exits   []uint64 // of a loop, where control goes when it leaves, in memory
	first   int      // instruction, of a loop its header's
	base    uint64   // of Code in memory
	at      uint64   // of the first instruction
	each    float64  // instructions of a loop's iteration
	endless bool     // a loop whose end did not come in time
	sampler *sampler
	kept    []*Visit // nil where none could be captured
}

func (w *site) after(in *asm.Inst) uint64 { return w.base + uint64(in.Offset+len(in.Bytes)) }

func (w *site) inOrder() []*Visit {
	list := slices.DeleteFunc(slices.Clone(w.kept), func(v *Visit) bool { return v == nil })
	slices.SortFunc(list, func(a, b *Visit) int { return cmp.Compare(a.Number, b.Number) })
	return list
}

type session struct {
	*debuggee.Process
	layout  xsaveLayout
	options Options
	sites   []*site
	at      map[uint64]*site   // with a breakpoint, by address
	entered map[uint64][]*site // loops that control is in, by the exits that have a breakpoint
}

func (k *session) run(c launch.Command, blocks []Block) (*debuggee.End, error) {
	for _, b := range blocks {
		k.sites = append(k.sites, &site{Block: b, sampler: newSampler(k.options.Samples, k.options.Seed, b.Offset), Outcome: Outcome{Lost: map[string]int{}}})
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
	for _, w := range k.sites {
		if err := k.watch(w, objects); err != nil {
			return nil, err
		}
	}
	for {
		stop, err := k.Run()
		if err != nil || stop.End != nil {
			return stop.End, err
		}
		left, err := k.leave(stop.Regs.RIP)
		if err != nil {
			return nil, err
		}
		w := k.at[stop.Regs.RIP]
		switch {
		case w == nil && left:
			continue
		case w == nil:
			return nil, fmt.Errorf("the program stopped at %#x, where no breakpoint is", stop.Regs.RIP)
		}
		if err := k.visited(w, stop.Thread); err != nil {
			return nil, err
		}
	}
}

func (k *session) watch(w *site, objects map[string]uint64) error {
	insts, exits, err := w.decode()
	if r := (*verdict.Rejection)(nil); errors.As(err, &r) {
		w.Out = fmt.Sprintf("%s: %s", r.Reason, r.Detail)
		return nil
	}
	if err != nil {
		w.Out = err.Error()
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
	w.insts, w.base = insts, w.Offset+bias
	w.at, w.each = w.base+uint64(w.insts[w.first].Offset), float64(len(insts))
	for _, exit := range exits {
		w.exits = append(w.exits, w.base+uint64(exit))
	}
	code := make([]byte, len(w.Code))
	switch {
	case !ok:
		w.Out = "its file is not loaded when the program's own code begins"
	case k.Code(w.base, code) < len(code) || string(code) != string(w.Code):
		w.Out = "other bytes are at its address in the program"
	case k.at[w.at] != nil:
		w.Out = "it is listed twice"
	default:
		k.at[w.at] = w
		return k.Break(w.at)
	}
	return nil
}

// decode returns the instructions of a block or loop that may run, and the offsets at which control leaves a loop.
func (w *site) decode() (insts []asm.Inst, exits []int64, err error) {
	if w.Entry != nil {
		r, err := asm.RegionOf(w.Code, *w.Entry)
		w.first = max(slices.IndexFunc(r.Insts, func(in asm.Inst) bool { return in.Offset == *w.Entry }), 0)
		return r.Insts, r.Leads(), err
	}
	insts, err = asm.Decode(w.Code)
	if r := asm.Refuse(asm.WithoutBranch(insts)); err == nil && r != nil {
		err = r
	}
	return insts, nil, err
}

// enter lets control run through a loop: its next visit begins after it has left.
func (k *session) enter(w *site) error {
	if k.at[w.at] != w { // its last visit
		return nil
	}
	delete(k.at, w.at)
	err := k.Unbreak(w.at)
	for _, exit := range w.exits {
		k.entered[exit] = append(k.entered[exit], w)
		err = errors.Join(err, k.Break(exit))
	}
	return err
}

// leave ends the visits of all loops that control leaves at an address.
func (k *session) leave(addr uint64) (left bool, err error) {
	for _, w := range slices.Clone(k.entered[addr]) {
		for _, exit := range w.exits {
			k.entered[exit] = slices.DeleteFunc(k.entered[exit], func(other *site) bool { return other == w })
			if len(k.entered[exit]) == 0 && k.at[exit] == nil {
				err = errors.Join(err, k.Unbreak(exit))
			}
		}
		k.at[w.at], left = w, true
		err = errors.Join(err, k.Break(w.at))
	}
	return left, err
}

func (k *session) visited(w *site, thread int) error {
	slot, drawn := w.sampler.visit()
	last := w.sampler.seen == k.options.First
	if last {
		delete(k.at, w.at)
		if err := k.Unbreak(w.at); err != nil {
			return err
		}
	}
	switch {
	case !drawn && last:
		return nil
	case !drawn && w.Entry != nil:
		return k.enter(w)
	case !drawn:
		return k.pass(w, thread)
	}
	v, inside, why, err := k.take(w, thread)
	if err != nil {
		return err
	}
	if v == nil {
		w.Lost[why]++
	} else {
		v.Number = w.sampler.seen
		for len(w.kept) <= slot {
			w.kept = append(w.kept, nil)
		}
		w.kept[slot] = v
	}
	if inside {
		return k.enter(w)
	}
	return nil
}

// pass executes the instruction at a breakpoint, with all iterations of a string instruction.
func (k *session) pass(w *site, thread int) error {
	_, err := w.execute(k.Process, &w.insts[w.first], thread)
	return err
}

// execute executes one instruction of a block. It runs a string instruction to its end: a single step would be one
// iteration.
func (w *site) execute(p *debuggee.Process, in *asm.Inst, thread int) (debuggee.Step, error) {
	if slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Repeat != asm.Once }) {
		return p.RunTo(thread, w.after(in))
	}
	return p.Step(thread)
}

func (k *session) report(end *debuggee.End) (r Report) {
	if end != nil && (end.Exec || end.Signal != 0 || end.Status != 0) {
		r.End = end.String()
	}
	r.Threads, r.Children = k.Born()
	for _, w := range k.sites {
		w.Visits, w.Kept = w.sampler.seen, len(w.inOrder())
		r.Blocks = append(r.Blocks, w.Outcome)
	}
	return r
}
