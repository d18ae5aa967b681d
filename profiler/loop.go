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

// mapLoop maps a block, already mapped as copies in a row, as a loop too. With sameCount the loop runs the block as
// often as the copies do.
func (s *session) mapLoop(copies *mapping.MappedBlock, sameCount bool) (l loopTiming, err error) {
	m, fits, err := copies.AsLoop(s.cpu.FrontEnd, sameCount, s.startBudget(mapLimit).exhausted)
	l.block = m
	l.warnings = crowdedWarning(fits)
	return l, err
}

func crowdedWarning(fits bool) []string {
	if fits {
		return nil
	}
	return []string{"a copy exceeds the share of the op cache that keeps a loop in it: the decoders may limit it"}
}

// measureLoop measures a block, already measured as copies in a row, as a loop too. If it cannot, it returns nil and
// a warning.
func (s *session) measureLoop(j job, row measurement) (_ *loopTiming, warnings []string, err error) {
	var l loopTiming
	if j.ownLoop {
		l, err = s.mapOwnLoop(j, row.block)
	} else {
		l, err = s.mapLoop(row.block, false)
	}
	if err == nil {
		l.measurement, err = s.measure(j, l.block, &row)
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		return nil, []string{fmt.Sprintf("the loop was not measured: %s: %s", rejection.Reason, rejection.Detail)}, nil
	}
	return &l, slices.Concat(l.warnings, l.measurement.warnings), err
}
