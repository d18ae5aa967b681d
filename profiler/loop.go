package profiler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/verdict"
)

// mapAsLoop maps a block, already mapped as copies in a row, as the loop to measure. In mode Loop the user may have
// chosen how often it runs.
func (s *session) mapAsLoop(j job, copies *mapping.MappedBlock) (m *mapping.MappedBlock, warnings []string, err error) {
	late := s.startBudget(mapLimit)
	var fits bool
	if j.ownLoop {
		asOften := j.Mode != Both && j.Options.Unroll != nil
		m, fits, err = copies.ByOwnBranch(max(j.Options.Copies, 1), j.Setup.CodeOffset, s.cpu.FrontEnd, asOften, late)
	} else {
		m, fits, err = copies.AsLoop(s.cpu.FrontEnd, j.Mode == Loop && j.Options.Unroll != nil, late)
	}
	if !fits {
		warnings = []string{"a copy exceeds the share of the op cache that keeps a loop in it: the decoders may limit it"}
	}
	return m, warnings, err
}

// loopTries is how often a loop beside a row is timed: half of those that fail do not fail again.
const loopTries = 2

// measureLoop measures a block, already measured as copies in a row, as a loop too. If it cannot, it returns nil and
// a warning.
func (s *session) measureLoop(j job, row measurement) (loop *measurement, warnings []string, err error) {
	for try := 1; ; try++ {
		var m measurement
		var samples Result
		block, warnings, err := s.mapAsLoop(j, row.block)
		mapped := err == nil
		if mapped {
			m, err = s.measure(j, block, &row, &samples)
		}
		rejection, ok := errors.AsType[*verdict.Rejection](err)
		if !ok {
			return &m, slices.Concat(warnings, m.warnings), err
		}
		if !mapped || try == loopTries {
			return nil, []string{fmt.Sprintf("the loop was not measured: %s: %s", rejection.Reason, rejection.Detail)}, nil
		}
	}
}
