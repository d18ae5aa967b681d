package profiler

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/verdict"
)

// looped is a block as a loop.
type looped struct {
	mapped   *mapping.Mapped
	crowded  bool // a copy exceeds the share of the op cache
	warnings []string
	measured measured
}

// asLoop maps a block that is mapped as copies in a row again, as a loop: one of many iterations, or one that runs
// the block as often as the copies do.
func (s *session) asLoop(copies *mapping.Mapped, asOften bool) (l looped, err error) {
	m, fits, err := copies.AsLoop(s.cpu.FrontEnd, asOften, s.allow(mapLimit).over)
	l.mapped = m
	if !fits {
		l.crowded = true
		l.warnings = []string{"a copy exceeds the share of the op cache that keeps a loop in it: the decoders may limit it"}
	}
	return l, err
}

// measureLoop takes a block that was measured as copies in a row through the same steps as a loop. A
// loop that cannot be measured is a warning, and nil.
func (s *session) measureLoop(j job, copies *mapping.Mapped) (_ *looped, warnings []string, err error) {
	l, err := s.asLoop(copies, false)
	if err == nil {
		l.measured, err = s.measure(j, l.mapped, false)
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		return nil, []string{fmt.Sprintf("the loop was not measured: %s: %s", rejection.Reason, rejection.Detail)}, nil
	}
	return &l, slices.Concat(l.warnings, l.measured.warnings), err
}

// compare is what sets the loop of a block apart from its copies in a row.
func (r reached) compare(j job) comparison {
	shape := r.loop.mapped.Loop
	return comparison{
		unrolled: r.measured.timed.Estimate.Value, loop: r.loop.measured.timed.Estimate.Value,
		copies: shape.Copies, insts: len(r.decoded.insts), bytes: len(j.Code), inMemory: shape.Counter.Memory,
		decoders: j.Options.FrontEnd == Decode,
		crowded:  r.repeated.crowded || r.loop.crowded,
	}
}

// comparison is what the likely cause of a disagreement is read from.
type comparison struct {
	unrolled, loop float64 // cycles per iteration
	copies, insts  int     // per iteration of the loop; per copy
	bytes          int     // per copy
	inMemory       bool    // the loop's counter
	decoders       bool    // served the unrolled copies, on purpose
	crowded        bool    // copies or a loop iteration exceed the share of the op cache
}

const (
	disagreementShare = 0.05
	// What the decoders of most cores fetch in a cycle or make of it (Nehalem to Skylake and Zen: Fog, microarchitecture.pdf; measured on
	// Redwood Cove and Zen 5: docs/front-end-notes.md); copies within so much of that speed are likely held by it.
	fetchBytes = 16
	fetchShare = 0.03
	// A taken branch ends the fetch of its cycle and the rename group that it is in, and the
	// counter's operation takes a slot: up to so many cycles a loop iteration are the loop's own.
	loopOwnCycles = 2.5
	// The same with a counter in memory, whose store each iteration's load waits for.
	loopOwnMemoryCycles = 6
)

// disagreement says by how much the two differ, if by more than 5 %, and the likely cause.
func disagreement(c comparison) string {
	if math.Abs(c.loop-c.unrolled) <= disagreementShare*math.Min(c.loop, c.unrolled) {
		return ""
	}
	overhead := (c.loop - c.unrolled) * float64(c.copies)
	own := loopOwnCycles
	if c.inMemory {
		own = loopOwnMemoryCycles
	}
	cause := "a dependency carried from copy to copy (through flags, the loop's own counting replaces it once a loop iteration) or ports bound otherwise"
	switch {
	case c.decoders && overhead < 0:
		cause = "the decoders, which serve the unrolled copies alone"
	case overhead < 0 && math.Abs(c.unrolled-float64(c.bytes)/fetchBytes) <= fetchShare*c.unrolled:
		cause = "the decoders: the unrolled copies take the time in which those fetch them, 16 bytes a cycle"
	case c.crowded:
		cause = "the decoders, which serve what does not fit the op cache"
	case overhead > 0 && overhead <= own:
		cause = fmt.Sprintf("loop overhead, %.1f cycles per loop iteration of %d instructions", overhead, c.copies*c.insts)
	}
	than := fmt.Sprintf("%.1f %% slower", 100*(c.loop/c.unrolled-1))
	if c.loop < c.unrolled {
		than = fmt.Sprintf("%.1f %% faster", 100*(c.unrolled/c.loop-1))
	}
	return fmt.Sprintf("the loop is %s than the unrolled copies; likely cause: %s", than, cause)
}
