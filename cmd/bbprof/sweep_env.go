package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/stat"
)

// envFactor is the flag of the factor that is of programs.
const envFactor = "env"

// sweepProgram varies the size of a program's environment.
func (s *sweeping) sweepProgram(ctx context.Context, std streams) error {
	points, err := s.runPrograms(ctx, std)
	if err != nil && !(stopped(err) && points != nil) {
		return err
	}
	if writeErr := s.out.stream(std, func(w io.Writer) error { return writeSweep(w, points) }); writeErr != nil || err != nil {
		return cmp.Or(writeErr, err)
	}
	return s.plot.draw(strings.Join(s.words, " "), envFigure(points))
}

func (s *sweeping) runPrograms(ctx context.Context, std streams) ([]program.Point, error) {
	c, err := program.NewCommand(s.words)
	if err != nil {
		return nil, err
	}
	c.CleanEnv = s.cleanEnv
	var setups []program.Setup
	for _, n := range s.values {
		setups = append(setups, program.Setup{EnvBytes: n})
	}
	opts := s.programs
	opts.CPUs, opts.Stderr = s.opts.CPUs, std.err
	r, err := program.NewRunner(opts)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	notes, runs := s.out.notes(std), s.orDefault(10)
	fmt.Fprintf(notes, "bbprof: %s of %s on CPU %d; cycles are %s\n", plural(len(setups)*runs, "run"), c.Name, r.CPU(), r.Describe())
	done := progress(notes, len(setups)*runs, "runs")
	defer done.end()
	return program.Sweep(ctx, r, c, setups, program.Plan{Runs: runs, Seed: s.seed, Done: done.step})
}

// writeSweep writes a row for each set-up.
func writeSweep(out io.Writer, points []program.Point) error {
	w := csv.NewWriter(out)
	w.Write([]string{"env_bytes", "cycles", "ci_low", "ci_high", "runs"})
	for _, p := range points {
		if len(p.Cycles) == 0 { // interrupted before
			w.Write([]string{strconv.Itoa(p.Setup.EnvBytes), "", "", "", "0"})
			continue
		}
		median, low, high := stat.MedianInterval(p.Cycles)
		w.Write([]string{strconv.Itoa(p.Setup.EnvBytes), whole(median), whole(low), whole(high), strconv.Itoa(len(p.Cycles))})
	}
	w.Flush()
	return w.Error()
}

// envFigure draws the medians, with their intervals if there are enough runs for them.
func envFigure(points []program.Point) plot.Figure {
	var cycles plot.Series
	for _, p := range points {
		median, low, high := stat.MedianInterval(p.Cycles)
		cycles.X, cycles.Y = append(cycles.X, float64(p.Setup.EnvBytes)), append(cycles.Y, median)
		if whole(low) != "" && whole(high) != "" {
			cycles.Low, cycles.High = append(cycles.Low, low), append(cycles.High, high)
		}
	}
	if len(cycles.Low) < len(cycles.Y) {
		cycles.Low, cycles.High = nil, nil
	}
	last := points[len(points)-1].Setup.EnvBytes
	return plot.Figure{X: "padding of the environment, bytes", Ticks: sweep.Ticks(points[0].Setup.EnvBytes, last), Panels: []plot.Panel{{Y: "cycles", Series: []plot.Series{cycles}}}}
}

// whole is a number of cycles, empty if it is not known.
func whole(cycles float64) string {
	if cycles-cycles != 0 { // infinite or none
		return ""
	}
	return strconv.FormatFloat(cycles, 'f', 0, 64)
}
