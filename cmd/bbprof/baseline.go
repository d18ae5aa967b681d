package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/profiler"
)

// baseline is a result file of bbprof batch, as bbprof check reads it.
type baseline struct {
	rows []check.Block    // without cycles where nothing was measured
	runs []resultfile.Run // under what conditions they were measured
	ids  []string         // of those runs, which are there also where a filter dropped the rest
}

// mostRuns bounds the runs of a baseline: a file of more is damaged.
const mostRuns = 1000

// readBaseline reads rows that have at least the columns hex, status, cycles, ci_low and ci_high.
func readBaseline(in resultfile.Reader) (b baseline, err error) {
	schema := in.Schema()
	if schema == nil {
		return b, errors.New("it is empty, or ends within its first line")
	}
	for _, name := range []string{"hex", "status", "cycles", "ci_low", "ci_high"} {
		if schema.Index(name) < 0 {
			return b, fmt.Errorf("it has no column %s: a baseline is what bbprof batch writes", name)
		}
	}
	for cell, err := range cellsByName(in) {
		if err != nil {
			return b, err
		}
		if cell("run_header") != "" {
			run, err := resultfile.ParseRun(cell("run_header"))
			if err != nil {
				return b, err
			}
			b.runs = append(b.runs, run)
		}
		if resultfile.IsID(cell("run")) && !slices.Contains(b.ids, cell("run")) {
			if b.ids = append(b.ids, cell("run")); len(b.ids) > mostRuns {
				return b, fmt.Errorf("its rows are of more than %d runs", mostRuns)
			}
		}
		row := check.Block{Row: len(b.rows) + 1}
		if cell("status") == string(profiler.OK) {
			if row, err = baselineRow(row.Row, cell); err != nil {
				return b, fmt.Errorf("row %d: %w", len(b.rows)+1, err)
			}
		}
		b.rows = append(b.rows, row)
	}
	return b, b.wholeFile(in)
}

// wholeFile takes the runs that the file as a whole tells of, if its rows tell of none.
func (b *baseline) wholeFile(in resultfile.Reader) error {
	if len(b.runs)+len(b.ids) > 0 {
		return nil
	}
	for _, header := range resultfile.RunsOf(in) {
		run, err := resultfile.ParseRun(header)
		if err != nil {
			return err
		}
		b.runs = append(b.runs, run)
	}
	return nil
}

func baselineRow(row int, cell func(name string) string) (check.Block, error) {
	code, err := asm.ParseHex(cell("hex"), profiler.MaxBlock)
	if err != nil {
		return check.Block{}, fmt.Errorf("hex: %w", err)
	}
	var v [3]float64
	for i, name := range []string{"cycles", "ci_low", "ci_high"} {
		if v[i], err = strconv.ParseFloat(cell(name), 64); err != nil {
			return check.Block{}, fmt.Errorf("%s is %q, not a number", name, cell(name))
		}
	}
	return check.NewBlock(row, code, v[0], v[1], v[2])
}

// against says in what the baseline's conditions differ from those here: unlike lists what makes
// its cycles incomparable, another microarchitecture or other settings; told what should change
// nothing.
func (b *baseline) against(here resultfile.Run) (unlike, told []string) {
	switch {
	case len(b.runs) > 0:
	case len(b.ids) == 0:
		unlike = append(unlike, "it does not say on which CPU and with which settings (columns run and run_header)")
	default:
		for _, id := range b.ids {
			u, t := here.IDDifference(id)
			unlike, told = append(unlike, u...), append(told, t...)
		}
	}
	for _, run := range b.runs {
		there := run.Host
		switch same := there.Microarchitecture == here.Host.Microarchitecture; {
		case !same:
			unlike = append(unlike, fmt.Sprintf("microarchitecture: %s, here %s", there.Microarchitecture, here.Host.Microarchitecture))
		case there.Microarchitecture == cpu.Unknown && (there.Vendor != here.Host.Vendor || there.Family != here.Host.Family || there.Model != here.Host.Model):
			unlike = append(unlike, fmt.Sprintf("CPU: %s family %#x model %#x, here %s family %#x model %#x",
				there.Vendor, there.Family, there.Model, here.Host.Vendor, here.Host.Family, here.Host.Model))
		case there.Brand != here.Host.Brand:
			told = append(told, fmt.Sprintf("CPU: %s, here %s", there.Brand, here.Host.Brand))
		}
		if run.Version != here.Version {
			told = append(told, fmt.Sprintf("version: %s, here %s", run.Version, here.Version))
		}
		unlike = append(unlike, run.SettingsDifference(here)...)
	}
	return sortedDistinct(unlike), sortedDistinct(told)
}

// sortedDistinct drops repetitions: the runs of one file mostly have the same conditions.
func sortedDistinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
