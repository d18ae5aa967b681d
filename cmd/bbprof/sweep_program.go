package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/stat"
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

func (s *sweeping) sweepProgram(ctx context.Context, f *programFactor, std streams) error {
	got, err := s.runPrograms(ctx, f, std)
	if err != nil && !(stopped(err) && got.points != nil) {
		return err
	}
	if writeErr := s.writeSweep(std, func(w io.Writer) error { return f.write(w, got) }); writeErr != nil || err != nil {
		return cmp.Or(writeErr, err)
	}
	if got.traces != nil {
		io.WriteString(s.out.notes(std), f.summary(got.points, got.traces))
	}
	if got.events != nil {
		io.WriteString(s.out.notes(std), f.screen(got.points, got.events, s.orDefault(programRuns)))
	}
	return s.plot.draw(strings.Join(s.words, " "), f.figure(got.points))
}

// programRuns is how often a program runs with each value by default.
const programRuns = 10

// swept is what was measured of a program, and counted with each value.
type swept struct {
	points []program.Point
	traces []trace.Counts // nil without -trace
	events []countColumn  // nil without -events
}

func (s *sweeping) runPrograms(ctx context.Context, f *programFactor, std streams) (got swept, err error) {
	c, err := s.programs.command(s.words)
	if err != nil {
		return got, err
	}
	var setups []program.Setup
	for _, n := range s.values {
		setups = append(setups, f.setup(n))
	}
	if s.traced != "" {
		if _, err := c.Exe.Function(s.traced); err != nil {
			return got, err
		}
	}
	r, err := s.programs.runner(s.opts.CPUs, std)
	if err != nil {
		return got, err
	}
	defer r.Close()
	notes, runs := s.out.notes(std), s.orDefault(programRuns)
	fmt.Fprintf(notes, "bbprof: %s of %s on CPU %d; cycles are %s\n", plural(len(setups)*runs, "run"), c.Name, r.CPU(), r.Describe())
	done := progress(notes, len(setups)*runs, "runs")
	got.points, err = program.Sweep(ctx, r, c, setups, program.Plan{Runs: runs, Seed: s.seed, Done: done.step})
	done.end()
	noteLeft(r, notes)
	if err == nil && s.traced != "" {
		got.traces, err = s.trace(ctx, c, setups, notes)
	}
	if err == nil && len(s.opts.Events) > 0 {
		got.events, err = s.count(ctx, r, c, setups, runs, notes)
	}
	return got, err
}

func (s *sweeping) trace(ctx context.Context, c program.Command, setups []program.Setup, notes io.Writer) ([]trace.Counts, error) {
	w := trace.Window{Function: s.traced, Instructions: s.window, Core: host.Detect().Core, CPUs: s.opts.CPUs, Stdin: s.programs.Stdin, Timeout: s.programs.Timeout}
	done := progress(notes, len(setups), "windows")
	defer done.end()
	var traces []trace.Counts
	for i, setup := range setups {
		counts, err := trace.Count(ctx, c, setup, w)
		if err != nil {
			return nil, err
		}
		traces = append(traces, counts)
		done.step(i + 1)
	}
	return traces, nil
}

func (f *programFactor) write(out io.Writer, got swept) error {
	w := csv.NewWriter(out)
	header := []string{f.column, "cycles", "ci_low", "ci_high", "runs"}
	if got.traces != nil {
		for _, c := range tracedColumns {
			header = append(header, c.name)
		}
	}
	for _, e := range got.events {
		header = append(header, e.name)
	}
	w.Write(header)
	for i, p := range got.points {
		if len(p.Cycles) == 0 { // interrupted before
			w.Write(append([]string{strconv.Itoa(f.value(p.Setup)), "", "", "", "0"}, make([]string, len(header)-5)...))
			continue
		}
		median, low, high := stat.MedianInterval(p.Cycles)
		row := []string{strconv.Itoa(f.value(p.Setup)), whole(median), whole(low), whole(high), strconv.Itoa(len(p.Cycles))}
		if got.traces != nil {
			for _, c := range tracedColumns {
				row = append(row, whole(c.of(p, got.traces[i])))
			}
		}
		for _, e := range got.events {
			row = append(row, whole(e.values[i]))
		}
		w.Write(row)
	}
	w.Flush()
	return w.Error()
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
