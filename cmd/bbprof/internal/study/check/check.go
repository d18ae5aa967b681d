// Package check measures blocks whose time was measured before, and finds those that have become
// slower. It is for continuous integration: a false alarm stops somebody's work, so what is bounded
// is the probability of any false alarm in a run, for any number of blocks.
//
//	measure each block once → suspects → measure those in new children → test, corrected for the
//	number of blocks → measure what would be an alarm in stated layouts → alarm
//
// The null hypothesis is that a block is what it was, and includes that it may have several speeds,
// one for each layout: the baseline is then one draw of them.
package check

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Status is what became of a block.
type Status string

const (
	Fine    Status = "ok"           // not slower by more than the threshold, as far as one can tell
	Cleared Status = "cleared"      // it looked slower in its first measurement only, or in some layouts only
	Slower  Status = "slower"       // by more than the threshold, in all measurements and layouts together
	Unknown Status = "not measured" // Rejection says why
	Failed  Status = "error"        // bbprof itself failed; Failure says how
	// Of a run that was interrupted, or ended by an error:
	Suspect     Status = "suspect"     // it looks slower, which was not confirmed
	Interrupted Status = "interrupted" // it was not reached
)

// Outcome is one block's. Slowdown and its 95 % interval are percentages of the baseline.
type Outcome struct {
	Block    Block   `json:"-"`
	Status   Status  `json:"-"`
	Cycles   float64 `json:"cycles,omitzero"` // now: of a suspect, the mean of its new measurements
	Slowdown float64 `json:"slowdown_percent"`
	Low      float64 `json:"ci_low_percent"`
	High     float64 `json:"ci_high_percent"`
	P        float64 `json:"p_adjusted"`         // of Slower by chance, adjusted for the number of blocks; 1 if it was no suspect
	Fresh    int     `json:"fresh_measurements"` // new measurements, each in a child of its own
	// FastAt is the start of the code, in bytes of a page, at which a cleared block is as fast as its
	// baseline; nil if none was looked for.
	FastAt    *int               `json:"as_fast_at_start,omitempty"`
	Rejection *verdict.Rejection `json:"rejection,omitempty"`
	Failure   string             `json:"failure,omitempty"`
}

type Options struct {
	Threshold float64 // share of a block's cycles that it may have become slower
	// Start makes a profiler with a child of its own.
	Start func() (measure.ProfileCloser, error)
	// Screened is told how many blocks have been measured once; it may be nil.
	Screened func(n int)
}

const (
	// freshRounds are the children that measure each suspect again, one after the other: some blocks
	// keep one of two speeds for as long as a child lives, so a child gives one value. Eight values
	// are significant among 100,000 blocks at 15 standard errors above the threshold, five at 50
	// (Student's t with 7 and 4 degrees of freedom).
	freshRounds = 8
	// leastFresh is how many of them must have given a number.
	leastFresh = 4
)

// starts are where in a page the code begins in the layouts that a would-be alarm is measured in: the
// four places of a function in a cache line, as compilers align functions to 16 bytes.
var starts = []int{0, 16, 32, 48}

// tolerated are the reasons that an undisturbed block can be rejected for after timing: its windows run
// at several speeds, or its copies do not all take the same time. What made it so may have made it
// slower, so a suspect's numbers count all the same.
var tolerated = []verdict.Reason{verdict.Unstable, verdict.Nonlinear}

// Run measures all blocks, and then those that look slower again. Outcomes are in the order of
// blocks. An error is a *verdict.HostError, ctx's, or one of starting a profiler; what was found until then stands
// beside it, nil if no block was measured.
func Run(ctx context.Context, blocks []Block, o Options) ([]Outcome, error) {
	r := run{Options: o, suspects: make([]*suspect, len(blocks))}
	for _, b := range blocks {
		r.outcomes = append(r.outcomes, Outcome{Block: b, Status: Interrupted, P: 1}) // until screened
	}
	if err := r.round(ctx, r.screen); err != nil {
		return r.unfinished(), err
	}
	isSuspect := func(s *suspect) bool { return s != nil }
	for n := 0; n < freshRounds && slices.ContainsFunc(r.suspects, isSuspect); n++ {
		if err := r.round(ctx, r.again); err != nil {
			return r.unfinished(), err
		}
	}
	r.judge(leastFresh)
	isSlower := func(o Outcome) bool { return o.Status == Slower }
	if slices.ContainsFunc(r.outcomes, isSlower) {
		if err := r.round(ctx, r.place); err != nil {
			return r.unfinished(), err
		}
	}
	return r.outcomes, nil
}

// Against tests blocks by another result instead of new measurements. All rows of one block are as many measurements;
// of a single one, its interval says how certain it is. Blocks are one if identity is the same. P-values are adjusted as
// those of Run are.
func Against(blocks, other []Block, identity func(Block) string, threshold float64) []Outcome {
	rows := map[string][]Block{}
	for _, b := range other {
		rows[identity(b)] = append(rows[identity(b)], b)
	}
	r := run{Options: Options{Threshold: threshold}, suspects: make([]*suspect, len(blocks))}
	for i, b := range blocks {
		out := Outcome{Block: b, Status: Unknown, P: 1, Rejection: &verdict.Rejection{Reason: absent}}
		s := &suspect{}
		for _, row := range rows[identity(b)] {
			if !row.Measured() {
				out.Rejection = &verdict.Rejection{Reason: row.Reason}
				continue
			}
			s.logs, s.halves = append(s.logs, math.Log(row.Cycles)), append(s.halves, row.Half/row.Cycles)
		}
		if len(s.logs) > 0 {
			out.Status, out.Rejection, r.suspects[i] = Fine, nil, s
		}
		r.outcomes = append(r.outcomes, out)
	}
	r.judge(1)
	return r.outcomes
}

// absent is in place of a reason of a block that the other result does not have.
const absent = verdict.Reason("not in the other result")

// unfinished are the outcomes of a run that an error ends: what looked slower was not confirmed.
func (r *run) unfinished() []Outcome {
	reached := false
	for i := range r.outcomes {
		if r.suspects[i] != nil {
			r.outcomes[i].Status = Suspect
		}
		reached = reached || r.outcomes[i].Status != Interrupted
	}
	if !reached {
		return nil
	}
	return r.outcomes
}

type run struct {
	Options
	outcomes []Outcome
	suspects []*suspect // by block; nil of a block that is not a suspect
}

// suspect holds a block's new measurements.
type suspect struct {
	logs      []float64          // of cycles
	halves    []float64          // of their intervals, as shares of the cycles
	rejection *verdict.Rejection // of the last that gave no number
	failures  int                // how many gave none
}

// round does one thing with each block in a child of its own.
func (r *run) round(ctx context.Context, do func(ctx context.Context, p measure.Profiler, i int) error) error {
	p, err := r.Start()
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range r.outcomes {
		err := do(ctx, p, i)
		if failure := measure.Failure(""); errors.As(err, &failure) { // the other blocks remain what they are
			r.outcomes[i].Status, r.outcomes[i].Failure, r.suspects[i] = Failed, failure.Error(), nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// screen measures a block once. A block that looks slower is a suspect, at a level that is not
// corrected for the number of blocks, since a block that is missed here is not measured again. So is a
// block that other work disturbed, or that no longer has one speed.
func (r *run) screen(ctx context.Context, p measure.Profiler, i int) error {
	out := &r.outcomes[i]
	got, err := measure.Once(ctx, p, profiler.Block{Code: out.Block.Code, Setup: out.Block.setup()})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.Screened != nil {
		r.Screened(i + 1)
	}
	var rejection *verdict.Rejection
	switch {
	case errors.As(err, &rejection):
		out.Status, out.Rejection = Unknown, rejection
		if rejection.Reason.Noise() || slices.Contains(tolerated, rejection.Reason) {
			r.suspects[i] = &suspect{}
		}
	case err != nil:
		return err
	case out.compare(got.Cycles, known(got.Cycles, half(got)), known(out.Block.Cycles, out.Block.Half)).Above(math.Log1p(r.Threshold)) < stat.Level:
		out.Status, r.suspects[i] = Cleared, &suspect{} // until confirmed
	default:
		out.Status = Fine
	}
	return nil
}

func (r *run) again(ctx context.Context, p measure.Profiler, i int) error {
	s := r.suspects[i]
	if s == nil || s.failures > freshRounds-leastFresh { // too few can follow; each may take a whole budget
		return nil
	}
	got, err := measure.Once(ctx, p, profiler.Block{Code: r.outcomes[i].Block.Code, Setup: r.outcomes[i].Block.setup(tolerated...)})
	switch {
	case errors.As(err, &s.rejection):
		s.failures++
		return nil
	case err != nil:
		return err
	}
	s.logs = append(s.logs, math.Log(got.Cycles))
	s.halves = append(s.halves, half(got)/got.Cycles)
	return nil
}

// place measures a would-be alarm with its code at stated starts. If it is as fast as its baseline at
// one of them, the baseline was one of its speeds, and it is cleared.
func (r *run) place(ctx context.Context, p measure.Profiler, i int) error {
	out := &r.outcomes[i]
	if out.Status != Slower {
		return nil
	}
	for _, start := range starts {
		setup := out.Block.setup(tolerated...)
		setup.CodeOffset = &start
		got, err := measure.Once(ctx, p, profiler.Block{Code: out.Block.Code, Setup: setup})
		switch {
		case errors.As(err, new(*verdict.Rejection)): // no layout that it can be measured in
		case err != nil:
			return err
		case got.Cycles <= out.Block.Cycles*(1+r.Threshold):
			out.Status, out.FastAt = Cleared, &start
			return nil
		}
	}
	return nil
}

// judge tests the new measurements alone, of which there have to be enough: the one that made a block a suspect was
// selected for being slow.
func (r *run) judge(enough int) {
	var (
		judged []*Outcome
		p      []float64
	)
	for i := range r.outcomes {
		out, s := &r.outcomes[i], r.suspects[i]
		switch {
		case s == nil:
		case len(s.logs) < enough: // too little is known of it to clear it
			out.Status, out.Rejection = Unknown, s.rejection
		default:
			if out.Status == Unknown {
				out.Status, out.Rejection = Fine, nil
			}
			t := stat.OneSample(s.logs)
			now := stat.Known{Mean: t.Mean, Error: t.Error, DF: t.DF}
			if out.Fresh = len(s.logs); out.Fresh == 1 {
				now = known(math.Exp(t.Mean), s.halves[0]*math.Exp(t.Mean))
			}
			out.P = out.compare(math.Exp(t.Mean), now, s.baseline(out.Block)).Above(math.Log1p(r.Threshold))
		}
		if out.Status != Unknown && out.Status != Failed {
			judged, p = append(judged, out), append(p, out.P)
		}
	}
	for i, adjusted := range stat.Holm(p) {
		if judged[i].P = adjusted; adjusted < stat.Level {
			judged[i].Status = Slower
		}
	}
}

// baseline is a block's baseline with the error that a suspect's new measurements give to any one
// measurement: no less than their own interval and no less than the spread between children. An
// interval that is narrower saw one speed of several.
func (s *suspect) baseline(b Block) stat.Known {
	within := known(b.Cycles, max(b.Half, b.Cycles*stat.Median(s.halves)))
	t := stat.OneSample(s.logs)
	if between := t.Error * math.Sqrt(float64(len(s.logs))); len(s.logs) > 1 && between > within.Error {
		return stat.Known{Mean: within.Mean, Error: between, DF: t.DF}
	}
	return within
}

// compare notes how much slower a block is now than its baseline, and tests it, in logarithms.
func (out *Outcome) compare(cycles float64, now, was stat.Known) stat.Test {
	t := stat.Difference(was, now)
	percent := func(log float64) float64 { return 100 * math.Expm1(log) }
	out.Cycles, out.Slowdown, out.Low, out.High = cycles, percent(t.Mean), percent(t.Low), percent(t.High)
	return t
}

// intervalDF are the degrees of freedom of the shortest measurement's interval: twelve windows of
// which the middle half counts (stat.MidMean).
const intervalDF = 5

// known turns a result's interval, in which another result lies with 95 % probability, back into
// the standard error of the logarithm of its value. It takes the interval for that of many
// windows and the degrees of freedom for those of few: both make the error rather too large.
func known(cycles, half float64) stat.Known {
	const normal95 = 1.96
	return stat.Known{Mean: math.Log(cycles), Error: half / cycles / (math.Sqrt2 * normal95), DF: intervalDF}
}

func half(r profiler.Result) float64 { return (r.CIHigh - r.CILow) / 2 }
