package profiler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/verdict"
)

// looped is a block as a loop.
type looped struct {
	mapped   *mapping.Mapped
	warnings []string
	measured measured
}

// asLoop maps a block that is mapped as copies in a row again, as a loop: one of many iterations, or one that runs
// the block as often as the copies do.
func (s *session) asLoop(copies *mapping.Mapped, asOften bool) (l looped, err error) {
	m, fits, err := copies.AsLoop(s.cpu.FrontEnd, asOften, s.allow(mapLimit).over)
	l.mapped = m
	l.warnings = crowded(fits)
	return l, err
}

func crowded(fits bool) []string {
	if fits {
		return nil
	}
	return []string{"a copy exceeds the share of the op cache that keeps a loop in it: the decoders may limit it"}
}

// measureLoop takes a block that was measured as copies in a row through the same steps as a loop. A
// loop that cannot be measured is a warning, and nil.
func (s *session) measureLoop(j job, copies *mapping.Mapped, own bool) (_ *looped, warnings []string, err error) {
	var l looped
	if own {
		l, err = s.asOwnLoop(j, copies)
	} else {
		l, err = s.asLoop(copies, false)
	}
	if err == nil {
		l.measured, err = s.measure(j, l.mapped, false)
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		return nil, []string{fmt.Sprintf("the loop was not measured: %s: %s", rejection.Reason, rejection.Detail)}, nil
	}
	return &l, slices.Concat(l.warnings, l.measured.warnings), err
}
