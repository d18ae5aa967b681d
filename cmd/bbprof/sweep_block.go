package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	sweeping "github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/profiler"
)

const usageSweepBlock = `bbprof sweep varies one factor of a block's set-up and holds all others.

  bbprof sweep FACTOR [flags] -hex HEX

FACTOR is one of these; a RANGE is FROM:TO or FROM:TO:STEP, with both ends:
  -code RANGE     where the first copy stands, in bytes from the start of a page
  -data RANGE     bytes added to the registers of -regs: what the environment's size does to a stack
                  (default of -regs: rsp,rbp)
  -distance RANGE how many bytes the second of the two registers of -regs is above the first
  -copies RANGE   copies in the longer image, four times those of the shorter
  -framecount RANGE  on how many physical pages, called frames, the block's pages stand

Nothing is rejected for what the addresses say: its price is the question. Pages have a frame
each, up to 16, unless -frames says otherwise, and code stands at one place.

The columns written are the factor's and
  status,reason,cycles,ci_low,ci_high,loads,stores,alias_4k,alias_stores_back,forwarded,alias_frame,
  splits,page_splits,l1d_misses,l1i_misses
where cycles are core cycles per iteration in the run with the median cycles, ci_low to ci_high its
95 % interval, and the rest is what the trace of the addresses predicts of an iteration: loads that
alias one of the last stores in the low 12 bits of the address, and how many stores back the
nearest of those is; loads that one of the last stores feeds; accesses that reach a line of a frame
by another page than the access before; accesses that cross a line and a page; misses of caches that
replace what was not used for longest. None is counted.
Standard error has the correlation of each column with the cycles, and the values that stand out
in it and in them.

With -events the block is swept again for every four of them. Each has a column more, its count per
iteration, and they are ranked by their correlation with the cycles that were measured beside them.
-events all stands for every event of this CPU that the kernel or bbprof has a name for.

Flags:
  -hex HEX        the block, as for bbprof -hex
  -regs A[,B...]  the registers of -data and -distance
  -runs R         runs with each value, in random order (default 3)
  -seed S         of the random order (default 1)
  -eventlist FILE the events of a vendor's list in JSON besides those of -events, from
                  github.com/intel/perfmon or from tools/perf/pmu-events/arch/x86 of Linux
  -o FILE         write the table to FILE instead of standard output, which is also -
` + usagePlot + usageSetup + usageMeasuring + `
Examples:
  bbprof sweep -code 0:63 -hex 4801c0
  bbprof sweep -data 0:8192:16 -plot stack.svg -hex '8b 44 24 f8 89 44 24 fc' > stack.csv
  bbprof sweep -distance 0:8192:16 -regs rsi,rdi -hex '48 89 0b 48 8b 17'

Exit codes:
  0    all was measured
  1    no value could be measured; the table says why
  2    bad usage
  3    this host cannot measure; the message says what would help
  4    bbprof itself failed, or the results cannot be written
  130  interrupted: nothing is written
`

// blockFactors makes a factor of each flag that names one.
func blockFactors() map[string]func(base profiler.Setup, regs []asm.Reg, values []int) (sweeping.Factor, error) {
	return map[string]func(profiler.Setup, []asm.Reg, []int) (sweeping.Factor, error){
		"code": func(base profiler.Setup, _ []asm.Reg, v []int) (sweeping.Factor, error) {
			return sweeping.Code(base, v)
		},
		"data": func(base profiler.Setup, regs []asm.Reg, v []int) (sweeping.Factor, error) {
			if regs == nil {
				regs = []asm.Reg{asm.RSP, asm.RBP}
			}
			return sweeping.Data(base, regs, v)
		},
		"distance": func(base profiler.Setup, regs []asm.Reg, v []int) (sweeping.Factor, error) {
			if len(regs) != 2 || regs[0] == regs[1] {
				return sweeping.Factor{}, errors.New("it is between two registers: name them with -regs, such as -regs rsi,rdi")
			}
			return sweeping.Distance(base, regs[0], regs[1], v)
		},
		"copies": func(base profiler.Setup, _ []asm.Reg, v []int) (sweeping.Factor, error) {
			return sweeping.Copies(base, v)
		},
		"framecount": func(base profiler.Setup, _ []asm.Reg, v []int) (sweeping.Factor, error) {
			return sweeping.Frames(base, v)
		},
	}
}

// framesEach gives each page a frame, up to as many as no L1D has more ways than.
const framesEach = 16

// blockSweep is a sweep of a block as the command line asks for it.
type blockSweep struct {
	opts   profiler.Options
	setup  setupFlags
	hex    string
	regs   []asm.Reg
	name   string // of the factor
	values []int
	runs   int
	seed   uint64
	output string
	plot   plots
	events []string
	listed []pmu.Selected // of -eventlist
}

func (b *blockSweep) flags() *flag.FlagSet {
	f := newFlags("bbprof sweep")
	measuring(f, &b.opts)
	b.setup.add(f)
	f.StringVar(&b.hex, "hex", "", "")
	f.StringVar(&b.output, "o", "", "")
	f.Uint64Var(&b.seed, "seed", 1, "")
	f.Func("regs", "", func(s string) (err error) {
		b.regs, err = parseRegisters(s)
		return err
	})
	f.Func("runs", "", func(s string) (err error) {
		if b.runs, err = strconv.Atoi(s); err != nil || b.runs < 1 {
			return errors.New("write a number of runs from 1 on")
		}
		return nil
	})
	b.plot.add(f)
	f.Func("eventlist", "", func(file string) (err error) {
		b.listed, err = readEventList(file)
		return err
	})
	for name := range blockFactors() {
		f.Func(name, "", func(s string) (err error) {
			b.name = name
			b.values, err = parseValues(s)
			return err
		})
	}
	return f
}

// maxValues is how many values a sweep may have: both pages in single bytes.
const maxValues = 2*layout.PageSize + 1

func parseValues(s string) ([]int, error) {
	r, err := program.ParseRange(s)
	if err == nil && (r.To-r.From)/r.Step >= maxValues {
		err = fmt.Errorf("%q has more than %d values: take a larger step", s, maxValues)
	}
	if err != nil {
		return nil, err
	}
	return r.Values(), nil
}

// sweepBlock is bbprof sweep of one of a block's factors.
func sweepBlock(args []string, std streams) int {
	b := blockSweep{runs: 3}
	operands, code, done := parse(b.flags(), args, usageSweep, std)
	switch {
	case done:
		return code
	case len(operands) > 0:
		return usageError(std, "sweep: unexpected argument %q: quote a block that has spaces in it", operands[0])
	case b.hex == "":
		return usageError(std, "sweep: no block: give one with -hex")
	case b.opts.Mode == profiler.Both:
		return usageError(std, "sweep: -mode both gives two numbers; choose unroll or loop")
	}
	block, err := readBlock(b.hex, std.in)
	if err != nil {
		return usageError(std, "sweep: %v", err)
	}
	base := b.setup.setup(b.opts)
	base.Tolerate = tolerateAll()
	if b.opts.Frames == profiler.AutoFrames {
		base.Frames = framesEach
	}
	factor, err := blockFactors()[b.name](base, b.regs, b.values)
	if err != nil {
		return usageError(std, "sweep: -%s: %v", b.name, err)
	}
	if err := b.opts.Check(); err != nil {
		return usageError(std, "%v", err)
	}
	b.opts.Detail = true // with it come the predictions
	b.events, b.opts.Events = b.opts.Events, nil
	ctx, stop := untilSignal()
	defer stop()
	points, screened, err := b.measure(ctx, block.Code, factor, std)
	if err != nil {
		return failure(std, err)
	}
	if err := b.write(points, screened, factor, std); err != nil {
		return failure(std, fmt.Errorf("writing the results: %w", err))
	}
	return sweepVerdict(points)
}

// measure sweeps, and again for the events.
func (b *blockSweep) measure(ctx context.Context, code []byte, f sweeping.Factor, std streams) ([]sweeping.Point, []sweeping.Screened, error) {
	p, err := profiler.New(b.opts)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	events, err := b.selected(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	points, err := sweeping.Run(ctx, p, code, f, sweeping.Plan{Runs: b.runs, Seed: b.seed, Done: progress(std, len(f.Values)*b.runs, "measurements")})
	if err != nil || len(events) == 0 {
		return points, nil, err
	}
	screened, err := sweeping.Screen(ctx, b.counting, code, f, events, sweeping.Plan{Runs: b.runs, Seed: b.seed, Done: func(n int) {
		fmt.Fprintf(std.err, "bbprof: %d of %s screened\n", n, plural(len(events), "event"))
	}})
	return points, screened, err
}

// selected are the events to screen. Where the user named one that cannot be counted, it is an error.
func (b *blockSweep) selected(ctx context.Context, p *profiler.Profiler) ([]pmu.Selected, error) {
	events := b.listed
	everything := slices.Contains(b.events, "all")
	if everything || len(b.listed) > 0 {
		all, err := p.AllEvents(ctx)
		if err != nil {
			return nil, err
		}
		if everything {
			events = append(all, events...)
		}
	}
	for _, name := range b.events {
		if name == "all" {
			continue
		}
		if err := p.CanCount(ctx, name); err != nil {
			return nil, err
		}
		events = append(events, pmu.Selected{Name: name, By: name})
	}
	return events, nil
}

// counting starts a profiler that counts some events.
func (b *blockSweep) counting(events []pmu.Selected) (measure.Profiler, func(), error) {
	opts := b.opts
	for _, e := range events {
		opts.Events = append(opts.Events, e.By)
	}
	p, err := profiler.New(opts)
	if err != nil {
		return nil, nil, err
	}
	return p, p.Close, nil
}

func readEventList(file string) ([]pmu.Selected, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return pmu.VendorList(f)
}

// sweepVerdict is the exit code.
func sweepVerdict(points []sweeping.Point) int {
	for _, p := range points {
		if p.Result.Status == profiler.OK {
			return exitOK
		}
	}
	return exitRejected
}

// write puts out table, pictures and summary.
func (b *blockSweep) write(points []sweeping.Point, screened []sweeping.Screened, f sweeping.Factor, std streams) error {
	out, closeOut, err := openOutput(b.output, std.out)
	if err != nil {
		return err
	}
	err = writeSweepTable(out, points, screened, f)
	if closeErr := closeOut(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = b.plot.draw(sweeping.Figure(points, f))
	}
	if err == nil {
		_, err = io.WriteString(std.err, sweepSummary(points, f)+screening(screened))
	}
	return err
}

// writeSweepTable writes a row for each value.
func writeSweepTable(out io.Writer, points []sweeping.Point, screened []sweeping.Screened, f sweeping.Factor) error {
	w := csv.NewWriter(out)
	header := append([]string{f.Name}, strings.Split("status,reason,cycles,ci_low,ci_high,loads,stores,alias_4k,alias_stores_back,forwarded,alias_frame,splits,page_splits,l1d_misses,l1i_misses", ",")...)
	for _, s := range screened {
		header = append(header, s.Column)
	}
	w.Write(header)
	for i, p := range points {
		r := p.Result
		row := []string{strconv.Itoa(p.Value), string(r.Status), string(r.Reason), "", "", ""}
		if r.Status == profiler.OK {
			row = append(row[:3], cell(r.Cycles), cell(r.CILow), cell(r.CIHigh))
		}
		if p := r.Predicted; p != nil {
			row = append(row, perIteration(p.Loads), perIteration(p.Stores), perIteration(p.Alias4K), strconv.Itoa(p.AliasStores), perIteration(p.Forwarded), perIteration(p.AliasFrame),
				perIteration(p.Splits), perIteration(p.PageSplits), perIteration(p.L1DMisses), perIteration(p.L1IMisses))
		} else {
			row = append(row, make([]string, 10)...)
		}
		for _, s := range screened {
			row = append(row, countCell(s.Counts[i]))
		}
		w.Write(row)
	}
	w.Flush()
	return w.Error()
}

// cell has as many decimals as in a batch's results.
func cell(cycles float64) string { return strconv.FormatFloat(cycles, 'f', 4, 64) }

// perIteration is a number of events per iteration, which as a mean over copies may be a fraction.
func perIteration(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

// countCell is empty where nothing was counted, which is not zero.
func countCell(n float64) string {
	if math.IsNaN(n) {
		return ""
	}
	return perIteration(n)
}

// sweepSummary says how cycles and predictions go together.
func sweepSummary(points []sweeping.Point, f sweeping.Factor) string {
	var w strings.Builder
	relations := sweeping.Relate(points)
	n := relations[0].N
	if n == 0 {
		return fmt.Sprintf("bbprof: none of %d values of %s was measured\n", len(points), f.Name)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range points {
		if p.Result.Status == profiler.OK {
			low, high = min(low, p.Result.Cycles), max(high, p.Result.Cycles)
		}
	}
	fmt.Fprintf(&w, "bbprof: %d of %d values of %s were measured: %.3f to %.3f cycles, a ratio of %.3f\n", n, len(points), f.Name, low, high, high/low)
	var constant []string
	for _, r := range relations {
		if math.IsNaN(r.R) {
			constant = append(constant, r.Column)
			continue
		}
		fmt.Fprintf(&w, "  %-12s correlation with cycles %+.3f, 95 %% interval %+.3f to %+.3f\n", r.Column, r.R, r.Low, r.High)
		i := slices.IndexFunc(sweeping.Columns(), func(c sweeping.Column) bool { return c.Name == r.Column })
		s := sweeping.FindSpikes(points, sweeping.Columns()[i])
		fmt.Fprintf(&w, "  %12s more than elsewhere at %s: median %.3f cycles there, %.3f elsewhere\n", "", numbers(s.Predicted), s.There, s.Elsewhere)
		fmt.Fprintf(&w, "  %12s slower than the usual %.3f cycles by 3 %%: %s, and of those %s\n", "", s.Usual, numbers(s.Slow), numbers(s.Both))
	}
	if len(constant) > 0 {
		fmt.Fprintf(&w, "  the same at all values: %s\n", strings.Join(constant, ", "))
	}
	return w.String()
}

// numbers counts values and lists the first few.
func numbers(n []int) string {
	const few = 6
	var s []string
	for _, v := range n[:min(len(n), few)] {
		s = append(s, strconv.Itoa(v))
	}
	switch {
	case len(n) == 0:
		return "none"
	case len(n) > few:
		s = append(s, "...")
	}
	return fmt.Sprintf("%s (%s)", plural(len(n), "value"), strings.Join(s, ", "))
}

// screening ranks the events.
func screening(screened []sweeping.Screened) string {
	if len(screened) == 0 {
		return ""
	}
	var w strings.Builder
	var constant, refused []string
	w.WriteString("events by their correlation with the cycles that were measured beside them:\n")
	for _, s := range screened {
		switch {
		case s.Why != "":
			refused = append(refused, fmt.Sprintf("  %s is not counted: %s\n", s.Column, s.Why))
		case math.IsNaN(s.R):
			constant = append(constant, s.Column)
		default:
			fmt.Fprintf(&w, "  %-40s %+.3f, 95 %% interval %+.3f to %+.3f, at %s\n", s.Column, s.R, s.Low, s.High, plural(s.N, "value"))
		}
	}
	if len(constant) > 0 {
		fmt.Fprintf(&w, "  the same at all values: %s\n", strings.Join(constant, ", "))
	}
	return w.String() + strings.Join(refused, "")
}
