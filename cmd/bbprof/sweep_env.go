package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	sweeping "github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/stat"
)

const usageSweepEnv = `bbprof sweep -env varies the size of a program's environment and holds all else.

  bbprof sweep -env FROM:TO[:STEP] [flags] -- PROGRAM [ARG...]

-env runs a whole program with its environment padded by FROM, FROM+STEP, ... TO bytes, address
randomisation off, bound to one CPU. The padding is the value of the variable BBPROF_PAD, which
is there with 0 bytes too; the stack starts lower by as much, to the multiple of 16 below. All
sizes have a run, in random order, before one has its next.

A run is measured from the program's entry, behind exec and dynamic linking, to the end of the
process: in core cycles in user mode where the CPU has a counter, else in CPU time, user and
kernel, converted by the core's clock, which is timed beside each run. Standard error says which.

The columns written are
  env_bytes,cycles,ci_low,ci_high,runs
where cycles is the median over the runs and ci_low to ci_high its 95 % interval, which takes at
least 6 runs and is else empty.

The program runs with your rights and unconfined: bbprof does not protect your files from it. All
processes that it starts are ended with it.

Flags:
  -runs R         runs with each size (default 10)
  -o FILE         write to FILE instead of standard output, which is also -
` + usagePlot + `  -cpu N          CPU to run on (default: the last that is allowed)
  -seed S         of the random order (default 1)
  -timeout TIME   longest that one run may take, such as 30s (default 1m)
  -stdin FILE     what the program reads as standard input (default /dev/null); what it writes
                  is dropped, except the first 1 MiB to standard error of a run that does not count
  -any-status     take a program that ends with an exit status other than 0
  -clean-env      give the program no environment but the padding

Examples:
  bbprof sweep -env 0:8192:16 -- ./prog args > sweep.csv
  bbprof sweep -env 0:4096:16 -runs 25 -clean-env -- ./prog     the same in every shell

Exit codes:
  0    all was measured
  2    bad usage, or a program that cannot be run, crashes, fails or does not end
  3    this host cannot measure; the message says what would help
  4    bbprof itself failed, or the results cannot be written
  130  interrupted: nothing is written
`

// sweepEnv is bbprof sweep -env.
func sweepEnv(args []string, std streams) int {
	var (
		opts      = program.Options{Stderr: std.err}
		own, argv = behindDashes(args)
		f         = newFlags("bbprof sweep")
		sizes     program.Range
		runs      = 10
		seed      = f.Uint64("seed", 1, "")
		output    = f.String("o", "", "")
		plot      plots
	)
	plot.add(f)
	f.StringVar(&opts.Stdin, "stdin", "", "")
	f.BoolVar(&opts.AnyStatus, "any-status", false, "")
	clean := f.Bool("clean-env", false, "")
	f.Func("env", "", func(s string) (err error) {
		if sizes, err = program.ParseRange(s); err == nil {
			err = program.Setup{EnvBytes: sizes.To}.Check()
		}
		return err
	})
	f.Func("runs", "", func(s string) (err error) {
		if runs, err = strconv.Atoi(s); err != nil || runs < 1 {
			return errors.New("write a number of runs from 1 on")
		}
		return nil
	})
	f.Func("cpu", "", func(s string) (err error) {
		opts.CPUs, err = host.ParseList(s)
		return err
	})
	f.Func("timeout", "", func(s string) (err error) {
		opts.Timeout, err = parseTimeout(s)
		return err
	})
	operands, code, done := parse(f, own, usageSweepEnv, std)
	switch {
	case done:
		return code
	case len(operands) > 0:
		return usageError(std, "sweep: unexpected argument %q: write the program and its arguments behind --", operands[0])
	case len(argv) == 0:
		return usageError(std, "sweep: no program: write it and its arguments behind --")
	}
	c, err := program.NewCommand(argv)
	if err != nil {
		return programFailure(std, err)
	}
	c.CleanEnv = *clean
	ctx, stop := untilSignal()
	defer stop()
	points, err := runSweep(ctx, opts, c, sizes, program.Plan{Runs: runs, Seed: *seed}, std)
	if err != nil {
		return programFailure(std, err)
	}
	out, closeOut, err := openOutput(*output, std.out)
	if err != nil {
		return usageError(std, "sweep: %v", err)
	}
	err = writeSweep(out, points)
	if closeErr := closeOut(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = plot.draw(envFigure(points))
	}
	if err != nil {
		return failure(std, fmt.Errorf("writing the results: %w", err))
	}
	return exitOK
}

func runSweep(ctx context.Context, opts program.Options, c program.Command, sizes program.Range, plan program.Plan, std streams) ([]program.Point, error) {
	r, err := program.NewRunner(opts)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var setups []program.Setup
	for _, n := range sizes.Values() {
		setups = append(setups, program.Setup{EnvBytes: n})
	}
	fmt.Fprintf(std.err, "bbprof: %s of %s on CPU %d; cycles are %s\n", plural(len(setups)*plan.Runs, "run"), c.Name, r.CPU(), r.Describe())
	plan.Done = progress(std, len(setups)*plan.Runs, "runs")
	return program.Sweep(ctx, r, c, setups, plan)
}

// writeSweep writes a row for each set-up.
func writeSweep(out io.Writer, points []program.Point) error {
	w := csv.NewWriter(out)
	w.Write([]string{"env_bytes", "cycles", "ci_low", "ci_high", "runs"})
	for _, p := range points {
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
	return plot.Figure{X: "padding of the environment, bytes", Ticks: sweeping.Ticks(points[0].Setup.EnvBytes, last), Panels: []plot.Panel{{Y: "cycles", Series: []plot.Series{cycles}}}}
}

// whole is a number of cycles, empty if it is not known.
func whole(cycles float64) string {
	if cycles-cycles != 0 { // infinite or none
		return ""
	}
	return strconv.FormatFloat(cycles, 'f', 0, 64)
}

// openOutput creates a file, or takes standard output for - or no name.
func openOutput(name string, stdout io.Writer) (out io.Writer, done func() error, err error) {
	if name == "" || name == "-" {
		return stdout, func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}
