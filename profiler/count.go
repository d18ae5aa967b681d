package profiler

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// InstructionCount is how many instructions one iteration of a block executes. A string
// instruction with a rep prefix is one, however often it repeats.
type InstructionCount struct {
	Hex          string             `json:"hex"`
	Instructions int                `json:"instructions"`
	Copies       int                `json:"copies"` // that were stepped through
	Rejection    *verdict.Rejection `json:"rejection,omitempty"`
}

const (
	countCopies = 4           // enough to see that all are alike
	countLimit  = time.Minute // a rep instruction may have a million rounds
)

// CountInstructions steps through copies of a block and counts. Nothing is timed, so the
// machine may be busy. A block that does not run has a Rejection; the error is ctx's, a
// *verdict.HostError or a failure of bbprof.
func CountInstructions(ctx context.Context, b Block) (InstructionCount, error) {
	count := InstructionCount{Hex: hex.EncodeToString(b.Code)}
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good: the child is bound to the thread
		var s *session
		if s, err = newStepper(); err != nil {
			return
		}
		defer s.close()
		defer context.AfterFunc(ctx, s.child.Kill)()
		count.Copies, count.Instructions, err = s.count(ctx, b)
	}()
	<-ended
	if ctx.Err() != nil {
		return count, ctx.Err()
	}
	if errors.As(err, &count.Rejection) {
		return count, nil
	}
	return count, err
}

// newStepper is a session whose clock is never asked, and so needs no calibration.
func newStepper() (*session, error) {
	s := &session{cpu: host.Detect(), inits: initial.States(), clock: clock.TSC{StepTicks: 1}, turns: sentinelTurns}
	return s, s.launch()
}

// count maps a block as for a measurement and then steps through copies of it.
func (s *session) count(ctx context.Context, b Block) (copies, instructions int, err error) {
	r := &run{session: s, ctx: ctx, block: b, inits: s.inits}
	r.opts.FrontEnd, r.opts.Mode = OpCache, Unroll
	for _, step := range []func() error{r.decode, r.refuse, r.choose, r.mapForCount} {
		if err := step(); err != nil {
			return 0, 0, err
		}
	}
	copies = min(countCopies, r.factors.Long)
	total, lastCopy, lastInst := 0, -1, -1
	err = r.stepThrough(copies, countLimit, func(copy, inst int, _ tracee.Regs) {
		// A rep instruction steps once a round, and stays where it is. Nothing else does: a
		// block has no jumps.
		if copy != lastCopy || inst != lastInst {
			total++
		}
		lastCopy, lastInst = copy, inst
	})
	if err != nil {
		return 0, 0, err
	}
	if total%copies != 0 {
		return 0, 0, fmt.Errorf("%d steps over %d copies", total, copies)
	}
	return copies, total / copies, nil
}

// mapForCount maps the block in the first initial state in which it runs. How its accesses lie
// does not matter to a count.
func (r *run) mapForCount() error {
	var first error
	for _, init := range r.inits {
		r.result.Init = init
		r.plan = mapper.Plan{Insts: r.insts, Init: init, Frames: 1, Pages: maxPages, Limit: runLimit, Fresh: r.fresh}
		err := r.mapPages()
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		if rejection := (*verdict.Rejection)(nil); !errors.As(err, &rejection) || !r.child.Alive() {
			break
		}
	}
	return first
}
