package study

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/profiler"
)

// blockFactor makes a factor of values; regs are those of -regs.
type blockFactor = func(base profiler.Setup, regs []asm.Reg, values []int) (sweep.Factor, error)

func blockFactors() map[string]blockFactor {
	plain := func(of func(profiler.Setup, []int) (sweep.Factor, error)) blockFactor {
		return func(base profiler.Setup, _ []asm.Reg, v []int) (sweep.Factor, error) { return of(base, v) }
	}
	return map[string]blockFactor{
		"code": plain(sweep.Code), "copies": plain(sweep.Copies), "framecount": plain(sweep.Frames),
		"data": func(base profiler.Setup, regs []asm.Reg, v []int) (sweep.Factor, error) {
			if regs == nil {
				regs = []asm.Reg{asm.RSP, asm.RBP}
			}
			return sweep.Data(base, regs, v)
		},
		"distance": func(base profiler.Setup, regs []asm.Reg, v []int) (sweep.Factor, error) {
			if len(regs) != 2 || regs[0] == regs[1] {
				return sweep.Factor{}, errors.New("it is between two registers: name them with -regs, such as -regs rsi,rdi")
			}
			return sweep.Distance(base, regs[0], regs[1], v)
		},
	}
}

// framesEach gives each page a frame, up to as many as no L1D has more ways than.
const framesEach = 16

func (s *sweeping) sweepBlock(ctx context.Context, std cli.Streams) error {
	block, err := s.Block.Read(std)
	if err != nil {
		return err
	}
	if err := measuring.OneMode(s.Opts); err != nil {
		return err
	}
	base := s.setup.Setup(&s.Opts)
	base.At, base.Tolerate = block.Setup.At, measuring.TolerateAll()
	if s.Opts.Frames == profiler.AutoFrames {
		base.Frames = framesEach
	}
	factor, err := blockFactors()[s.factor](base, s.regs, s.values)
	if err != nil {
		return cli.BadUsage("-%s: %w", s.factor, err)
	}
	s.Opts.Detail = true // with it come the predictions
	s.events, s.Opts.Events = s.Opts.Events, nil
	points, screened, err := s.measure(ctx, block.Code, factor, std)
	if err != nil && !(cli.Stopped(err) && points != nil) {
		return err
	}
	if writeErr := s.write(points, screened, factor, err != nil, std); writeErr != nil || err != nil {
		return cmp.Or(writeErr, err)
	}
	if !slices.ContainsFunc(points, func(p sweep.Point) bool { return p.Result.Status == profiler.OK }) {
		return cli.ErrRejected
	}
	return nil
}

func (s *sweeping) measure(ctx context.Context, code []byte, f sweep.Factor, std cli.Streams) ([]sweep.Point, []sweep.Screened, error) {
	p, err := profiler.New(ctx, s.Opts)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	events, err := s.selected(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	runs := s.orDefault(3)
	done := cli.Progress(s.Out.Notes(std), len(f.Values)*runs, "measurements")
	points, err := sweep.Run(ctx, p, code, f, sweep.Plan{Runs: runs, Seed: s.seed, Done: done.Step})
	done.End()
	if err != nil || len(events) == 0 {
		return points, nil, err
	}
	screened, err := sweep.Screen(ctx, s.counting(ctx), code, f, events, sweep.Plan{Runs: runs, Seed: s.seed, Done: func(n int) {
		fmt.Fprintf(s.Out.Notes(std), "bbprof: %d of %s screened\n", n, words.Plural(len(events), "event"))
	}})
	return points, screened, err
}

// selected are the events to screen. Where the user named one that cannot be counted, it is an error.
func (s *sweeping) selected(ctx context.Context, p *profiler.Profiler) ([]profiler.Event, error) {
	events := s.listed
	everything := slices.Contains(s.events, "all")
	if everything || len(s.listed) > 0 {
		all, err := p.AllEvents(ctx)
		if err != nil {
			return nil, err
		}
		if everything {
			events = append(all, events...)
		}
	}
	for _, name := range s.events {
		if name == "all" {
			continue
		}
		if err := p.CanCount(ctx, name); err != nil {
			return nil, err
		}
		events = append(events, profiler.Event{Name: name, By: name})
	}
	return events, nil
}

func (s *sweeping) counting(ctx context.Context) sweep.Open {
	return func(events []profiler.Event) (measure.Profiler, func(), error) {
		opts := s.Opts
		for _, e := range events {
			opts.Events = append(opts.Events, e.By)
		}
		p, err := profiler.New(ctx, opts)
		if err != nil {
			return nil, nil, err
		}
		return p, p.Close, nil
	}
}

// maxEventList bounds a list of events; the longest of Intel's have some 2 MB.
const maxEventList = 16 << 20

func readEventList(file string) (events []profiler.Event, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEventList+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxEventList {
		return nil, fmt.Errorf("it has more than %d bytes, so it is not a vendor's list of events", maxEventList)
	}
	all, err := pmu.VendorList(bytes.NewReader(text))
	for _, e := range all {
		events = append(events, profiler.Event(e))
	}
	return events, err
}

func (s *sweeping) write(points []sweep.Point, screened []sweep.Screened, f sweep.Factor, incomplete bool, std cli.Streams) error {
	if err := s.writeSweep(std, sweepTable(points, screened, f), incomplete); err != nil {
		return err
	}
	if err := s.Plot.Draw(measuring.BlockSubject(points[0].Result.Hex), s.Opts.CPUs, sweep.Figure(points, f)); err != nil {
		return err
	}
	io.WriteString(s.Out.Notes(std), sweepSummary(points, f)+screening(screened))
	return nil
}

// sweepTable is the table with its header.
func sweepTable(points []sweep.Point, screened []sweep.Screened, f sweep.Factor) [][]string {
	header := append([]string{f.Name}, strings.Split("status,reason,cycles,ci_low,ci_high,loads,stores,alias_4k,alias_stores_back,forwarded,alias_frame,splits,page_splits,l1d_misses,l1i_misses", ",")...)
	for _, s := range screened {
		header = append(header, s.Column)
	}
	table := [][]string{header}
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
		table = append(table, row)
	}
	return table
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

func sweepSummary(points []sweep.Point, f sweep.Factor) string {
	var w strings.Builder
	relations := sweep.Relate(points)
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
	writeRelations(&w, relations, 12, 3, func(sweep.Related) string { return "" })
	return w.String()
}

// writeRelations says how what was counted goes along with the cycles, which get so many decimals, and what stands out.
// Names get so many columns; more is a line that may follow.
func writeRelations(w *strings.Builder, relations []sweep.Related, columns, decimals int, more func(sweep.Related) string) {
	var constant []string
	for _, r := range relations {
		if math.IsNaN(r.R) {
			constant = append(constant, r.Column)
			continue
		}
		line := func(name, format string, args ...any) {
			fmt.Fprintf(w, "  %-*s %s\n", columns, name, fmt.Sprintf(format, args...))
		}
		line(r.Column, "correlation with cycles %s", coefficient(r.Correlation))
		line("", "more than elsewhere at %s: median %.*f cycles there, %.*f elsewhere", numbers(r.Predicted), decimals, r.There, decimals, r.Elsewhere)
		if r.Known {
			line("", "%s, and of those %s", slower(r.Spikes, decimals), numbers(r.Both))
		}
		if text := more(r); text != "" {
			line("", "%s", text)
		}
	}
	if len(constant) > 0 {
		fmt.Fprintf(w, "  the same at all values: %s\n", strings.Join(constant, ", "))
	}
}

// slower says which values stand out.
func slower(s sweep.Spikes, decimals int) string {
	if !s.Known {
		return "too few runs to tell slow values from chance; that takes -runs 6 or more"
	}
	return fmt.Sprintf("slower than the usual %.*f cycles by 3 %%: %s", decimals, s.Usual, numbers(s.Slow))
}

func coefficient(c sweep.Correlation) string {
	if math.IsNaN(c.Low) {
		return fmt.Sprintf("%+.3f, no interval from fewer than four values", c.R)
	}
	return fmt.Sprintf("%+.3f, 95 %% interval %+.3f to %+.3f", c.R, c.Low, c.High)
}

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
	return fmt.Sprintf("%s (%s)", words.Plural(len(n), "value"), strings.Join(s, ", "))
}

func screening(screened []sweep.Screened) string {
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
			fmt.Fprintf(&w, "  %-40s %s, at %s\n", s.Column, coefficient(s.Correlation), words.Plural(s.N, "value"))
		}
	}
	if len(constant) > 0 {
		fmt.Fprintf(&w, "  the same at all values: %s\n", strings.Join(constant, ", "))
	}
	return w.String() + strings.Join(refused, "")
}

// writeSweep writes a sweep's table, or with -json one object of the factor and its points: the table's columns
// are the keys, but for the first, which is value. What is not known has no key. A table that is incomplete has a column
// that says so, since its rows may look like those of a whole one.
func (s *sweeping) writeSweep(std cli.Streams, rows [][]string, incomplete bool) error {
	if !s.Out.JSON {
		if incomplete {
			rows[0] = append(rows[0], "incomplete")
			for i := range rows[1:] {
				rows[i+1] = append(rows[i+1], "true")
			}
		}
		return s.Out.Stream(std, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) })
	}
	header := rows[0]
	object := struct {
		Factor     string           `json:"factor"`
		Points     []map[string]any `json:"points"`
		Incomplete bool             `json:"incomplete,omitempty"`
	}{header[0], []map[string]any{}, incomplete}
	header[0] = "value"
	for _, row := range rows[1:] {
		point := map[string]any{}
		for i, cell := range row {
			if cell != "" {
				point[header[i]] = jsonValue(cell)
			}
		}
		object.Points = append(object.Points, point)
	}
	return s.Out.Write(std, object, "")
}

// jsonValue is a cell as a number where it is one, or else as text.
func jsonValue(cell string) any {
	if strings.Trim(cell, "+-.0123456789") == "" && json.Valid([]byte(cell)) {
		return json.Number(cell)
	}
	return cell
}
