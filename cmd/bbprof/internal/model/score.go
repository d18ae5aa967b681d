package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	htmlreport "github.com/bbprof/bbprof/cmd/bbprof/internal/model/report"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func scoreCommand() *cli.Command {
	return &cli.Command{
		Name:     "score",
		Summary:  "judge models by measured blocks: errors, which is better, where they are wrong",
		Synopsis: []string{"score [-model [NAME=]SOURCE]... [flags] RESULTS...  (of bbprof batch; - is standard input)"},
		About: `Each model predicts the measured blocks, and its predictions are compared with them. A SOURCE is
  FILE              CSV, JSON lines or Parquet with a column hex and one of cycles;
                    FILE,column=NAME,scale=0.01 names the column and multiplies it
  llvm-mca[-N]      of version N; llvm-mca-22,mcpu=znver4,iterations=50 has settings of its own:
                    by default it iterates until whole cycles are 0.1 % of the prediction
  osaca, uica       if they are installed; osaca,arch=ZEN4 names their core
  resources:FILE    a table of instructions -resources: the fullest resource or longest chain
  exec:COMMAND      any program that reads blocks, one a line, and writes lines hex,cycles
A block on which a tool fails counts as not covered. Beside the models stands a lower bound that any
model should beat and, with -again, a second measurement that none can beat. Blocks whose time
depends on the initial state by more than 5 % are left out: those of -other-init, or of two rows
that differ. -predictions FILE writes a model's predictions, also of blocks that were not measured.
`,
		Notes: `docs/score.md defines all figures.
`,
		Examples: `bbprof score -model mca=llvm-mca-22 -worst 20 results.csv
bbprof score -model old=old.csv -model new=exec:'python3 new.py' -report r.html results.csv
bbprof score -model llvm-mca-22 -mcpu znver4 -predictions mca.csv blocks.csv
`,
		Exits: map[int]string{cli.ExitOK: "done, whatever the figures",
			cli.ExitUsage:    "bad usage, a file that cannot be read, or a model that fails; others are judged",
			cli.ExitInternal: "", cli.ExitInterrupted: "interrupted"},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			c := scoreCmd{seed: 1}
			f.Operands = &c.files
			c.AddModel(f, "judge this model; may be repeated")
			f.List(&c.again, "again", "FILE", "a second result of the same blocks: the noise floor; may be repeated")
			f.List(&c.otherInit, "other-init", "FILE",
				"a result of the same blocks in another initial state, as batch -init distinct measures; those that differ by "+
					"more than 5 % are left out; may be repeated")
			c.AddSettings(f)
			f.Text(&c.truth.by, "by", "C", "give errors by this column (default: application, app, program, source, or the file)")
			f.Text(&c.truth.cycles, "truth", "COLUMN", "judge by the cycles in this column, such as cycles_in_place of bbprof extract -perf, or in the "+
				"column that it names, as loops_take does (default: cycles)")
			f.Text(&c.truth.weight, "weight", "COLUMN", "count blocks by this column in all figures and lists, or none: each "+
				"once (default: weight, if there is one)")
			f.Number(&c.worst, 0, "worst", "list the N worst blocks of each model, and some of each mistake")
			cli.OutputFile(f, &c.predictions, "predictions", "FILE", "write the predictions of the model, of blocks that were not measured too, as CSV")
			f.Text(&c.column, "column", "C", "for -predictions: the column of blocks, by name or number (default: hex, or the first)")
			cli.OutputFile(f, &c.report, "report", "FILE.html", "write a page with figures, pictures and blocks, which needs no other file")
			f.Seed(&c.seed, "seed of the bootstrap intervals")
			f.Toggle(&c.out.JSON, "json", "one JSON object instead of the report")
			c.out.AddFile(f)
			return c.out.Resumable(f, c.run, &c.predictions, &c.report)
		},
	}
}

type scoreCmd struct {
	modelflags.Flags
	files []string
	again []string
	truth truthOptions

	otherInit   []string
	worst       int
	predictions string
	column      string // of blocks, for -predictions
	report      string
	seed        uint64
	out         cli.Output
	failed      []error // of models; others are still judged
}

func (c *scoreCmd) run(std cli.Streams) error {
	c.Kept, c.Notes = std.Kept, c.out.Notes(std)
	if len(c.files) == 0 {
		return cli.BadUsage("no result named; name one or more files that bbprof batch wrote, or - for standard input")
	}
	if c.predictions != "" && len(c.Models) != 1 {
		return cli.BadUsage("-predictions is of one model: name it, such as -model llvm-mca-22")
	}
	if c.predictions == "-" {
		return cli.BadUsage("-predictions: standard output takes the report; name a file")
	}
	if c.truth.cycles != "" && len(c.again)+len(c.otherInit) > 0 {
		return cli.BadUsage("-truth %s: -again and -other-init hold other cycles than that column; leave them out", c.truth.cycles)
	}
	c.truth.named, c.truth.unmeasured = c.Core, c.predictions != ""
	stdin := std.In
	if c.predictions != "" && slices.Contains(c.files, "-") { // it is read twice
		all, err := io.ReadAll(std.In)
		if err != nil {
			return err
		}
		stdin, std.In = bytes.NewReader(all), bytes.NewReader(all)
	}
	t, err := readTruth(c.files, stdin, c.truth)
	if err != nil {
		return cli.Usage(err)
	}
	if len(c.otherInit) > 0 {
		if err := t.dropSensitive(c.otherInit, std.In); err != nil {
			return cli.Usage(err)
		}
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	models, err := c.predictAll(ctx, t, std)
	if err != nil {
		return err
	}
	if len(t.blocks) == 0 {
		fmt.Fprintln(c.out.Notes(std), "bbprof: no block is measured, so nothing is scored")
		return nil
	}
	r := &score.Report{Core: string(t.core.Name), Rows: t.rows, Repeated: t.repeated, Rejected: t.rejected(), Sensitive: t.sensitive, Weight: t.weighting}
	r.Judge(t.blocks, models, c.seed, c.worst)
	for _, hint := range unitHints(t.blocks, models) {
		fmt.Fprintf(c.out.Notes(std), "bbprof: hint: %s\n", hint)
	}
	nameClasses(ctx, r, t.core.LLVM)
	files := strings.Join(c.files, ", ")
	if c.truth.cycles != "" {
		files += ", column " + c.truth.cycles
	}
	if c.report != "" {
		page := &htmlreport.Page{Report: r, Made: fmt.Sprintf("Written by bbprof %s from %s.", cli.Version(), files), Facts: t.facts(), Measured: t.blocks}
		if err := cli.WriteWhole(c.report, func(w io.Writer) error { return htmlreport.Write(w, page) }); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return cmp.Or(c.out.Write(std, r, scoreText(r, files, c.worst > 0)), errors.Join(c.failed...))
}

// nameClasses finds the LLVM scheduling classes of the mistakes of LLVM's models, if LLVM's tools are installed.
func nameClasses(ctx context.Context, r *score.Report, cpu string) {
	var mistakes []*score.Mistake
	var examples [][]byte
	for i := range r.Models {
		if !strings.Contains(r.Models[i].Source, "LLVM") {
			continue
		}
		for k := range r.Models[i].Mistakes {
			if code := r.Models[i].Mistakes[k].Example(); code != nil {
				mistakes, examples = append(mistakes, &r.Models[i].Mistakes[k]), append(examples, code)
			}
		}
	}
	if len(mistakes) == 0 || cpu == "" {
		return
	}
	classes, err := instructions.SchedClasses(ctx, cpu, examples)
	if err != nil {
		return // no such tool here
	}
	for i, m := range mistakes {
		m.Class = classes[i]
	}
}

func (t *truth) facts() []htmlreport.Fact {
	run := t.run
	facts := []htmlreport.Fact{
		{Name: "CPU", Value: run.Host.Brand}, {Name: "Core", Value: string(t.core.Name)}, {Name: "Kernel", Value: run.Kernel},
		{Name: "Clock", Value: run.Clock},
		{Name: "bbprof", Value: run.Version}, {Name: "Started", Value: run.Started},
		{Name: "Inputs", Value: strings.Join(run.Inputs, ", ")}, {Name: "Selftest", Value: run.Selftest},
	}
	if run.Controls != nil {
		facts = append(facts, htmlreport.Fact{Name: "Controls", Value: run.Controls.String()})
	}
	if n := t.rejected()[string(verdict.BusyCore)]; n > 0 {
		facts = append(facts, htmlreport.Fact{Name: "Left out", Value: words.Plural(n, "block") + " whose core was busy"})
	}
	if len(run.Workers) > 0 {
		facts = append(facts, htmlreport.Fact{Name: "Workers", Value: fmt.Sprint(len(run.Workers))})
	}
	return slices.DeleteFunc(facts, func(f htmlreport.Fact) bool { return f.Value == "" })
}

// predictAll returns the predictions of all models that do not fail, and those of the baselines. Models are for the
// measured core; where nothing is measured, for this host's if nothing names another.
func (c *scoreCmd) predictAll(ctx context.Context, t *truth, std cli.Streams) (models []score.Model, err error) {
	blocks, core := t.hexes(), t.core
	if len(blocks) == 0 && core.Name == "" {
		if core, err = c.NamedCore(); err != nil {
			return nil, err
		}
	}
	if len(c.again) > 0 {
		m, err := t.measuredAgain(c.again, std.In)
		if err != nil {
			return nil, cli.Usage(err)
		}
		models = append(models, m)
	}
	branch, _ := t.run.Settings["branch"].(string)
	c.Branch = profiler.Branch(branch)
	for _, m := range c.Models {
		model, err := c.ask(ctx, m, core, blocks, std)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			c.failed = append(c.failed, err)
			continue
		}
		models = append(models, model)
	}
	if len(c.failed) > 0 && len(c.failed) == len(c.Models) {
		return nil, errors.Join(c.failed...)
	}
	if t.core.Name == "" {
		if len(blocks) > 0 {
			fmt.Fprintln(c.out.Notes(std), "bbprof: note: the results do not tell which core they are from, so there is no lower bound; name it with -core")
		}
		return models, nil
	}
	widths := predict.LowerBounds(t.core)
	predictions, err := widths.Predict(ctx, blocks)
	return append(models, score.Model{Name: "lower bound", Kind: score.Bound, Source: widths.String(), Predictions: predictions}), err
}

// ask opens a model and has it predict the measured blocks; with -predictions all blocks, which it writes.
func (c *scoreCmd) ask(ctx context.Context, m modelflags.Model, core cpu.Core, measured []string, std cli.Streams) (said score.Model, err error) {
	if m, err = c.OpenOne(m, core); err != nil {
		return said, err
	}
	blocks, began := measured, time.Now()
	if c.predictions != "" {
		if blocks, err = rowflags.DistinctBlocks(c.files, std.In, c.column, c.out.Notes(std)); err != nil {
			return said, cli.Usage(err)
		}
	}
	list, err := m.Predict(ctx, blocks)
	if c.predictions != "" && err == nil {
		if err = m.Failed(list); err == nil {
			err = c.writePredictions(blocks, list, m, std)
		}
		list = predictionsOf(measured, blocks, list)
	} else if took := time.Since(began); err == nil && took > time.Second {
		fmt.Fprintf(c.out.Notes(std), "bbprof: %s predicted %s in %.1f s\n", m.Name, words.Plural(len(blocks), "block"), took.Seconds())
	}
	return score.Model{Name: m.Name, Kind: score.Candidate, Source: m.String(), Predictions: list}, err
}

// predictionsOf picks the predictions of some of the blocks.
func predictionsOf(some, blocks []string, list []score.Prediction) (picked []score.Prediction) {
	by := make(map[string]score.Prediction, len(blocks))
	for i, b := range blocks {
		by[b] = list[i]
	}
	for _, b := range some {
		picked = append(picked, by[b])
	}
	return picked
}

func (c *scoreCmd) writePredictions(blocks []string, list []score.Prediction, m modelflags.Model, std cli.Streams) error {
	rows := [][]string{{"hex", "cycles", "failure"}}
	for i, p := range list {
		row := []string{blocks[i], "", p.Failure}
		if p.Known() {
			row[1] = strconv.FormatFloat(p.Cycles, 'g', 8, 64)
		}
		rows = append(rows, row)
	}
	if err := cli.WriteWhole(c.predictions, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) }); err != nil {
		return fmt.Errorf("writing the predictions: %w", err)
	}
	fmt.Fprintf(c.out.Notes(std), "bbprof: %s: %s by %s\n", c.predictions, words.Plural(len(blocks), "block"), m)
	return nil
}
