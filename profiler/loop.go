package profiler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/verdict"
)

// loopTiming is a block as a loop, and its measurement.
type loopTiming struct {
	block       *mapping.MappedBlock
	warnings    []string
	measurement measurement
}

// mapAsLoop maps a block, already mapped as copies in a row, as the loop to measure. In mode Loop the user may have
// chosen how often it runs.
func (s *session) mapAsLoop(j job, copies *mapping.MappedBlock) (l loopTiming, err error) {
	late := s.startBudget(mapLimit).exhausted
	var fits bool
	if j.ownLoop {
		asOften := j.Mode != Both && j.Options.Unroll != nil
		l.block, fits, err = copies.ByOwnBranch(max(j.Options.Copies, 1), j.Setup.CodeOffset, s.cpu.FrontEnd, asOften, late)
	} else {
		l.block, fits, err = copies.AsLoop(s.cpu.FrontEnd, j.Mode == Loop && j.Options.Unroll != nil, late)
	}
	if !fits {
		l.warnings = []string{"a copy exceeds the share of the op cache that keeps a loop in it: the decoders may limit it"}
	}
	return l, err
}

// loopTries is how often a loop beside a row is timed: half of those that fail do not fail again.
const loopTries = 2

// measureLoop measures a block, already measured as copies in a row, as a loop too. If it cannot, it returns nil and
// a warning.
func (s *session) measureLoop(j job, row measurement) (_ *loopTiming, warnings []string, err error) {
	for try := 1; ; try++ {
		l, err := s.mapAsLoop(j, row.block)
		mapped := err == nil
		if mapped {
			l.measurement, err = s.measure(j, l.block, &row)
		}
		rejection, ok := errors.AsType[*verdict.Rejection](err)
		if !ok {
			return &l, slices.Concat(l.warnings, l.measurement.warnings), err
		}
		if !mapped || try == loopTries {
			return nil, []string{fmt.Sprintf("the loop was not measured: %s: %s", rejection.Reason, rejection.Detail)}, nil
		}
	}
}
