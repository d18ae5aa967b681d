// Package mapping maps the memory that a block accesses, as package mapper describes, in bbprof's child. It
// also runs the instrumented copy, and decides when to map a block again.
//
// [Task.Prepare] does all of this. It retries with other initial states, with a frame for each page,
// and with fewer copies. It returns a [MappedBlock]: the pages, the trace of all accesses, the findings
// of the rules, and the images in the child. [MappedBlock.AsLoop] and [MappedBlock.Again] prepare the
// same block as a loop or with fewer copies.
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

// runner is the part of a child that mapping uses.
type runner interface {
	// Do executes a list and returns at the next stop.
	Do(ops []tracee.Op, limit time.Duration) (tracee.Stop, error)
	// Try is Do for a dry run of an image, see harness.BuildDryRun, after some system calls.
	Try(ops []tracee.Op, entry, end uint64, limit time.Duration) (tracee.Stop, error)
	// Frame returns a frame's memory, shared with the child.
	Frame(i int) []byte
}

// Plan holds the program to run and its limits.
type Plan struct {
	Insts  []asm.Inst
	Init   initial.State
	Frames int // page i is mapped to frame i mod Frames
	Pages  int // limit, else too_many_pages
	// NoPages maps no page: the first access ends the block, as in a harness without mapping.
	NoPages    bool
	Limit      time.Duration // CPU time of one run, else timeout
	Late       func() bool   // reports whether all runs together have taken too long, else timeout; nil: no limit
	Ahead      []tracee.Op   // before the first run
	ResetImage uint64        // image to run first, which restores all state that a block can change; 0: none
	// Captured is the state to start from, if any: each of its pages has its own frame. Window is the child's.
	Captured *initial.Captured
	Window   uint64
}

// shift returns the distance from the address of an image's code to the address at which it runs.
func (p Plan) shift() uint64 { return layout.Shift(p.Window) }

// owns reports whether any of n bytes belongs to bbprof's own region.
func (p Plan) owns(addr, n uint64) bool {
	return layout.Owns(addr, n) || p.Window != 0 && layout.Owns(addr-p.shift(), n)
}

// home returns the address that the block's rip-relative operands assume.
func (p Plan) home() uint64 {
	if p.Captured != nil {
		return p.Captured.Address
	}
	return layout.Home
}

// Mapping is a set of pages with which the block runs to its end.
type Mapping struct {
	Pages []mapper.Page
	Stops int // of the child during mapping
	Full  int // the copy that exceeded the limit of pages, if one did

	end   tracee.Regs // after the last dry run
	unrun int         // iterations that a loop closed by the block's own branch had left when it ended early, 0 if it did not

	Inverted []int // copies at which the condition of the final branch is inverted: see harness.Harness
}

// framesByPage returns the frame of each page by the page's address.
func (m Mapping) framesByPage() map[uint64]int {
	frames := map[uint64]int{}
	for _, p := range m.Pages {
		frames[p.Addr] = p.Frame
	}
	return frames
}

// mapPages finds the pages of an image by dry runs. The error is a *verdict.Rejection if the block cannot be
// mapped, a *Left if it leaves the captured state, a *tracee.DeadError if the child was lost, else an internal failure. Afterwards the
// pages are mapped in the child, and the frames hold what the block left.
func mapPages(c runner, p Plan, im harness.Image) (Mapping, error) {
	m := Mapping{Pages: p.capturedPages()}
	ops := append(tracee.UnmapAll(p.Window), p.Ahead...)
	for _, page := range m.Pages {
		ops = append(ops, tracee.MapFrame(page.Addr, page.Frame))
	}
	for {
		p.refill(c, m.Pages, 0)
		stop, err := c.Try(ops, im.Address+p.shift(), im.End()+p.shift(), p.Limit)
		stop.Regs.RIP -= p.shift()
		m.end = stop.Regs
		m.Stops++
		if err != nil {
			return m, p.timeout(err)
		}
		if stop.Done {
			return m, p.checkFlags(stop)
		}
		if p.Late != nil && p.Late() {
			return m, &verdict.Rejection{Reason: verdict.Timeout, Detail: fmt.Sprintf(
				"its runs until the next page took too long together: %d pages so far", len(m.Pages))}
		}
		if stop.FailedOp >= 0 { // the last operations map the last pages
			m.Pages = m.Pages[:max(0, len(m.Pages)-len(ops)+stop.FailedOp+1)]
			return m, p.failedCall(m, stop)
		}
		if taken, err := m.invert(p, im, stop); err != nil {
			return m, err
		} else if taken {
			ops = nil
			continue
		}
		page, err := p.resolve(stop, im)
		if _, mapped := frameOf(m.Pages, page.Addr); err == nil && mapped {
			return m, fmt.Errorf("the page at %#x is mapped and faults still: signal %d, code %d", page.Addr, stop.Signal, stop.Code)
		}
		if p.Captured != nil {
			return m, p.leaves(stop, im, page, err)
		}
		if err != nil {
			return m, err
		}
		if p.NoPages {
			return m, p.reject(verdict.SIGSEGV, page.Inst, &page.Fault, "nothing is mapped")
		}
		if len(m.Pages) >= p.Pages {
			m.Full = page.Copy
			return m, p.reject(verdict.TooManyPages, page.Inst, &page.Fault, "%d copies touch more than %d pages", im.Copies, p.Pages)
		}
		if m.repeats(p.Insts, page) {
			return m, p.reject(verdict.TooManyPages, page.Inst, &page.Fault, "it repeats over more than %d pages", repeatPages)
		}
		page.Frame = len(m.Pages) % p.Frames
		m.Pages = append(m.Pages, page)
		ops = []tracee.Op{tracee.MapFrame(page.Addr, page.Frame)}
	}
}

// repeatPages limits the pages of one execution of a string instruction: its count may be anything, and each page takes a run through
// all earlier ones.
const repeatPages = 32

// repeats reports whether a page is one more than a string instruction may touch.
func (m Mapping) repeats(insts []asm.Inst, page mapper.Page) bool {
	n := 0
	for _, q := range m.Pages {
		if q.Inst == page.Inst && q.Copy == page.Copy {
			n++
		}
	}
	return n >= repeatPages && slices.ContainsFunc(insts[page.Inst].Mem, func(m asm.Mem) bool { return m.Repeat != asm.Once })
}

// checkFlags checks the CPU state after a block that ran to its end.
func (p Plan) checkFlags(stop tracee.Stop) error {
	const trapFlag = 1 << 8 // TF (SDM vol. 1, 3.4.3.3)
	if stop.Regs.Flags&trapFlag != 0 {
		return &verdict.Rejection{Reason: verdict.SIGTRAP, Detail: "the block sets the trap flag with its last instruction"}
	}
	return nil
}

// RunOnce runs an image on the mapped pages. Any stop is a failure, because the block ran with
// these pages before.
func (p Plan) RunOnce(c runner, im harness.Image) error {
	var ops []tracee.Op
	if p.ResetImage != 0 {
		ops = append(ops, tracee.Run(p.ResetImage, 1))
	}
	stop, err := c.Do(append(ops, tracee.Run(im.Entry+p.shift(), 1)), p.Limit)
	if err != nil {
		return p.timeout(err)
	}
	return Unexpected(stop.Completed("a block that ran before"))
}

// Unexpected explains a stop that should not have happened. A *tracee.StopError becomes a
// rejection if the block, which ran to its end in a dry run, accesses memory of bbprof that only
// a dry run may access. Other errors are returned unchanged.
func Unexpected(err error) error {
	stop, ok := errors.AsType[*tracee.StopError](err)
	if !ok || stop.Signal != tracee.SIGSEGV || stop.Code != tracee.SegvAccErr || !layout.Owns(stop.Addr, 1) {
		return err
	}
	addr := stop.Addr
	return &verdict.Rejection{Reason: verdict.Unmappable, Detail: fmt.Sprintf("%#x is in bbprof's own region", addr), Address: &addr}
}

// remap lists the operations that map known pages again, onto the frames from first on. The list touches the pages: otherwise an image's
// loads would fault, and after a fault, loads fed by stores stay slow for 10 to 20 µs (Redwood Cove).
func (m Mapping) remap(window uint64, first int) []tracee.Op {
	if len(m.Pages) == 0 {
		return nil
	}
	ops := append(make([]tracee.Op, 0, 2*len(m.Pages)+4), tracee.UnmapAll(window)...)
	for _, p := range m.Pages {
		ops = append(ops, tracee.MapFrame(p.Addr, first+p.Frame), tracee.Touch(p.Addr))
	}
	return ops
}

// refill restores the initial contents of every frame in use, from the frame first on: the captured page or the fill word, and the words
// that the state sets.
func (p Plan) refill(c runner, pages []mapper.Page, first int) {
	if p.Captured != nil {
		for i := range p.Captured.Pages {
			copy(c.Frame(first+i), p.Captured.Pages[i].Data[:])
		}
	} else {
		for i := range p.Frames {
			frame := c.Frame(first + i)
			period := 8
			if p.Init.Elements.Width > 0 {
				period = layout.PageSize
			}
			for n := 0; n < period; n += 8 {
				binary.LittleEndian.PutUint64(frame[n:], p.Init.Word(uint64(n)))
			}
			for n := period; n < len(frame); n *= 2 {
				copy(frame[n:], frame[:n])
			}
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

// invert inverts the condition of the block's final branch from the copy on at which a dry run took it; taken is false if the child
// stopped for another reason. Earlier copies behave as before, so each stop is at a later copy.
func (m *Mapping) invert(p Plan, im harness.Image, stop tracee.Stop) (taken bool, err error) {
	copy, taken := im.Taken(stop.Regs.RIP)
	if !taken || stop.Signal != tracee.SIGTRAP {
		return false, nil
	}
	if im.Own {
		m.unrun = int(stop.Regs.GPR[asm.RCX])
		return false, []error{errEarly, errGoesOn}[copy]
	}
	branch, _ := asm.TrailingBranch(p.Insts)
	n := len(m.Inverted)
	if !branch.Invertible() || n > 0 && copy <= m.Inverted[n-1] {
		return false, &verdict.Rejection{Reason: verdict.ControlFlow, Inst: branch.Verdict(len(p.Insts) - 1), Detail: fmt.Sprintf(
			"copy %d takes the branch, and no branch has the opposite condition of %s", copy+1, branch.Mnemonic)}
	}
	im.Invert(copy)
	m.Inverted = append(m.Inverted, copy)
	return true, nil
}
