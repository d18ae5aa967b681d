package study

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/stat"
)

type programFactor struct {
	setup        func(value int) launch.Setup
	column, axis string
}

var programFactors = map[string]programFactor{
	"env":  {func(v int) launch.Setup { return launch.Setup{EnvBytes: v} }, "env_bytes", "padding of the environment, bytes"},
	"heap": {func(v int) launch.Setup { return launch.Setup{HeapShift: v} }, "heap_bytes", "start of the heap, bytes above the usual"},
	"arg":  {func(int) launch.Setup { return launch.Setup{} }, "argument", "argument"},
}

// repetitions is replaced by -repeat's number in a program's arguments.
const repetitions = "{k}"

const programRuns = 10

// sweepProgram runs a program at each value. It finds errors in -events and -trace before the runs, which take longest.
func (s *sweepCmd) sweepProgram(ctx context.Context, std cli.Streams) (got sweep.Sweep, err error) {
	notes := s.Out.Notes(std)
	places, err := s.places(ctx, notes)
	if err != nil {
		return got, err
	}
	r, err := s.programs.Runner(s.Opts.CPUs, std)
	if err != nil {
		return got, err
	}
	events, err := s.countable(r, notes)
	if err != nil {
		return got, err
	}
	var traces []trace.Counts
	if s.traced != "" {
		if traces, err = s.trace(ctx, places, notes); err != nil {
			return got, err
		}
	}
	plan := experiment.Plan{Rounds: cmp.Or(s.runs, programRuns), Seed: s.seed}
	each := len(places) * plan.Rounds
	fmt.Fprintf(notes, "bbprof: %s of %s on CPU %d; cycles are %s\n", words.Plural(each, "run"), places[0].Command.Name, r.CPU(), r.Describe())
	done := cli.Progress(notes, each, "runs")
	plan.Done = done.Step
	points, err := launch.Sweep(ctx, r, places, plan)
	done.End()
	programflags.NoteLeft(r, notes)
	if points == nil || err != nil && ctx.Err() == nil {
		return got, err
	}
	got = s.ofRuns(points, traces)
	if err != nil || len(events) == 0 {
		return got, err
	}
	group := sweep.Group{Title: fmt.Sprintf("events of %s a value, each counted alone in runs of its own", words.Plural(plan.Rounds, "run")), Brief: true}
	done = cli.Progress(notes, len(events)*each, "runs that count")
	defer done.End()
	for i, e := range events {
		plan.Done = func(n int) { done.Step(i*each + n) }
		counted, err := launch.Sweep(ctx, r.Counting(e), places, plan)
		if err != nil {
			return got, err
		}
		group.Columns = append(group.Columns, s.column(e.Name, counted))
	}
	got.Groups = append(got.Groups, group)
	return got, nil
}

// places returns the program's set-up for each value; with -repeat, first with as many repetitions, then with one.
func (s *sweepCmd) places(ctx context.Context, notes io.Writer) (places []launch.Place, err error) {
	var c launch.Command
	for i, v := range s.values {
		for j, k := range []int{s.repeat, 1}[:s.perValue()] {
			words := slices.Clone(s.words)
			for n := range words {
				if s.repeat > 1 {
					words[n] = strings.ReplaceAll(words[n], repetitions, strconv.Itoa(k))
				}
			}
			if s.factor == "arg" {
				words, err = launch.Fill(words, strconv.Itoa(v))
			}
			if i+j == 0 && err == nil {
				c, err = s.programs.Command(ctx, words, s.Opts.CPUs, notes)
			}
			if err != nil {
				return nil, err
			}
			c.Args = words[1:]
			places = append(places, launch.Place{Command: c, Setup: programFactors[s.factor].setup(v)})
		}
	}
	return places, nil
}

func (s *sweepCmd) perValue() int {
	if s.repeat > 1 {
		return 2
	}
	return 1
}

// of returns the runs' values at the i-th value; with -repeat, per repetition.
func (s *sweepCmd) of(i int, runs [][]float64) (values []float64) {
	for n, long := range runs[i*s.perValue()] {
		switch {
		case s.perValue() == 1:
			values = append(values, long)
		case n < len(runs[i*2+1]):
			values = append(values, (long-runs[i*2+1][n])/float64(s.repeat-1))
		}
	}
	return values
}

func (s *sweepCmd) column(name string, runs [][]float64) sweep.Column {
	c := sweep.Column{Name: name}
	for i := range s.values {
		median, _, _ := stat.MedianInterval(s.of(i, runs))
		c.Values = append(c.Values, median)
	}
	return c
}

// ofRuns makes a sweep of the runs and, if traced, the traces.
func (s *sweepCmd) ofRuns(runs [][]float64, traces []trace.Counts) sweep.Sweep {
	got := sweep.Sweep{Factor: programFactors[s.factor].column, Axis: programFactors[s.factor].axis}
	for i, v := range s.values {
		got.Points = append(got.Points, sweep.Runs(v, s.of(i, runs)))
	}
	if traces == nil {
		return got
	}
	g := sweep.Group{Title: fmt.Sprintf("of %s a value, counted by steps", words.Plural(traces[0].Instructions, "instruction"))}
	for _, c := range tracedColumns {
		one := sweep.Column{Name: c.name}
		for _, t := range traces {
			one.Values = append(one.Values, c.of(t))
		}
		g.Columns = append(g.Columns, one)
	}
	got.Groups = append(got.Groups, g)
	s.aliases = s.aliasing(traces)
	return got
}

var tracedColumns = []struct {
	name string
	of   func(trace.Counts) float64
}{
	{"loads", func(c trace.Counts) float64 { return c.Loads }},
	{"stores", func(c trace.Counts) float64 { return c.Stores }},
	{"alias_4k", func(c trace.Counts) float64 { return c.Alias4K }},
	{"alias_stores_back", func(c trace.Counts) float64 { return float64(c.AliasStores) }},
	{"forwarded", func(c trace.Counts) float64 { return c.Forwarded }},
	{"splits", func(c trace.Counts) float64 { return c.Splits }},
	{"page_splits", func(c trace.Counts) float64 { return c.PageSplits }},
	{"lines", func(c trace.Counts) float64 { return float64(c.Lines) }},
	{"pages", func(c trace.Counts) float64 { return float64(c.Pages) }},
}

func (s *sweepCmd) trace(ctx context.Context, places []launch.Place, notes io.Writer) (traces []trace.Counts, err error) {
	w := trace.Window{Function: s.traced, Instructions: s.window, Core: host.Detect(s.Opts.CPUs...).Core,
		Control: s.programs.On(s.Opts.CPUs)}
	done := cli.Progress(notes, len(s.values)*s.window, "steps")
	defer done.End()
	for i := range s.values {
		at := places[i*s.perValue()]
		w.Stepped = func(n int) { done.Step(i*s.window + n) }
		counts, err := trace.Count(ctx, at.Command, at.Setup, w)
		if err != nil {
			return nil, err
		}
		traces = append(traces, counts)
		done.Step((i + 1) * s.window)
	}
	return traces, nil
}

func (s *sweepCmd) countable(r *launch.Runner, notes io.Writer) ([]launch.Event, error) {
	if len(s.Opts.Events) == 0 {
		return nil, nil
	}
	events, note, err := r.Events(s.Opts.Events)
	if note != "" {
		fmt.Fprintf(notes, "bbprof: %s\n", note)
	}
	return events, err
}

// aliasing lists the aliasing pairs of instructions with the values at which they alias, the most frequent first.
func (s *sweepCmd) aliasing(traces []trace.Counts) string {
	type pair struct {
		first  trace.Alias
		values []int
		times  int
	}
	var pairs []*pair
	for i, t := range traces {
		for _, a := range t.Aliases {
			at := slices.IndexFunc(pairs, func(p *pair) bool { return p.first.Load.Place == a.Load.Place && p.first.Store.Place == a.Store.Place })
			if at < 0 {
				at = len(pairs)
				pairs = append(pairs, &pair{first: a})
			}
			pairs[at].values = append(pairs[at].values, s.values[i])
			pairs[at].times += a.Times
		}
	}
	slices.SortStableFunc(pairs, func(a, b *pair) int { return b.times - a.times })
	var w strings.Builder
	const most = 8
	for _, p := range pairs[:min(len(pairs), most)] {
		a := p.first
		fmt.Fprintf(&w, "  aliased by %s at %s:\n    %s at %s loads %s (%#x)\n    after %s at %s stored to %s (%#x)\n",
			words.Plural(p.times, "load"), sweep.Numbers(p.values),
			a.Load.Text, a.Load.Place, a.Load.What, a.Load.Addr, a.Store.Text, a.Store.Place, a.Store.What, a.Store.Addr)
	}
	if len(pairs) > most {
		fmt.Fprintf(&w, "  and %s of instructions\n", words.Plural(len(pairs)-most, "more pair"))
	}
	return w.String()
}
