// Package ablate switches bbprof's techniques on one by one, first those of the BHive paper (IISWC 2019, section 3),
// then bbprof's own, to show what each contributes: for a block the cycles and misses at each step, for a corpus the
// share of blocks that get a number.
package ablate

import (
	"context"
	"io"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Step is a set-up with one more technique than the step before.
type Step struct {
	Name  string
	Setup profiler.Setup
	// Paper is the share of its corpus, in percent, that the paper profiled with the techniques so far; 0 if it gives
	// none. It gives three: without any technique, with pages mapped, and with two smaller unroll factors (Equation 2)
	// added.
	Paper float64
}

// naive holds the unroll factors of the paper's Equation 1, which divides one image's time, including both ends, by its
// hundred copies. Equation 2 subtracts the time of a shorter image; 100 and 200 copies come from the README of its
// harness (ithemal/bhive, timing-harness).
var (
	naive      = unroll.Factors{Short: 0, Long: 100}
	difference = unroll.Factors{Short: 100, Long: 200}
)

// steps lists the techniques in the paper's order, then bbprof's. Before bbprof's own, addresses are no reason to
// reject. Misses and splits are one only with strict, as in the paper's count of profiled blocks; without it, the
// block's cycles are shown.
func steps(strict bool) (steps []Step) {
	paper := initial.Paper()
	tolerated := []verdict.Reason{verdict.Alias4K, verdict.AliasFrame, verdict.Nonlinear}
	if !strict {
		tolerated = append(tolerated, verdict.L1DMiss, verdict.L1IMiss, verdict.DTLBMiss, verdict.Misaligned, verdict.Unstable)
	}
	setup := profiler.Setup{Init: &paper, Unroll: &naive, NoFTZ: true, NoMapping: true, Tolerate: tolerated}
	for _, technique := range []struct {
		name  string
		paper float64
		add   func(*profiler.Setup)
	}{
		{"nothing", 16.65, func(*profiler.Setup) {}},
		{"a physical page for each page", 0, func(s *profiler.Setup) { s.NoMapping, s.Frames = false, layout.MaxFrames }},
		{"one frame for all pages", 0, func(s *profiler.Setup) { s.Frames = 1 }},
		{"no subnormals", 91.28, func(s *profiler.Setup) { s.NoFTZ = false }},
		{"difference of two images", 0, func(s *profiler.Setup) { s.Unroll = &difference }},
		{"smaller unroll factors", 94.24, func(s *profiler.Setup) { s.Unroll = nil }},
		{"separate frames where needed", 0, func(s *profiler.Setup) {
			s.Frames = 0 // the profiler's choice, for which shared frames must be reported
			s.Tolerate = slices.DeleteFunc(slices.Clone(tolerated), func(r verdict.Reason) bool { return r == verdict.AliasFrame })
		}},
		{"invalid traces rejected", 0, func(s *profiler.Setup) { s.Tolerate = nil }},
		{"other initial states", 0, func(s *profiler.Setup) { s.Init = nil }},
	} {
		technique.add(&setup)
		steps = append(steps, Step{technique.name, setup, technique.paper})
	}
	return steps
}

// of puts a block into the step's set-up but keeps the block's own initial state and address.
func (s Step) of(b profiler.Block) profiler.Block {
	at, set := b.Setup.Address, b.Setup.Set
	b.Setup = s.Setup
	b.Setup.Address, b.Setup.Set = at, set
	return b
}

type Stage struct {
	Step   string          `json:"step"`
	Result profiler.Result `json:"result"`
}

// Block measures a block at each step. The results of p must carry predictions (profiler.Options.Detail). On error it
// also returns the steps measured before.
func Block(ctx context.Context, p pool.Profiler, block profiler.Block) ([]Stage, error) {
	var stages []Stage
	for _, s := range steps(false) {
		r, err := pool.Undisturbed(ctx, p, s.of(block))
		if err != nil {
			return stages, err
		}
		stages = append(stages, Stage{s.Name, r})
	}
	return stages, nil
}

// Crashed reports whether a block crashed, rather than being rejected for what it does.
func Crashed(r profiler.Result) bool {
	switch r.Reason {
	case verdict.SIGSEGV, verdict.SIGBUS, verdict.SIGFPE, verdict.SIGILL, verdict.SIGTRAP, verdict.Unmappable, verdict.UnalignedOperand, verdict.Timeout:
		return r.Status == profiler.Rejected
	}
	return false
}

type Share struct {
	Step     string                 `json:"step"`
	Paper    float64                `json:"paper_percent,omitzero"`
	Blocks   int                    `json:"blocks"`
	Profiled int                    `json:"profiled"`
	Reasons  map[verdict.Reason]int `json:"reasons"` // of blocks without a number
	Failed   int                    `json:"failed,omitzero"`
}

func (s Share) Percent() float64 { return 100 * float64(s.Profiled) / float64(max(s.Blocks, 1)) }

// Corpus measures every block at each step, one block after the other, until next returns io.EOF. A rejection from next
// (a row without a block) counts at every step. On error it also returns the shares of the blocks before.
func Corpus(ctx context.Context, p pool.Profiler, next func() (profiler.Block, *verdict.Rejection, error), done func(n int)) ([]Share, error) {
	steps := steps(true)
	shares := make([]Share, len(steps))
	for i, s := range steps {
		shares[i] = Share{Step: s.Name, Paper: s.Paper, Reasons: map[verdict.Reason]int{}}
	}
	for {
		block, rejection, err := next()
		if err == io.EOF {
			return shares, nil
		}
		if err != nil {
			return shares, err
		}
		results := make([]profiler.Result, len(steps))
		for i, s := range steps {
			if rejection != nil {
				results[i].Status, results[i].Reason = profiler.Rejected, rejection.Reason
			} else if results[i], err = pool.Undisturbed(ctx, p, s.of(block)); err != nil {
				return shares, err
			}
		}
		for i := range shares {
			shares[i].count(results[i])
		}
		done(shares[0].Blocks)
	}
}

func (s *Share) count(r profiler.Result) {
	s.Blocks++
	switch r.Status {
	case profiler.OK:
		s.Profiled++
	case profiler.Rejected:
		s.Reasons[r.Reason]++
	default:
		s.Failed++
	}
}
