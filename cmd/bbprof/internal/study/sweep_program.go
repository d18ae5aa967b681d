package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/running"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
)

type programFactor struct {
	flag, help   string
	column, axis string // in the table and the plot
	// setup is the set-up with a value, and value the one that a set-up has.
	setup func(value int) program.Setup
	value func(program.Setup) int
}

var programFactors = []programFactor{
	{"env", "the size of a program's environment, in bytes", "env_bytes", "padding of the environment, bytes",
		func(v int) program.Setup { return program.Setup{EnvBytes: v} }, func(s program.Setup) int { return s.EnvBytes }},
	{"heap", "by how many bytes a program's heap starts higher", "heap_bytes", "start of the heap, bytes above the usual",
		func(v int) program.Setup { return program.Setup{HeapShift: v} }, func(s program.Setup) int { return s.HeapShift }},
}

// ofPrograms is the factor of programs that a flag names, or nil.
func ofPrograms(flag string) *programFactor {
	i := slices.IndexFunc(programFactors, func(f programFactor) bool { return f.flag == flag })
	if i < 0 {
		return nil
	}
	return &programFactors[i]
}

func (s *sweeping) sweepProgram(ctx context.Context, f *programFactor, std cli.Streams) error {
	got, err := s.runPrograms(ctx, f, std)
	if got.points == nil {
		return err
	}
	if writeErr := s.writeSweep(std, f.table(got), err != nil); writeErr != nil || err != nil {
		return cmp.Or(writeErr, err)
	}
	io.WriteString(s.Out.Notes(std), f.spread(got.points))
	if got.traces != nil {
		io.WriteString(s.Out.Notes(std), f.summary(got.points, got.traces))
	}
	if got.events != nil {
		io.WriteString(s.Out.Notes(std), f.screen(got.points, got.events, s.orDefault(programRuns)))
	}
	return s.Plot.Draw(strings.Join(s.words, " "), s.Opts.CPUs, f.figure(got.points))
}

// programRuns is how often a program runs with each value by default.
const programRuns = 10

// swept is what was measured of a program, and counted with each value.
type swept struct {
	points []program.Point
	traces []trace.Counts  // nil without -trace
	events []sweep.Counted // nil without -events
}

func (s *sweeping) runPrograms(ctx context.Context, f *programFactor, std cli.Streams) (got swept, err error) {
	c, err := s.programs.Command(ctx, s.words, s.Opts.CPUs, s.Out.Notes(std))
	if err != nil {
		return got, err
	}
	var setups []program.Setup
	for _, n := range s.values {
		setups = append(setups, f.setup(n))
	}
	r, err := s.programs.Runner(s.Opts.CPUs, std)
	if err != nil {
		return got, err
	}
	defer r.Close()
	notes, runs := s.Out.Notes(std), s.orDefault(programRuns)
	// The runs take longest, so what can be wrong with -events and -trace is found before them.
	events, err := s.countable(ctx, r, notes)
	if err != nil {
		return got, err
	}
	if s.traced != "" {
		if got.traces, err = s.trace(ctx, c, setups, notes); err != nil {
			return got, err
		}
	}
	fmt.Fprintf(notes, "bbprof: %s of %s on CPU %d; cycles are %s\n", words.Plural(len(setups)*runs, "run"), c.Name, r.CPU(), r.Describe())
	done := cli.Progress(notes, len(setups)*runs, "runs")
	got.points, err = program.Sweep(ctx, r, program.In(c, setups), experiment.Plan{Rounds: runs, Seed: s.seed, Done: done.Step})
	done.End()
	running.NoteLeft(r, notes)
	if err == nil && len(events) > 0 {
		got.events, err = s.count(ctx, r, c, setups, events, runs, notes)
	}
	return got, err
}

func (s *sweeping) trace(ctx context.Context, c program.Command, setups []program.Setup, notes io.Writer) ([]trace.Counts, error) {
	w := trace.Window{Function: s.traced, Instructions: s.window, Core: host.Detect(s.Opts.CPUs...).Core, CPUs: s.Opts.CPUs, Stdin: s.programs.Stdin, Timeout: s.programs.Timeout}
	w.Core.StoreBuffer = cmp.Or(s.stores, w.Core.StoreBuffer)
	done := cli.Progress(notes, len(setups)*s.window, "steps")
	defer done.End()
	var traces []trace.Counts
	for i, setup := range setups {
		w.Stepped = func(n int) { done.Step(i*s.window + n) }
		counts, err := trace.Count(ctx, c, setup, w)
		if err != nil {
			return nil, err
		}
		traces = append(traces, counts)
		done.Step((i + 1) * s.window)
	}
	return traces, nil
}

// table is the table with its header.
func (f *programFactor) table(got swept) [][]string {
	header := []string{f.column, "cycles", "ci_low", "ci_high", "runs"}
	if got.traces != nil {
		for _, c := range tracedColumns {
			header = append(header, c.name)
		}
	}
	for _, e := range got.events {
		header = append(header, e.Name)
	}
	table := [][]string{header}
	for i, p := range got.points {
		median, low, high := stat.MedianInterval(p.Cycles)
		row := []string{strconv.Itoa(f.value(p.Setup)), whole(median), whole(low), whole(high), strconv.Itoa(len(p.Cycles))}
		if got.traces != nil {
			for _, c := range tracedColumns {
				row = append(row, whole(c.of(p, got.traces[i])))
			}
		}
		for _, e := range got.events {
			row = append(row, whole(e.Values[i]))
		}
		table = append(table, row)
	}
	return table
}

// figure draws the medians, with their intervals if there are enough runs for them.
func (f *programFactor) figure(points []program.Point) plot.Figure {
	var cycles plot.Series
	for _, p := range points {
		median, low, high := stat.MedianInterval(p.Cycles)
		cycles.X, cycles.Y = append(cycles.X, float64(f.value(p.Setup))), append(cycles.Y, median)
		if whole(low) != "" && whole(high) != "" {
			cycles.Low, cycles.High = append(cycles.Low, low), append(cycles.High, high)
		}
	}
	if len(cycles.Low) < len(cycles.Y) {
		cycles.Low, cycles.High = nil, nil
	}
	first, last := f.value(points[0].Setup), f.value(points[len(points)-1].Setup)
	return plot.Figure{X: f.axis, Ticks: sweep.Ticks(first, last), Panels: []plot.Panel{{Y: "cycles", Series: []plot.Series{cycles}}}}
}

// whole is a number of cycles, empty if it is not known.
func whole(cycles float64) string {
	if cycles-cycles != 0 { // infinite or none
		return ""
	}
	return strconv.FormatFloat(cycles, 'f', 0, 64)
}

// countable are the events of -events.
func (s *sweeping) countable(ctx context.Context, r *program.Runner, notes io.Writer) ([]program.Event, error) {
	if len(s.Opts.Events) == 0 {
		return nil, nil
	}
	events, note, err := r.Events(ctx, s.Opts.Events)
	if errors.As(err, new(*program.UnknownEventError)) {
		err = cli.Usage(err)
	}
	if note != "" {
		fmt.Fprintf(notes, "bbprof: %s\n", note)
	}
	return events, err
}

// count sweeps a program again for each event, which is then all that is counted, so that none shares a counter. An
// error comes with the events until then.
func (s *sweeping) count(ctx context.Context, r *program.Runner, c program.Command, setups []program.Setup, events []program.Event, runs int, notes io.Writer) ([]sweep.Counted, error) {
	each := len(setups) * runs
	done := cli.Progress(notes, len(events)*each, "runs that count")
	defer done.End()
	var all []sweep.Counted
	for i, e := range events {
		plan := experiment.Plan{Rounds: runs, Seed: s.seed, Done: func(n int) { done.Step(i*each + n) }}
		points, err := program.Sweep(ctx, program.Counter{Runner: r, Event: e}, program.In(c, setups), plan)
		if err != nil {
			return all, err
		}
		one := sweep.Counted{Name: e.Name}
		for _, p := range points {
			one.Values = append(one.Values, stat.Median(p.Counts))
		}
		all = append(all, one)
	}
	return all, nil
}

// screen is what events say, the strongest correlation first.
func (f *programFactor) screen(points []program.Point, events []sweep.Counted, runs int) string {
	related := sweep.ByStrength(sweep.RelateTo(f.asPoints(points), events))
	return f.relate(points, related, fmt.Sprintf("events of %s a value, each counted alone in runs of its own", words.Plural(runs, "run")))
}

// spread says how far the values are apart, and which stand out.
func (f *programFactor) spread(points []program.Point) string {
	as := f.asPoints(points)
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range as {
		low, high = min(low, p.Result.Cycles), max(high, p.Result.Cycles)
	}
	return fmt.Sprintf("bbprof: %.0f to %.0f cycles, a ratio of %.3f; %s\n", low, high, high/low, slower(sweep.SpikesOf(as), 0))
}

// tracedColumn is something that is counted of a program in one set-up.
type tracedColumn struct {
	name string
	of   func(p program.Point, c trace.Counts) float64
}

// tracedColumns are those of sweep -trace, in the order of the table.
var tracedColumns = []tracedColumn{
	{"page_faults", func(p program.Point, _ trace.Counts) float64 { return medianOf(p.Faults) }},
	{"context_switches", func(p program.Point, _ trace.Counts) float64 { return medianOf(p.Switches) }},
	{"loads", func(_ program.Point, c trace.Counts) float64 { return c.Loads }},
	{"stores", func(_ program.Point, c trace.Counts) float64 { return c.Stores }},
	{"alias_4k", func(_ program.Point, c trace.Counts) float64 { return c.Alias4K }},
	{"alias_stores_back", func(_ program.Point, c trace.Counts) float64 { return float64(c.AliasStores) }},
	{"forwarded", func(_ program.Point, c trace.Counts) float64 { return c.Forwarded }},
	{"splits", func(_ program.Point, c trace.Counts) float64 { return c.Splits }},
	{"page_splits", func(_ program.Point, c trace.Counts) float64 { return c.PageSplits }},
	{"lines", func(_ program.Point, c trace.Counts) float64 { return float64(c.Lines) }},
	{"pages", func(_ program.Point, c trace.Counts) float64 { return float64(c.Pages) }},
}

func medianOf(x []float64) float64 {
	median, _, _ := stat.MedianInterval(x)
	return median
}

func (f *programFactor) summary(points []program.Point, traces []trace.Counts) string {
	var all []sweep.Counted
	for _, c := range tracedColumns {
		one := sweep.Counted{Name: c.name}
		for i, p := range points {
			one.Values = append(one.Values, c.of(p, traces[i]))
		}
		all = append(all, one)
	}
	related := sweep.RelateTo(f.asPoints(points), all)
	return f.relate(points, related, fmt.Sprintf("of %s a value, counted by steps", words.Plural(traces[0].Instructions, "instruction"))) + f.aliases(points, traces)
}

// changedShare is by how much a count at the slowest value differs from that at the fastest to be pointed out: the
// share by which "Measurement Bias from Address Aliasing" chooses events.
const changedShare = 0.25

// relate says how what was counted goes along with the cycles, and what differs between the fastest value and the slowest.
func (f *programFactor) relate(points []program.Point, related []sweep.Related, how string) string {
	var w strings.Builder
	as := f.asPoints(points)
	byCycles := func(a, b sweep.Point) int { return cmp.Compare(a.Result.Cycles, b.Result.Cycles) }
	fastest, slowest := slices.MinFunc(as, byCycles), slices.MaxFunc(as, byCycles)
	at := func(one sweep.Point) int {
		return slices.IndexFunc(as, func(p sweep.Point) bool { return p.Value == one.Value })
	}
	fmt.Fprintf(&w, "bbprof: %s:\n", how)
	writeRelations(&w, related, 17, 0, func(r sweep.Related) string {
		fast, slow := r.Values[at(fastest)], r.Values[at(slowest)]
		if math.Abs(slow-fast) <= changedShare*min(math.Abs(fast), math.Abs(slow)) {
			return ""
		}
		return fmt.Sprintf("more than 25 %% apart: %.0f at the fastest value (%d), %.0f at the slowest (%d)", fast, fastest.Value, slow, slowest.Value)
	})
	return w.String()
}

// asPoints are the medians and intervals of a program as those of a block, which spikes are found in.
func (f *programFactor) asPoints(points []program.Point) (as []sweep.Point) {
	for _, p := range points {
		median, low, high := stat.MedianInterval(p.Cycles)
		as = append(as, sweep.Point{Value: f.value(p.Setup), Result: profiler.Result{Status: profiler.OK, Cycles: median, CILow: low, CIHigh: high}})
	}
	return as
}

// aliases lists the instructions that alias, of each pair the values at which it does so, the most
// frequent first.
func (f *programFactor) aliases(points []program.Point, traces []trace.Counts) string {
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
			pairs[at].values = append(pairs[at].values, f.value(points[i].Setup))
			pairs[at].times += a.Times
		}
	}
	slices.SortStableFunc(pairs, func(a, b *pair) int { return b.times - a.times })
	var w strings.Builder
	const most = 8
	for _, p := range pairs[:min(len(pairs), most)] {
		a := p.first
		fmt.Fprintf(&w, "  aliased by %s at %s:\n    %s at %s loads %s (%#x)\n    after %s at %s stored to %s (%#x)\n", words.Plural(p.times, "load"), numbers(p.values),
			a.Load.Text, a.Load.Place, a.Load.What, a.Load.Addr, a.Store.Text, a.Store.Place, a.Store.What, a.Store.Addr)
	}
	if len(pairs) > most {
		fmt.Fprintf(&w, "  and %s of instructions\n", words.Plural(len(pairs)-most, "more pair"))
	}
	return w.String()
}
