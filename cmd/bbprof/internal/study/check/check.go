// Package check measures blocks again and finds those that have become slower. It is meant for continuous integration,
// where a false alarm stops somebody's work: it bounds the probability of any false alarm in a run, for any number of
// blocks.
//
//	measure each block once → suspects → measure those in new children → test, corrected for the
//	number of blocks → measure what would be an alarm in stated layouts → alarm
//
// The null hypothesis is that a block is unchanged, though it may have several modes, one per layout: the baseline then
// drew one of them.
package check

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type Status string

const (
	Fine    Status = "ok"           // not significantly slower by more than the threshold
	Cleared Status = "cleared"      // looked slower only in its first measurement or in some layouts
	Slower  Status = "slower"       // by more than the threshold, over all measurements and layouts
	Unknown Status = "not measured" // Rejection says why
	Failed  Status = "error"        // bbprof failed; Failure says how
	// After an interruption or error:
	Suspect     Status = "suspect"     // looks slower, not confirmed
	Interrupted Status = "interrupted" // not reached
)

// Outcome is one block's result. Slowdown and its 95 % interval are percentages of the baseline.
type Outcome struct {
	Row      int     `json:"row"` // in the baseline, from 1
	Hex      string  `json:"hex"`
	Status   Status  `json:"status"`
	Baseline float64 `json:"baseline_cycles"`
	Cycles   float64 `json:"cycles,omitzero"` // now; for a suspect, the mean of its new measurements
	Slowdown float64 `json:"slowdown_percent"`
	Low      float64 `json:"ci_low_percent"`
	High     float64 `json:"ci_high_percent"`
	P        float64 `json:"p_adjusted"`         // for Slower, adjusted for the number of blocks; 1 if it was no suspect
	Fresh    int     `json:"fresh_measurements"` // new measurements, each in its own child
	// FastAt is the start of the code in its page, in bytes, at which a cleared block is as fast as its baseline; nil
	// if none was sought.
	FastAt    *int               `json:"as_fast_at_start,omitempty"`
	Rejection *verdict.Rejection `json:"rejection,omitempty"`
	Failure   string             `json:"failure,omitempty"`
}

type Options struct {
	Threshold float64 // tolerated slowdown as a share of a block's cycles
	Start     func() (measure.ProfileCloser, error)
	// Screened receives the number of blocks measured once; may be nil.
	Screened func(n int)
}

const (
	// retestRounds is the number of children that each measure a suspect again. One child yields one value, because some
	// blocks keep one of two modes for a child's lifetime. Eight values are significant among 100,000 blocks at 15
	// standard errors above the threshold, five at 50 (Student's t with 7 and 4 degrees of freedom).
	retestRounds = 8
	// leastRetests is how many of them must yield a number.
	leastRetests = 4
)

// starts lists the page offsets at which a would-be alarm is measured: the four positions of a function in a cache
// line, since compilers align functions to 16 bytes.
var starts = []int{0, 16, 32, 48}

// tolerated lists the reasons that can reject an undisturbed block after timing: its windows have several modes, or its
// copies do not take equal time. The same cause may have made it slower, so a suspect's numbers count.
var tolerated = []verdict.Reason{verdict.Unstable, verdict.Nonlinear}

// Run measures all blocks, then again those that look slower. Outcomes are in the order of blocks. An error is a
// *verdict.HostError, ctx's, or about starting a profiler; it comes with the outcomes so far, nil if no block was
// measured.
func Run(ctx context.Context, blocks []Block, o Options) ([]Outcome, error) {
	r := start(o, blocks, Interrupted) // until screened
	if err := r.round(ctx, r.screen); err != nil {
		return r.unfinished(), err
	}
	isSuspect := func(s *suspect) bool { return s != nil }
	for n := 0; n < retestRounds && slices.ContainsFunc(r.suspects, isSuspect); n++ {
		if err := r.round(ctx, r.again); err != nil {
			return r.unfinished(), err
		}
	}
	r.test(leastRetests)
	isSlower := func(o Outcome) bool { return o.Status == Slower }
	if slices.ContainsFunc(r.outcomes, isSlower) {
		if err := r.round(ctx, r.place); err != nil {
			return r.unfinished(), err
		}
	}
	return r.outcomes, nil
}

// Against tests blocks against another result instead of new measurements. All rows of one block, by identity, count as
// repeated measurements; a single row's uncertainty is its interval. P-values are adjusted as in Run.
func Against(blocks, other []Block, identity func(Block) string, threshold float64) []Outcome {
	rows := map[string][]Block{}
	for _, b := range other {
		rows[identity(b)] = append(rows[identity(b)], b)
	}
	r := start(Options{Threshold: threshold}, blocks, Unknown)
	for i, b := range blocks {
		out, s := &r.outcomes[i], &suspect{}
		out.Rejection = &verdict.Rejection{Reason: absent}
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
	}
	r.test(1)
	return r.outcomes
}

// absent stands for the reason if the other result lacks the block.
const absent = verdict.Reason("not in the other result")

// unfinished returns the outcomes of a run that ended early: suspects are unconfirmed.
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
	blocks   []Block
	outcomes []Outcome  // by block
	suspects []*suspect // by block; nil if not a suspect
}

func start(o Options, blocks []Block, s Status) run {
	r := run{o, blocks, nil, make([]*suspect, len(blocks))}
	for _, b := range blocks {
		r.outcomes = append(r.outcomes, Outcome{Row: b.Row, Hex: hex.EncodeToString(b.Code), Baseline: b.Cycles, Status: s, P: 1})
	}
	return r
}

type suspect struct {
	logs      []float64          // logarithms of cycles
	halves    []float64          // half-widths of their intervals, relative to the cycles
	rejection *verdict.Rejection // the last one
	failures  int                // measurements without a number
}

func (r *run) round(ctx context.Context, do func(ctx context.Context, p measure.Profiler, i int) error) error {
	p, err := r.Start()
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range r.outcomes {
		err := do(ctx, p, i)
		if failure := measure.Failure(""); errors.As(err, &failure) { // the other blocks are unaffected
			r.outcomes[i].Status, r.outcomes[i].Failure, r.suspects[i] = Failed, failure.Error(), nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// screen measures a block once. A block that looks slower is a suspect, at a level not corrected for the number of
// blocks, since a missed block is not measured again. So is a block that was disturbed or no longer has one mode.
func (r *run) screen(ctx context.Context, p measure.Profiler, i int) error {
	out, b := &r.outcomes[i], r.blocks[i]
	got, err := measure.Once(ctx, p, b.again())
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
	case out.compare(got.Cycles, known(got.Cycles, half(got)), known(b.Cycles, b.Half)).Above(math.Log1p(r.Threshold)) < stat.Level:
		out.Status, r.suspects[i] = Cleared, &suspect{} // until confirmed
	default:
		out.Status = Fine
	}
	return nil
}

func (r *run) again(ctx context.Context, p measure.Profiler, i int) error {
	s := r.suspects[i]
	if s == nil || s.failures > retestRounds-leastRetests { // too few can follow; each may take a whole budget
		return nil
	}
	got, err := measure.Once(ctx, p, r.blocks[i].again(tolerated...))
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

// place measures a would-be alarm at the stated starts. If one of them is as fast as the baseline, the baseline was one
// of the block's modes, and the block is cleared.
func (r *run) place(ctx context.Context, p measure.Profiler, i int) error {
	out, b := &r.outcomes[i], r.blocks[i]
	if out.Status != Slower {
		return nil
	}
	for _, start := range starts {
		moved := b.again(tolerated...)
		moved.Setup.CodeOffset = &start
		got, err := measure.Once(ctx, p, moved)
		switch {
		case errors.As(err, new(*verdict.Rejection)): // it cannot be measured in this layout
		case err != nil:
			return err
		case got.Cycles <= b.Cycles*(1+r.Threshold):
			out.Status, out.FastAt = Cleared, &start
			return nil
		}
	}
	return nil
}

// test uses only the new measurements, of which enough are needed: the one that made a block a suspect was selected
// for being slow.
func (r *run) test(enough int) {
	var (
		judged []*Outcome
		p      []float64
	)
	for i := range r.outcomes {
		out, s := &r.outcomes[i], r.suspects[i]
		switch {
		case s == nil:
		case len(s.logs) < enough: // too few to clear it
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
			out.P = out.compare(math.Exp(t.Mean), now, s.baseline(r.blocks[i])).Above(math.Log1p(r.Threshold))
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

// baseline returns a block's baseline with the error of a single measurement as the new measurements show it: at least
// their own interval and at least the spread between children. A narrower interval saw one mode of several.
func (s *suspect) baseline(b Block) stat.Known {
	within := known(b.Cycles, max(b.Half, b.Cycles*stat.Median(s.halves)))
	t := stat.OneSample(s.logs)
	if between := t.Error * math.Sqrt(float64(len(s.logs))); len(s.logs) > 1 && between > within.Error {
		return stat.Known{Mean: within.Mean, Error: between, DF: t.DF}
	}
	return within
}

// compare records how much slower a block is than its baseline, and tests it, in logarithms.
func (out *Outcome) compare(cycles float64, now, was stat.Known) stat.Test {
	t := stat.Difference(was, now)
	percent := func(log float64) float64 { return 100 * math.Expm1(log) }
	out.Cycles, out.Slowdown, out.Low, out.High = cycles, percent(t.Mean), percent(t.Low), percent(t.High)
	return t
}

// intervalDF is the degrees of freedom of the shortest measurement's interval: twelve windows, of which the middle half
// counts (stat.MidMean).
const intervalDF = 5

// known converts a result's interval, which contains another result with 95 % probability, to the standard error of the
// logarithm. It assumes an interval of many windows but degrees of freedom of few, so the error is rather too large.
func known(cycles, half float64) stat.Known {
	const normal95 = 1.96
	return stat.Known{Mean: math.Log(cycles), Error: half / cycles / (math.Sqrt2 * normal95), DF: intervalDF}
}

func half(r profiler.Result) float64 { return (r.CIHigh - r.CILow) / 2 }

// Block is a baseline row. Cycles are per iteration.
type Block struct {
	Row    int // in the baseline, from 1
	Code   []byte
	Cycles float64 // 0 if not measured
	Half   float64 // half-width of the 95 % interval
	At     *uint64 // address in its program, nil if unknown
	Set    initial.Set
	Reason verdict.Reason // if it was rejected
}

func (b Block) again(tolerate ...verdict.Reason) profiler.Block {
	return profiler.Block{Code: b.Code, Setup: profiler.Setup{Address: b.At, Set: b.Set, Tolerate: tolerate}}
}

// leastHalf is half of a file's last digit: the error of an interval rounded to nothing.
const leastHalf = 0.00005

// NewBlock returns a measured block, given the ends of its interval.
func NewBlock(row int, code []byte, cycles, low, high float64) (Block, error) {
	if !(cycles > 0 && cycles-cycles == 0 && low <= cycles && cycles <= high) {
		return Block{}, fmt.Errorf("%g cycles with an interval from %g to %g is not a measurement", cycles, low, high)
	}
	return Block{Row: row, Code: code, Cycles: cycles, Half: max((high-low)/2, leastHalf)}, nil
}

func (b *Block) Measured() bool { return b.Cycles > 0 }
