package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/bystate"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/profiler"
)

func statesCommand() *command {
	return &command{
		name:     "states",
		summary:  "how much it matters that blocks start from states of their program",
		synopsis: []string{"states [flags] FILE...  (of bbprof capture)"},
		about: `Each block of some files of bbprof capture is measured in the state of one visit, in the BHive
paper's initial state and with distinct pointers. Where the first two differ by more than 5 %, the
cause is looked for by changing one thing of a state at a time, until that makes the difference or
four fifths of it go:
  equal pointers                distinct pointers give the program's cycles
  flags, subnormal numbers,     the program's state with clear flags, the paper's mxcsr, vector
  contents of vector registers  registers of zero gives the paper's cycles
  where a register points,      the program's state with the paper's value of one register does, or
  a register's value            the paper's state with the program's value gives the program's
  contents of memory            the program's state with the paper's word all over its pages does
  no single change              none of these
The list has the blocks that differ most, with the cause and the change that showed it; -json has
all.
`,
		examples: `bbprof capture -o gzip.states -- gzip -c FILE >/dev/null
bbprof states -plot states.svg gzip.states
`,
		exits: map[int]string{exitOK: "all blocks were measured, or are rejected", exitUsage: "", exitHost: "", exitInternal: "", exitInterrupted: ""},
		setup: func(f *flags) func(streams) error {
			s := comparingStates{top: 10}
			f.operands = &s.files
			s.out.add(f, "the report")
			s.plot.add(f)
			f.number(&s.top, 0, "top", "list the N blocks that differ most")
			f.seed(&s.seed, "takes other visits")
			cpuFlag(f, &s.opts.CPUs, cpuHelp)
			return s.run
		},
	}
}

type comparingStates struct {
	files []string
	top   int
	seed  uint64
	opts  profiler.Options
	plot  plotFile
	out   output
}

func (s *comparingStates) run(std streams) error {
	if len(s.files) == 0 {
		return badUsage("name a file of bbprof capture")
	}
	var summary bystate.Summary
	err := s.out.profiling(std, s.opts, func(ctx context.Context, p *profiler.Profiler) (err error) {
		summary, err = s.compare(ctx, p, std)
		return err
	})
	return s.finish(std, summary, err)
}

// finish writes what was found, also where err ended the run.
func (s *comparingStates) finish(std streams, summary bystate.Summary, err error) error {
	if summary.Blocks == 0 && err != nil {
		return err
	}
	if writeErr := s.out.write(std, summary, stateReport(summary, s.top)); writeErr != nil || err != nil {
		return cmp.Or(writeErr, err)
	}
	return s.plot.draw("blocks of "+strings.Join(s.files, ", "), summary.Figure())
}

// compare measures the blocks of all files. With an error comes what was found before it.
func (s *comparingStates) compare(ctx context.Context, p measure.Profiler, std streams) (bystate.Summary, error) {
	var all []bystate.Comparison
	done := progress(s.out.notes(std), 0, "blocks")
	defer done.end()
	for _, name := range s.files {
		err := s.blocks(name, func(b bystate.Block) error {
			c, err := bystate.Compare(ctx, p, b)
			if err != nil {
				return err
			}
			if c.Failure != "" {
				fmt.Fprintf(std.err, "bbprof: %s: %s\n", c.Visit, c.Failure)
			}
			all = append(all, c)
			done.step(len(all))
			return nil
		})
		if err != nil {
			summary := bystate.Summarize(all)
			summary.Incomplete = true
			return summary, err
		}
	}
	return bystate.Summarize(all), nil
}

// blocks gives each block of a file with the state of one of its visits, drawn at random.
func (s *comparingStates) blocks(name string, do func(bystate.Block) error) error {
	file, err := states.Open(name)
	if err != nil {
		return &usageError{err}
	}
	defer file.Close()
	visits := map[string][]states.Entry{}
	var order []string
	for _, e := range file.Index() {
		where := fmt.Sprintf("%s %x", e.File, e.Address)
		if visits[where] == nil {
			order = append(order, where)
		}
		visits[where] = append(visits[where], e)
	}
	rng := rand.New(rand.NewPCG(s.seed, 0))
	for _, where := range order {
		e := visits[where][rng.IntN(len(visits[where]))]
		visit, err := file.At(e.ID)
		if err != nil {
			return &usageError{err}
		}
		b := bystate.Block{Function: e.Function, Visit: fmt.Sprintf("%s#%d", name, e.ID), State: &visit.Before}
		if b.Code, err = asm.ParseHex(e.Hex, profiler.MaxBlock); err != nil {
			return badUsage("%s: %w", b.Visit, err)
		}
		if err := do(b); err != nil {
			return err
		}
	}
	return nil
}

func stateReport(s bystate.Summary, top int) string {
	var out strings.Builder
	share := func(n, of int) string {
		return fmt.Sprintf("%d of %d (%.0f %%)", n, of, 100*float64(n)/float64(max(of, 1)))
	}
	t := newTable("l", "blocks", fmt.Sprint(s.Blocks))
	t.row("measured in the program's state", share(s.Measured, s.Blocks))
	if rejected := frequent(s.Rejected); len(rejected) > 0 {
		t.row("rejected there", strings.Join(rejected, ", "))
	}
	if s.Failed > 0 {
		t.row("bbprof failed on", share(s.Failed, s.Blocks))
	}
	t.row("more than 5 % from the paper's", share(s.Apart, s.Compared))
	for _, cause := range byCount(s.Causes) {
		t.row("  "+string(cause), fmt.Sprint(s.Causes[cause]))
	}
	t.row("more than 5 % from distinct", share(s.ApartDistinct, s.ComparedDistinct))
	out.WriteString(t.String())
	if s.Incomplete {
		out.WriteString("incomplete: ended before the last block\n")
	}
	for _, c := range s.List[:min(top, len(s.List))] {
		if c.Cause == "" {
			break
		}
		fmt.Fprintf(&out, "\n%s  %s\n", c.Visit, c.Function)
		distinct := "rejected"
		if c.Distinct > 0 {
			distinct = fmt.Sprintf("%.3f", c.Distinct)
		}
		fmt.Fprintf(&out, "    program %.3f, paper %.3f, distinct %s: %s", c.Captured, c.Paper, distinct, c.Cause)
		if c.Change != "" {
			fmt.Fprintf(&out, " (%s gives %.3f)", c.Change, c.Changed)
		}
		fmt.Fprintf(&out, "\n    %s\n", score.Text(c.Hex))
	}
	return out.String()
}
