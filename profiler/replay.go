package profiler

import (
	"context"
	"slices"
	"sync"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// CapturedReport identifies the captured state of a block and how long its copies stay within it.
type CapturedReport struct {
	Visit   string  `json:"visit,omitempty"`
	Address Address `json:"address"` // of the block in its program
	Pages   int     `json:"pages"`   // captured
	// Within is the number of copies in a row that stay within the state; 0: as many as bbprof would run.
	Within int `json:"copies_within,omitempty"`
	// Leaves explains how the next copy leaves it.
	Leaves *verdict.Rejection `json:"leaves,omitempty"`
}

// Address is hexadecimal text in JSON.
type Address uint64

// MarshalText implements encoding.TextMarshaler.
func (a Address) MarshalText() ([]byte, error) { return []byte(hexadecimal(uint64(a))), nil }

func (r *CapturedReport) addLeft(left *mapping.Left) {
	if r != nil && left != nil {
		r.Within, r.Leaves = left.Copy, left.Why
	}
}

// Replay executes a block once from a captured state and returns the state afterwards: registers and captured
// pages. The error is a *verdict.Rejection if the block does not run to its end, else as of Profile or a
// failure of bbprof.
func (p *Profiler) Replay(ctx context.Context, code []byte, c *initial.Captured) (after *initial.Captured, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	b := Block{Code: code, Setup: Setup{Captured: c}}
	refused := p.onThread(ctx, func(s *session) {
		_, err = s.withChild(ctx, b, func() (err error) {
			after, err = s.replayOnce(b)
			return err
		})
	})
	if refused != nil {
		return nil, refused
	}
	return after, err
}

func (s *session) replayOnce(b Block) (*initial.Captured, error) {
	j := s.job(b)
	task, c, err := s.replayTask(j, b.Setup.Captured)
	if err != nil {
		return nil, err
	}
	task.Harness.Reset = harness.Reset{} // nothing runs after it
	return task.Once(c, xsaveOffsets())
}

func (s *session) replayTask(j job, c *initial.Captured) (t mapping.Task, _ *initial.Captured, err error) {
	if c.Header != nil {
		t, err = s.regionTask(j, *c.Header)
		return t, fromStart(c), err
	}
	insts, err := asm.Decode(j.Code)
	if err != nil {
		return t, c, err
	}
	if rejection := asm.Refuse(asm.WithoutBranch(insts)); rejection != nil {
		return t, c, rejection
	}
	j.ownLoop = true // the branch may go either way
	return s.task(j, insts, unroll.Factors{}), c, nil
}

// xsaveOffsets executes CPUID once, because it traps under a hypervisor.
var xsaveOffsets = sync.OnceValue(func() [32]int { return host.XSaveOffsets(host.AskCPUID) })

// windowFor returns the alias region that a block's child needs; 0 is none. A replayed block with rip-relative
// operands runs near its address in its program, in a region without captured pages. Other blocks accept the
// present region if it holds no captured page.
func (s *session) windowFor(b Block) uint64 {
	c := b.Setup.Captured
	if c == nil {
		return 0
	}
	free := func(window uint64) bool {
		return !slices.ContainsFunc(c.Pages, func(p initial.Page) bool {
			return p.Address >= window && p.Address < window+layout.WindowSize
		})
	}
	insts, err := b.asWritten()
	if err != nil || !slices.ContainsFunc(insts, func(in asm.Inst) bool { return in.RIPDisp != 0 }) {
		if free(s.window) {
			return s.window
		}
		return 0
	}
	for _, at := range layout.WindowFor(c.Address) {
		if free(at) {
			return at
		}
	}
	return 0
}
