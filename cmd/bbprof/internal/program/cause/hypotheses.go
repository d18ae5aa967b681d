package cause

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
)

const (
	page = 4096 // the low 12 address bits repeat beyond it
	far  = 1088 // an odd number of lines, a quarter of a page
	half = 32   // of a line: what crosses lines then does not, and the other way round
	// away is the distance by which code moves: 1 GiB and 273 pages. It changes the address bits 12, 16, 20 and 30, and
	// none below 12.
	away = 1<<30 + 273*page
)

const stackStart = "start of the stack"

func stackBelow(size int) int { return (size + 15) / 16 * 16 }

// lower returns the shift that gives the stack at one size the low 12 bits it has at another.
func lower(size, as int) int { return (stackBelow(as) - stackBelow(size) + 64*page) % page }

// hypotheses turns the slow and the usual size into pairs of set-ups that differ in one thing.
func (a *explainer) hypotheses(ctx context.Context, slow, usual int) ([]question, error) {
	with := launch.Setup{EnvBytes: slow}
	ask := func(name, change string, without launch.Setup) question {
		return question{Finding: experiment.Finding{Hypothesis: name, Change: change}, With: with, Without: without}
	}
	code := ask("pages of the code", "code and static data stand 1 GiB and 273 pages lower", launch.Setup{EnvBytes: slow, ImageShift: away})
	if !a.Movable {
		code.Outcome, code.Change = experiment.Untested, "the program is not position-independent, or linked statically"
	}
	buffers, err := a.buffers(ctx, with)
	return []question{
		ask("size of the environment", "the usual size", launch.Setup{EnvBytes: usual}),
		ask(stackStart, "the stack starts where it does at the usual size; the environment is as large as before",
			launch.Setup{EnvBytes: slow, StackShift: lower(slow, usual)}),
		ask("environment itself", "the usual size, with the stack where it starts at the slow one",
			launch.Setup{EnvBytes: usual, StackShift: lower(usual, slow)}),
		ask("start of the heap", "the heap starts 1088 bytes higher", launch.Setup{EnvBytes: slow, HeapShift: far}),
		code, buffers,
		ask("heap within its lines", "the heap starts 32 bytes higher", launch.Setup{EnvBytes: slow, HeapShift: half}),
		{Finding: experiment.Finding{Hypothesis: "code within its lines", Outcome: experiment.Untested,
			Change: "code moves by whole pages, as long as nothing links it anew: bbprof compare -link -lld padding"}},
	}, err
}

// buffers finds a way to separate two objects whose accesses alias in a window of the program.
func (a *explainer) buffers(ctx context.Context, with launch.Setup) (question, error) {
	h := question{Finding: experiment.Finding{Hypothesis: "aliasing accesses", Outcome: experiment.Untested}}
	if a.Trace == nil {
		h.Change = a.NoTrace
		return h, nil
	}
	before, err := a.Trace(ctx, with)
	if err != nil {
		return h, err
	}
	if before.Alias4K == 0 {
		h.Outcome = experiment.Absent
		h.Change = fmt.Sprintf("none of %.0f loads in %d instructions meets a store in the low 12 bits alone", before.Loads, before.Instructions)
		return h, nil
	}
	for _, m := range moves(before, with) {
		after, err := a.Trace(ctx, m.Without)
		if bad := (*launch.Error)(nil); errors.As(err, &bad) {
			continue
		}
		if err != nil {
			return h, err
		}
		const gone = 0.1 // share of the aliases that may remain
		if after.Alias4K <= gone*before.Alias4K && similar(after.Splits, before.Splits) && similar(after.PageSplits, before.PageSplits) {
			m.Hypothesis = h.Hypothesis
			m.Change += fmt.Sprintf(": %.0f loads alias instead of %.0f, of %.0f", after.Alias4K, before.Alias4K, before.Loads)
			return m, nil
		}
	}
	first := before.Aliases[0]
	h.Change = fmt.Sprintf("%.0f loads alias, and no move of the stack, the heap or a block of malloc ends that and leaves "+
		"splits as they are (%s at %s after %s at %s)",
		before.Alias4K, first.Load.What, first.Load.Place, first.Store.What, first.Store.Place)
	return h, nil
}

// similar compares counts of two windows, which may begin at different offsets in a line.
func similar(a, b float64) bool { return math.Abs(a-b) <= 2+0.05*b }

// mostPairs limits the pairs of instructions to separate to the most frequent ones.
const mostPairs = 4

// moves lists the changes that may separate the aliasing accesses, the least invasive first.
func moves(c trace.Counts, with launch.Setup) (all []question) {
	known := map[launch.Setup]bool{}
	add := func(m question) {
		if !known[m.Without] {
			known[m.Without] = true
			all = append(all, m)
		}
	}
	for _, pair := range c.Aliases[:min(len(c.Aliases), mostPairs)] {
		for _, shift := range []int{far, 320, 2112} { // odd numbers of lines
			m := question{With: with, Without: with}
			switch one := func(what string) bool { return (pair.Load.What == what) != (pair.Store.What == what) }; {
			case one("[stack]"):
				m.Without.StackShift += shift
				m.Change = fmt.Sprintf("the stack starts %d bytes lower", shift)
			case one("[heap]"):
				m.Without.HeapShift += shift
				m.Change = fmt.Sprintf("the heap starts %d bytes higher", shift)
			default:
				continue
			}
			add(m)
		}
		for _, side := range []trace.Access{pair.Store, pair.Load} {
			if side.Block.Number == 0 || pair.Store.Block == pair.Load.Block {
				continue
			}
			for _, align := range []int{1024, 2048, 512, 256, 128, 64} {
				m := question{With: with, Without: with}
				m.With.Request, m.Without.Request = side.Block, side.Block
				m.Without.Request.Align = align
				m.Change = fmt.Sprintf("what call %d of malloc gives (%d bytes) stands at a multiple of %d", side.Block.Number, side.Block.Bytes, align)
				add(m)
			}
		}
	}
	return all
}
