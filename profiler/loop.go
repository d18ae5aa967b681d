package profiler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/verdict"
)

// mapAsLoop maps a block, already mapped as copies in a row, as the loop to measure. In mode Loop the user may have
// chosen how often it runs; asOften runs it no more often than the copies.
func (s *session) mapAsLoop(j job, copies *mapping.MappedBlock, asOften bool) (m *mapping.MappedBlock, warnings []string, err error) {
	late := s.startBudget(mapLimit)
	asOften = asOften || j.Mode != Both && j.Options.Unroll != nil && (j.ownLoop || j.Mode == Loop)
	var fits bool
	if j.ownLoop {
		m, fits, err = copies.ByOwnBranch(max(j.Options.Copies, 1), j.Setup.CodeOffset, s.cpu.FrontEnd, asOften, late)
	} else {
		m, fits, err = copies.AsLoop(s.cpu.FrontEnd, s.cpu.DispatchWidth, asOften, late)
	}
	if !fits {
		warnings = []string{"a copy exceeds the share of the op cache that keeps a loop in it: the decoders may limit it"}
	}
	return m, warnings, err
}

// loopTries is how often a counted loop is timed that has no one time: half of those that fail do not fail again. One so
// slow that a single run is a sample, and that other work never left alone, is tried again with as few iterations as its
// copies.
const loopTries = 2

// measureLoop maps a block, already mapped as copies in a row, as a loop, and measures that.
func (s *session) measureLoop(j job, p *progress) error {
	if p.branch.As == Taken && j.Mode == Both {
		j.ownLoop = true
		j.keepCodeOffset()
	}
	copies, asOften := p.block, false
	for try := 1; ; try++ {
		block, warnings, err := s.mapAsLoop(j, copies, asOften)
		p.warnings = warnings
		if err != nil {
			return err
		}
		p.block, p.samples = block, Result{}
		p.measurement, err = s.measure(j, block, nil, &p.samples)
		asOften = block.Factors.Long > copies.Factors.Long && tooLong(err, p.measurement)
		if !asOften && !noOneTime(err) || j.ownLoop || try == loopTries {
			return err
		}
	}
}

// tooLong reports whether other work disturbed nearly every window of images of which one run is a sample: they may be
// shorter.
func tooLong(err error, m measurement) bool {
	return otherWork(verdict.ReasonOf(err)) && m.timed.RunsPerSample == 1
}

// otherWork reports whether the machine is to blame for a rejection, and not the block.
func otherWork(reason verdict.Reason) bool { return reason.Noise() && reason != verdict.Unstable }

// noOneTime reports whether a block was rejected because its time varies.
func noOneTime(err error) bool {
	reason := verdict.ReasonOf(err)
	return reason == verdict.Nonlinear || reason == verdict.Unstable
}

// orAsRow measures copies in a row if there is no loop beside them in mode Both, or if mode Hot could lay out none. Otherwise it returns why the
// loop failed, as it does where other work on the core was in the way.
func (s *session) orAsRow(j job, copies *mapping.MappedBlock, p *progress, why error) error {
	rejection, ok := errors.AsType[*verdict.Rejection](why)
	if !ok || otherWork(rejection.Reason) || j.Mode != Both && (j.Mode != Hot || j.ownLoop || p.measurement.block != nil) {
		return why
	}
	p.warnings = []string{fmt.Sprintf("the loop was not measured: %s: %s", rejection.Reason, rejection.Detail)}
	p.samples, p.measurement = Result{}, measurement{}
	row, err := copies.Again(copies.Factors, s.startBudget(mapLimit))
	if err == nil {
		p.measurement, err = s.measure(j, row, nil, &p.samples)
	}
	return err
}

// measureRow measures copies in a row beside their loop. If it cannot, it adds a warning.
func (s *session) measureRow(j job, copies *mapping.MappedBlock, p *progress) error {
	var samples Result
	row, err := copies.Again(copies.Factors, s.startBudget(mapLimit))
	var m measurement
	if err == nil {
		m, err = s.measure(j, row, &p.measurement, &samples)
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		p.warnings = append(p.warnings, fmt.Sprintf("the row was not measured: %s: %s", rejection.Reason, rejection.Detail))
		return nil
	}
	p.row, p.warnings = &m, slices.Concat(p.warnings, m.warnings)
	return err
}
