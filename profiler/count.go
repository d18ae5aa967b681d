package profiler

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// InstructionCount is the number of instructions that one iteration of a block executes. A string
// instruction with a rep prefix counts once.
type InstructionCount struct {
	Hex          string             `json:"hex"`
	Instructions int                `json:"instructions"`
	Copies       int                `json:"copies"` // single-stepped
	Rejection    *verdict.Rejection `json:"rejection,omitempty"`
}

const (
	countCopies = 4           // enough to see that copies do not differ
	countLimit  = time.Minute // a rep instruction may have a million iterations
)

// CountInstructions single-steps copies of a block and counts. It times nothing, so the machine
// may be busy. It uses only the field Address of the block's Setup. A block that does not run has a Rejection; the error is ctx's, a
// *verdict.HostError or a failure of bbprof.
func CountInstructions(ctx context.Context, b Block) (InstructionCount, error) {
	return countWithin(ctx, b, countLimit)
}

// countWithin is CountInstructions with a limit on the CPU time of all steps.
func countWithin(ctx context.Context, b Block, limit time.Duration) (InstructionCount, error) {
	count := InstructionCount{Hex: hex.EncodeToString(b.Code)}
	var err error
	ptracethread.Run(func() {
		var s *session
		if s, err = newStepper(); err != nil {
			return
		}
		defer s.discard()
		defer s.killOnDone(ctx)()
		count.Copies, count.Instructions, err = s.count(b, limit)
	})
	if ctx.Err() != nil {
		return count, ctx.Err()
	}
	if rejection := timeoutOf(err); rejection != nil {
		err = rejection
	}
	if errors.As(err, &count.Rejection) {
		reportAsWritten(err, b, host.Detect().Disabled)
		return count, nil
	}
	return count, err
}

// newStepper returns a session for counting, whose clock is never read.
func newStepper() (*session, error) {
	s := &session{cpu: host.Detect(), states: initial.States(), cpus: &cpus{}}
	s.timer = timing.NewUncalibrated(s.timingConfig())
	return s, s.launch(context.Background())
}

// count maps a block as for a measurement and single-steps copies of it.
func (s *session) count(b Block, limit time.Duration) (copies, instructions int, err error) {
	j := job{Block: b, Options: Options{FrontEnd: OpCache, Branch: Taken}, states: s.states} // count the branch whether it is taken or not
	if insts, err := asm.Decode(b.Code); err == nil && len(insts) == 1 {
		j.Options.Branch = "" // as a measurement has a branch alone
	}
	p, err := s.start(&j)
	if err != nil {
		return 0, 0, err
	}
	m, err := s.task(j, p.insts, p.factors).MapOnly(s.states)
	if err != nil {
		return 0, 0, err
	}
	copies = min(countCopies, m.Factors.Long)
	total, lastCopy, lastInst := 0, -1, -1
	err = m.Step(copies, limit, func(copy, inst int, _ tracee.Regs) {
		// A rep instruction steps once per iteration at the same address. Nothing else
		// does: a block has no jumps.
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
