// Package mapping gives a block the memory that it asks for, as package mapper describes, in bbprof's child. It
// also runs the instrumented copy, and it decides when a block is mapped again.
//
// [Task.Prepare] does all of this, with its retries: with other initial states, with a frame for
// each page, with fewer copies. It returns a [Mapped]: the pages, the trace of all accesses, what
// the rules say of it, and the images at their places in the child. [Mapped.AsLoop] and
// [Mapped.Again] prepare the same block as a loop or with fewer copies.
package mapping

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// runner is what mapping needs of a child.
type runner interface {
	// Do works through a list and returns at the next stop.
	Do(ops []tracee.Op, limit time.Duration) (tracee.Stop, error)
	// Try is Do for a dry run of an image, see harness.BuildDryRun, with system calls ahead of it.
	Try(ops []tracee.Op, entry, end uint64, limit time.Duration) (tracee.Stop, error)
	// Frame is a frame's memory, shared with the child.
	Frame(i int) []byte
}

// Plan is what to run and under which limits.
type Plan struct {
	Insts  []asm.Inst
	Init   initial.State
	Frames int // page i is put on frame i mod Frames
	Pages  int // at most so many, else too_many_pages
	// NoPages maps none: the first access is the block's end, as it is in a harness without mapping.
	NoPages bool
	Predict int           // of so many copies the pages are predicted; 0: of none
	Limit   time.Duration // of CPU time for one run, else timeout
	Late    func() bool   // whether all of them together have taken too long, else timeout; nil is for ever
	Ahead   []tracee.Op   // of the first run
	Fresh   uint64        // image to run first, which puts back all state that a block can change; 0: no image
	// Replay is the captured state to start from, if it is one; Window is the child's.
	Replay *Replay
	Window uint64
}

// shift is how far after where they are laid out images run.
func (p Plan) shift() uint64 { return layout.Shift(p.Window) }

// owns reports whether any of n bytes is in bbprof's own region.
func (p Plan) owns(addr, n uint64) bool {
	return layout.Owns(addr, n) || p.Window != 0 && layout.Owns(addr-p.shift(), n)
}

// home is where the block believes that it stands.
func (p Plan) home() uint64 {
	if p.Replay != nil {
		return p.Replay.Captured.Address
	}
	return layout.Home
}

// try has the child do a dry run of an image.
func (p Plan) try(c runner, ops []tracee.Op, im harness.Image) (tracee.Stop, error) {
	stop, err := c.Try(ops, im.At+p.shift(), im.End()+p.shift(), p.Limit)
	stop.Regs.RIP -= p.shift()
	return stop, err
}

// Mapping is a set of pages with which the block runs to its end.
type Mapping struct {
	Pages []mapper.Page
	Stops int // of the child, while mapping
	Full  int // the copy that asked for one page more than there may be, if one did

	Window uint64 // of the child

	Inverted []int // copies from each of which on the branch at the block's end has the opposite condition: see harness.Harness
}

// mapPages finds the pages of an image by dry runs. The error is a *verdict.Rejection if the block cannot be
// mapped, a *tracee.DeadError if the child was lost, else an internal failure. The child is
// left with the pages mapped and the frames as the block left them.
func mapPages(c runner, p Plan, im harness.Image) (Mapping, error) {
	if p.Replay != nil {
		m, _, err := p.replay(c, im)
		return m, err
	}
	m := Mapping{Window: p.Window, Pages: p.predict()}
	ops := append(tracee.UnmapAll(p.Window), p.Ahead...)
	for _, page := range m.Pages {
		ops = append(ops, tracee.MapFrame(page.Addr, page.Frame))
	}
	for {
		p.Refill(c, m.Pages...)
		stop, err := p.try(c, ops, im)
		m.Stops++
		if err != nil {
			return m, p.timeout(err)
		}
		if stop.Done {
			return m, p.ended(stop)
		}
		if p.Late != nil && p.Late() {
			return m, &verdict.Rejection{Reason: verdict.Timeout, Detail: fmt.Sprintf(
				"its runs until the next page took too long together: %d pages so far", len(m.Pages))}
		}
		if stop.FailedOp >= 0 {
			return m, p.refused(m, stop)
		}
		if taken, err := m.invert(p, im, stop); err != nil {
			return m, err
		} else if taken {
			ops = nil
			continue
		}
		page, err := p.resolve(stop, im)
		if err != nil {
			return m, err
		}
		if p.NoPages {
			return m, p.reject(verdict.SIGSEGV, page.Inst, &page.Fault, "nothing is mapped")
		}
		if slices.ContainsFunc(m.Pages, func(q mapper.Page) bool { return q.Addr == page.Addr }) {
			return m, fmt.Errorf("the page at %#x is mapped and faults still: signal %d, code %d", page.Addr, stop.Signal, stop.Code)
		}
		if len(m.Pages) >= p.Pages || p.willExceed(c, m, &p.Insts[page.Inst], stop.Regs) {
			m.Full = page.Copy
			return m, p.reject(verdict.TooManyPages, page.Inst, &page.Fault, "%d copies touch more than %d pages", im.Copies, p.Pages)
		}
		page.Frame = len(m.Pages) % p.Frames
		m.Pages = append(m.Pages, page)
		ops = []tracee.Op{tracee.MapFrame(page.Addr, page.Frame)}
	}
}

// ended checks how a block that has run to its end leaves the CPU.
func (p Plan) ended(stop tracee.Stop) error {
	const trapFlag = 1 << 8 // TF (SDM vol. 1, 3.4.3.3)
	if stop.Regs.Flags&trapFlag != 0 {
		return &verdict.Rejection{Reason: verdict.SIGTRAP, Detail: "the block sets the trap flag with its last instruction"}
	}
	return nil
}

func (p Plan) fresh() []tracee.Op {
	if p.Fresh == 0 {
		return nil
	}
	return []tracee.Op{tracee.Run(p.Fresh, 1)}
}

// RunOnce runs an image with the pages that are mapped. Any stop is a failure: the block ran
// with these pages before.
func (p Plan) RunOnce(c runner, im harness.Image) error {
	stop, err := c.Do(append(p.fresh(), tracee.Run(im.At+p.shift(), 1)), p.Limit)
	if err != nil {
		return p.timeout(err)
	}
	return Unexpected(stop.Completed("a block that ran before"))
}

// Unexpected judges a stop that should not have happened: a *tracee.StopError
// becomes a rejection if the block, which ran to its end in a dry run, now reaches for what was open
// to that and is closed since. Other errors are returned unchanged.
func Unexpected(err error) error {
	stop, ok := errors.AsType[*tracee.StopError](err)
	if !ok || stop.Signal != tracee.SIGSEGV || stop.Code != tracee.SegvAccErr || !layout.Owns(stop.Addr, 1) {
		return err
	}
	addr := stop.Addr
	return &verdict.Rejection{Reason: verdict.Unmappable, Detail: fmt.Sprintf("%#x is in bbprof's own region", addr), Address: &addr}
}

// Remap maps known pages again; the list goes before the runs that need them.
func (m Mapping) Remap() []tracee.Op { return m.remap(0) }

// remap is Remap with the frames from first on. The list touches the pages: if an image touched them first, its loads would fault, and
// after a fault, loads that are fed by stores stay slow for 10 to 20 µs (Redwood Cove).
func (m Mapping) remap(first int) []tracee.Op {
	if len(m.Pages) == 0 {
		return nil
	}
	ops := append(make([]tracee.Op, 0, 2*len(m.Pages)+4), tracee.UnmapAll(m.Window)...)
	for _, p := range m.Pages {
		ops = append(ops, tracee.MapFrame(p.Addr, first+p.Frame), tracee.Touch(p.Addr))
	}
	return ops
}

// Refill puts every frame in use back to what it holds first: what was captured of its page, or else the fill word and what
// words of the pages are set to.
func (p Plan) Refill(c runner, pages ...mapper.Page) {
	p.refill(c, pages, 0)
}

// refill is Refill for as many frames, from first on.
func (p Plan) refill(c runner, pages []mapper.Page, first int) {
	if p.Replay != nil {
		for i := range p.Replay.Captured.Pages {
			copy(c.Frame(first+i), p.Replay.Captured.Pages[i].Data[:])
		}
		return
	}
	for i := range p.Frames {
		frame := c.Frame(first + i)
		binary.LittleEndian.PutUint64(frame, p.Init.Fill)
		for n := 8; n < len(frame); n *= 2 {
			copy(frame[n:], frame[:n])
		}
	}
	for at, value := range p.words(pages) {
		binary.LittleEndian.PutUint64(c.Frame(first + at.frame)[at.offset:], value)
	}
}

func (p Plan) timeout(err error) error {
	if dead, ok := err.(*tracee.DeadError); ok && dead.Overtime {
		return &verdict.Rejection{Reason: verdict.Timeout, Detail: fmt.Sprintf("one run did not end within %v of CPU time", dead.Limit)}
	}
	return err
}
