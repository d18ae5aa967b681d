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

// asLoop maps a block, already mapped as copies in a row, as a loop of many iterations, or of as many as there are
// copies.
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

// measureLoop measures a block, already measured as copies in a row, as a loop too. For a loop that
// cannot be measured it returns nil and a warning.
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
