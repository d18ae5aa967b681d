// Package selftest measures blocks of known time: dependent chains, which take the sum of their
// instructions' latencies, and a few blocks bound by ports. The
// answers are data, a table by microarchitecture with its sources (answers.txt).
//
// A wrong number fails at once, without a retry: the test is that a number which bbprof accepts is right.
// It retries only if bbprof reports a disturbance; a block that is disturbed each time neither passes nor
// fails. On a core that is never idle the number of tries drops.
package selftest

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

type Status string

const (
	Pass      Status = "pass"
	Fail      Status = "fail"
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
	Short Scope = true // four: a multiply, a load, a floating-point add, and independent adds
)

// Run measures the blocks with p. On an error (ctx's, a *verdict.HostError, or a failure of bbprof) it returns
// the outcomes so far.
func Run(ctx context.Context, p *profiler.Profiler, cpu host.CPU, scope Scope) ([]Outcome, error) {
	blocks, err := Blocks()
	if err != nil {
		return nil, err
	}
	return run(ctx, p, AnswersOf(cpu.Microarchitecture), host.Missing, blocks, scope)
}

func run(ctx context.Context, p measure.Profiler, core cpu.Name, missing func([]string) []string, blocks []Block, scope Scope) (outcomes []Outcome, err error) {
	disturbed := 0
	for _, b := range blocks {
		if scope == Short && !b.Short {
			continue
		}
		o := Outcome{Text: b.Text, Hex: hex.EncodeToString(b.Code), Kind: b.Kind}
		answer, known := b.Answers[core]
		switch lacks := missing(b.Needs); {
		case len(lacks) > 0:
			o.Status, o.Why = Skipped, "this CPU has no "+strings.Join(lacks, ", ")
		case !known:
			o.Status, o.Why = Skipped, "no answer: "+b.Note
		default:
			o.ExpectLow, o.ExpectHigh = answer.Low, answer.High
			tries := measure.Tries
			if disturbed >= patience || scope == Short {
				tries = 1
			}
			r, n, err := measure.UpTo(ctx, p, profiler.Block{Code: b.Code}, tries)
			if err != nil {
				return outcomes, err
			}
			o.Tries = n
			o.judge(r, answer)
			if o.Status == Disturbed {
				disturbed++
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// patience is the number of blocks that may be disturbed in each try. After that each block gets one try, since each
// takes its whole budget; a short test stands at the start of a batch, which can wait
// for an idle core as well as it can.
const patience = 3

func (o *Outcome) judge(r profiler.Result, answer Answer) {
	switch r.Status {
	case profiler.OK:
		o.Cycles, o.CILow, o.CIHigh = r.Cycles, r.CILow, r.CIHigh
		if o.Status = Pass; !answer.Holds(r.Cycles) {
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
	s := fmt.Sprintf("%d of %d pass", t.Pass, t.Pass+t.Fail+t.Disturbed)
	for _, part := range []struct {
		n    int
		what string
	}{{t.Fail, "FAIL"}, {t.Disturbed, "disturbed"}, {t.Skipped, "skipped"}} {
		if part.n > 0 {
			s += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return s
}
