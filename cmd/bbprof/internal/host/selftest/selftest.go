// Package selftest tests bbprof by blocks whose times are related on any core: several chains in one block take the
// sum of their times, in a row as in a loop, and imul what the clock's cross-check found (relations.go). Beside these it measures
// blocks of which a table by microarchitecture says what they take (answers.txt); a difference from that is reported,
// and no failure: on a new core the table may be wrong.
//
// A wrong relation fails at once, without a retry: the test is that a number which bbprof accepts is right.
// It retries only if bbprof reports a disturbance; a block that is disturbed each time neither passes nor
// fails. On a core that is never idle the number of tries drops.
package selftest

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

type Status string

const (
	Pass      Status = "pass"
	Fail      Status = "fail"
	Differs   Status = "differs"   // from the table of answers
	Disturbed Status = "disturbed" // disturbed in each try
	Skipped   Status = "skipped"   // this CPU has no such instruction, or no answer is known
)

// Outcome is the outcome of one block. Cycles are core cycles per iteration, 0 if it was not measured.
type Outcome struct {
	Text   string `json:"text"`
	Hex    string `json:"hex"`
	Kind   Kind   `json:"kind"`
	Status Status `json:"status"`
	Why    string `json:"why,omitempty"` // why it did not pass

	ExpectLow  float64 `json:"expect_low,omitzero"` // a number, not a band, if both are equal
	ExpectHigh float64 `json:"expect_high,omitzero"`
	Cycles     float64 `json:"cycles,omitzero"`
	CILow      float64 `json:"ci_low,omitzero"`
	CIHigh     float64 `json:"ci_high,omitzero"`
	Tries      int     `json:"tries"`
}

func (o Outcome) Expected() Answer { return Answer{o.ExpectLow, o.ExpectHigh} }

type Scope bool

const (
	Full  Scope = false
	Short Scope = true // four blocks of the table and three relations
)

// Run measures the blocks with p. On an error (ctx's, a *verdict.HostError, or a failure of bbprof) it returns
// the outcomes so far.
func Run(ctx context.Context, p *profiler.Profiler, cpu host.CPU, scope Scope) ([]Outcome, error) {
	blocks, err := Blocks()
	if err != nil {
		return nil, err
	}
	return run(ctx, p, AnswersOf(cpu.Microarchitecture), host.Missing, blocks, relations(), scope)
}

func run(ctx context.Context, p pool.Profiler, core cpu.Name, missing func([]string) []string, blocks []Block, relations []relation, scope Scope) (outcomes []Outcome, err error) {
	r := &runner{p: p, scope: scope, known: measured{}}
	add := func(o Outcome, err error) error {
		if err == nil {
			outcomes = append(outcomes, o)
			if o.Status == Disturbed {
				r.disturbed++
			}
		}
		return err
	}
	for _, b := range blocks {
		if scope == Short && !b.Short {
			continue
		}
		if err := add(r.block(ctx, b, core, missing)); err != nil {
			return outcomes, err
		}
	}
	for _, x := range relations {
		if scope == Short && !x.short {
			continue
		}
		if err := add(r.relation(ctx, x)); err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

type runner struct {
	p         pool.Profiler
	scope     Scope
	known     measured
	disturbed int
}

func (r *runner) measure(ctx context.Context, b profiler.Block) (profiler.Result, int, error) {
	tries := pool.Tries
	if r.disturbed >= patience || r.scope == Short {
		tries = 1
	}
	return pool.UpTo(ctx, r.p, b, tries)
}

// block measures a block of the table.
func (r *runner) block(ctx context.Context, b Block, core cpu.Name, missing func([]string) []string) (Outcome, error) {
	o := Outcome{Text: b.Text, Hex: hex.EncodeToString(b.Code), Kind: b.Kind}
	answer, known := b.Answers[core]
	switch lacks := missing(b.Needs); {
	case len(lacks) > 0:
		o.Status, o.Why = Skipped, "this CPU has no "+strings.Join(lacks, ", ")
		return o, nil
	case !known:
		o.Status, o.Why = Skipped, cmp.Or(b.Note, "the table has no answer")
		return o, nil
	}
	o.ExpectLow, o.ExpectHigh = answer.Low, answer.High
	block := profiler.Block{Code: b.Code}
	result, n, err := r.measure(ctx, block)
	if err != nil {
		return o, err
	}
	if o.Tries = n; result.Status == profiler.OK {
		r.known[key(block)] = result
	}
	if o.judge(result, answer); o.Status == Fail && result.Status == profiler.OK {
		o.Status = Differs
	}
	return o, nil
}

// patience is the number of blocks that may be disturbed in each try. After that each block gets one try, since each
// takes its whole budget; a short test stands at the start of a batch, which can wait
// for an idle core as well as it can.
const patience = 3

func (o *Outcome) judge(r profiler.Result, answer Answer) {
	o.ExpectLow, o.ExpectHigh = answer.Low, answer.High
	switch r.Status {
	case profiler.OK:
		o.Cycles, o.CILow, o.CIHigh = r.Cycles, r.CILow, r.CIHigh
		if o.Status = Pass; !answer.holds(r.Cycles) {
			o.Status, o.Why = Fail, fmt.Sprintf("off by more than %.1f %% or %.2f cycles", 100*toleranceShare, toleranceCycles)
		}
	case profiler.Rejected:
		o.Status, o.Why = Fail, r.Rejection.Error()
		if r.Reason.Noise() {
			o.Status = Disturbed
		}
	default:
		o.Status, o.Why = Fail, "internal failure: "+r.Failure
	}
}

type Tally struct {
	Pass      int `json:"pass"`
	Fail      int `json:"fail"`
	Differs   int `json:"differs"`
	Disturbed int `json:"disturbed"`
	Skipped   int `json:"skipped"`
}

func Count(outcomes []Outcome) (t Tally) {
	for _, o := range outcomes {
		switch o.Status {
		case Pass:
			t.Pass++
		case Fail:
			t.Fail++
		case Differs:
			t.Differs++
		case Disturbed:
			t.Disturbed++
		default:
			t.Skipped++
		}
	}
	return t
}

// String is such as "3 of 4 pass, 1 disturbed". Skipped blocks are not among the 4.
func (t Tally) String() string {
	s := fmt.Sprintf("%d of %d pass", t.Pass, t.Pass+t.Fail+t.Differs+t.Disturbed)
	for _, part := range []struct {
		n    int
		what string
	}{{t.Fail, "FAIL"}, {t.Differs, "not as in the table"}, {t.Disturbed, "disturbed"}, {t.Skipped, "skipped"}} {
		if part.n > 0 {
			s += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return s
}
