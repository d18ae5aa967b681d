// Package check measures blocks whose time was measured before, and finds those that have become
// slower. It is for machines that watch over code: an alarm stops somebody's work, so the chance of
// even one false alarm in a run is what is kept small, however many blocks there are.
package check

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Block is a row of a baseline: a block with what it took. Cycles are per iteration.
type Block struct {
	Row    int // of the baseline, from 1
	Code   []byte
	Cycles float64
	Half   float64 // half of its 95 % interval
}

// Status is what became of a block.
type Status string

const (
	Fine    Status = "ok"           // not slower by more than the threshold, as far as one can tell
	Cleared Status = "cleared"      // it looked slower, and was not when measured afresh
	Slower  Status = "slower"       // by more than the threshold, also afresh
	Unknown Status = "not measured" // Rejection says why
)

// Outcome is a block's. Slowdown and its 95 % interval are percentages of the baseline.
type Outcome struct {
	Block     Block
	Status    Status
	Cycles    float64 // now: of a suspect, the mean of its fresh measurements
	Slowdown  float64
	Low, High float64
	P         float64 // of Slower by chance, adjusted for the number of blocks; 1 if it was no suspect
	Fresh     int     // measurements that were taken afresh
	Rejection *verdict.Rejection
}

// Profiler is what is needed of profiler.Profiler.
type Profiler interface {
	Profile(context.Context, profiler.Block) (profiler.Result, error)
	Close()
}

// Options of a check.
type Options struct {
	Threshold float64 // share of a block's cycles that it may have become slower
	// Start makes a profiler with a child of its own.
	Start func() (Profiler, error)
	// Screened is told how many blocks have been measured once; nil is nobody.
	Screened func(n int)
}

const (
	// freshRounds are the children that measure each suspect again, one after the other: some blocks
	// keep to one of two speeds for as long as a child measures them, so a child is one value. Eight
	// are significant among 100,000 blocks at 15 standard errors above the threshold, five at 50
	// (Student's t with 7 and 4 degrees of freedom).
	freshRounds = 8
	// leastFresh are as many as must have given a number.
	leastFresh = 4
)

// tolerated are the reasons that are found in the samples of an undisturbed block: its windows run at
// several speeds, or its copies do not all take the same. What made it so may have made it slower, so a
// suspect's numbers count all the same.
var tolerated = []verdict.Reason{verdict.Unstable, verdict.Nonlinear}

// Run measures all blocks, and then those that look slower again. Outcomes are in the order of
// blocks. An error is a *verdict.HostError, ctx's, or bbprof's own.
func Run(ctx context.Context, blocks []Block, o Options) ([]Outcome, error) {
	r := run{Options: o, suspects: make([]*suspect, len(blocks))}
	for _, b := range blocks {
		r.outcomes = append(r.outcomes, Outcome{Block: b, Status: Fine, P: 1})
	}
	if err := r.round(ctx, r.screen); err != nil {
		return nil, err
	}
	isSuspect := func(s *suspect) bool { return s != nil }
	for n := 0; n < freshRounds && slices.ContainsFunc(r.suspects, isSuspect); n++ {
		if err := r.round(ctx, r.again); err != nil {
			return nil, err
		}
	}
	r.judge()
	return r.outcomes, nil
}

type run struct {
	Options
	outcomes []Outcome
	suspects []*suspect // by block; nil of one that is none
}

// suspect is what came of a block's fresh measurements.
type suspect struct {
	logs      []float64          // of cycles
	halves    []float64          // of their intervals, as shares of the cycles
	rejection *verdict.Rejection // of the last that gave none
	failures  int                // that gave none
}

// round does one thing with each block in a child of its own.
func (r *run) round(ctx context.Context, do func(ctx context.Context, p Profiler, i int) error) error {
	p, err := r.Start()
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range r.outcomes {
		if err := do(ctx, p, i); err != nil {
			return err
		}
	}
	return nil
}

// screen measures a block once. Whatever looks slower is a suspect, at a level that is not
// corrected for the number of blocks: what one misses here nobody looks at again. So is what other
// work did not let be measured, or what no longer has one speed.
func (r *run) screen(ctx context.Context, p Profiler, i int) error {
	out := &r.outcomes[i]
	got, err := measure(ctx, p, out.Block)
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
	case out.compare(got.Cycles, known(got.Cycles, half(got)), out.Block.Half).Above(math.Log1p(r.Threshold)) < stat.Level:
		out.Status, r.suspects[i] = Cleared, &suspect{} // until confirmed
	}
	return nil
}

// again measures a suspect.
func (r *run) again(ctx context.Context, p Profiler, i int) error {
	s := r.suspects[i]
	if s == nil || s.failures > freshRounds-leastFresh { // which it cannot make good; each may take a whole budget
		return nil
	}
	got, err := measure(ctx, p, r.outcomes[i].Block, tolerated...)
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

// judge goes by the fresh measurements alone: the one that made a block suspect was chosen for
// being slow.
func (r *run) judge() {
	var (
		judged []*Outcome
		p      []float64
	)
	for i := range r.outcomes {
		out, s := &r.outcomes[i], r.suspects[i]
		switch {
		case s == nil:
		case len(s.logs) < leastFresh: // too little is known of it to clear it
			out.Status, out.Rejection = Unknown, s.rejection
		default:
			if out.Status == Unknown {
				out.Status, out.Rejection = Fine, nil
			}
			t := stat.OneSample(s.logs)
			out.Fresh = len(s.logs)
			// A baseline that is narrower than the block is now was lucky: of two speeds it met one.
			was := max(out.Block.Half, out.Block.Cycles*stat.Median(s.halves))
			out.P = out.compare(math.Exp(t.Mean), stat.Known{Mean: t.Mean, Error: t.Error, DF: t.DF}, was).Above(math.Log1p(r.Threshold))
		}
		if out.Status != Unknown {
			judged, p = append(judged, out), append(p, out.P)
		}
	}
	for i, adjusted := range stat.Holm(p) {
		if judged[i].P = adjusted; adjusted < stat.Level {
			judged[i].Status = Slower
		}
	}
}

// compare notes how much slower a block is now than its baseline, of which half the interval is was,
// and tests it, in logarithms.
func (out *Outcome) compare(cycles float64, now stat.Known, was float64) stat.Test {
	t := stat.Difference(known(out.Block.Cycles, was), now)
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

// half is half of a result's interval.
func half(r profiler.Result) float64 { return (r.CIHigh - r.CILow) / 2 }

// measure profiles a block once.
func measure(ctx context.Context, p Profiler, b Block, tolerate ...verdict.Reason) (profiler.Result, error) {
	r, err := p.Profile(ctx, profiler.Block{Code: b.Code, Setup: profiler.Setup{Tolerate: tolerate}})
	if err == nil {
		err = r.Err()
	}
	return r, err
}
