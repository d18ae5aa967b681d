package model

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/hunt"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func huntCommand() *cli.Command {
	return &cli.Command{
		Name:     "hunt",
		Summary:  "find blocks that a model gets wrong, and shrink them to what is wrong with it",
		Synopsis: []string{"hunt -model SOURCE [flags] [CORPUS...]  (- is standard input)"},
		About: `It measures blocks of a corpus, or generated ones, has the model predict them, and takes those whose
prediction lies outside the measured interval by more than -threshold of the cycles. Each is shrunk:
instructions are removed while the error stays. Then hunt tries the neighbours (other opcodes,
widths and kinds of operands): those with the same error belong to one class. Blocks that contain a
known class are put aside, so that rare mistakes are found, too.

A SOURCE is what bbprof score -h lists. Pointers are distinct (-init distinct), since a model cannot
know that registers are equal. Each class is measured once more, in another initial state, in a loop
and in another layout.
`,
		Notes: `docs/hunt.md explains the classes and has five reports.
`,
		Examples: `bbprof hunt -model llvm-mca-22 -report issues blocks.csv     a report for each class
bbprof hunt -model exec:'python3 predict.py' -generate 20000
`,
		Exits: map[int]string{
			cli.ExitOK:          "done, whatever was found",
			cli.ExitUsage:       "bad usage, a file that cannot be read, or a tool that is not there or fails at all",
			cli.ExitHost:        "this host cannot measure, or no longer; what was found until then is reported",
			cli.ExitInternal:    "",
			cli.ExitInterrupted: "interrupted; what was found until then is reported"},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			h := huntCmd{threshold: 0.2, blocks: 2000, generate: -1, seed: 1,
				Flags: modelflags.Flags{Timeout: huntTimeout}, SideBySide: blockflags.SideBySide{Measuring: profiler.Options{Init: "distinct"}}}
			f.Operands = &h.files
			h.AddModel(f, "the model to find mistakes of")
			cli.Parsed(f, &h.threshold, cli.ParseShare, "threshold", "P",
				"how far outside the interval a wrong prediction is, as a share of the cycles").Fallback = "20%"
			f.Text(&h.column, "column", "C", "the column of blocks, by name or number (default: hex, or the first)")
			f.Number(&h.blocks, 0, "most", "look at no more than N blocks of the corpus, chosen at random")
			cli.Parsed(f, &h.generate, func(s string) (int, error) {
				return cli.WholeNumber(s, 0, 1<<30, "write a whole number from 0 on")
			}, "generate", "N", "make up N blocks after the corpus: of instructions as frequent as there, "+
				"and of what was found, changed (default: 4000 without a corpus)")
			f.Text(&h.report, "report", "DIR", "write a report of each class into DIR: its .s, what the model says, what was measured and how to repeat that")
			h.AddSettings(f)
			f.Seed(&h.seed, "seed of what is chosen and made up")
			f.Toggle(&h.out.JSON, "json", "one JSON object instead of the table")
			h.out.AddFile(f)
			h.SideBySide.Declare(f)
			return h.out.Resumable(f, h.run, &h.report)
		},
	}
}

type huntCmd struct {
	modelflags.Flags
	blockflags.SideBySide
	files     []string
	column    string
	threshold float64
	blocks    int
	generate  int // -1: default
	report    string
	seed      uint64
	out       cli.Output
}

// huntTimeout is shorter than modelflags.Timeout: tools may hang at generated blocks.
const huntTimeout = 10 * time.Second

const generatedAlone = 4000

func (h *huntCmd) run(std cli.Streams) error {
	h.Kept = std.Kept
	if len(h.Models) != 1 {
		return cli.BadUsage("name one model, such as -model llvm-mca-22")
	}
	if err := blockflags.OneMode(&h.Measuring, profiler.Loop); err != nil {
		return err
	}
	corpus, err := h.corpus(std)
	if err != nil {
		return err
	}
	if h.generate < 0 {
		h.generate = 0
		if len(h.files) == 0 {
			h.generate = generatedAlone
		}
	}
	core, err := h.NamedCore()
	if err != nil {
		return err
	}
	models, err := h.Open(core)
	if err != nil {
		return err
	}
	if h.report != "" { // fail before measuring if it cannot be written
		if err := os.MkdirAll(h.report, 0o777); err != nil {
			return cli.BadUsage("-report %s: %w", h.report, err)
		}
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	workers, err := blockflags.SomeWorkers(ctx, std, h.Measuring, h.Workers)
	if err != nil {
		return err
	}
	defer workers.Close()
	m := &huntMeasurer{workers: workers, retries: h.Retries, width: host.Detect(h.Measuring.CPUs...).DispatchWidth}
	model := &watchedModel{Model: models[0]}
	found, err := h.hunt(ctx, std, m, model, corpus)
	if m.busy > 0 {
		fmt.Fprintf(h.out.Notes(std), "bbprof: %s left out: the core was busy\n", words.Plural(m.busy, "measurement"))
	}
	return h.finish(std, model.Source, &found, cmp.Or(err, model.Failed(model.said)))
}

// watchedModel remembers what the model said, to tell whether it failed at every block.
type watchedModel struct {
	modelflags.Model
	said []score.Prediction
}

func (m *watchedModel) Predict(ctx context.Context, blocks []string) ([]score.Prediction, error) {
	list, err := m.Model.Predict(ctx, blocks)
	m.said = append(m.said, list...)
	return list, err
}

func (h *huntCmd) hunt(ctx context.Context, std cli.Streams, m hunt.Measurer, model hunt.Predictor, corpus []string) (hunt.Findings, error) {
	meter := cli.NewMeter(h.out.Notes(std))
	defer meter.End()
	found, err := hunt.Hunt(ctx, m, model, corpus, hunt.Options{
		Threshold: h.threshold, Generate: h.generate, Seed: h.seed, Usable: hunt.NewForms(forms.Select(nil, false)),
		Progress: func(surveyed, of, wrong, classes int) {
			text := fmt.Sprintf("%d of %d blocks, %d wrong, %d classes", surveyed, of, wrong, classes)
			meter.Show(time.Now(), float64(surveyed)/float64(max(1, of)), text)
		},
	})
	if err == nil {
		err = found.AskAgain(ctx, m)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Canceled
	}
	return found, err
}

// finish writes the findings, also if err ended the search.
func (h *huntCmd) finish(std cli.Streams, source predict.Source, found *hunt.Findings, err error) error {
	if err != nil && !cli.Stopped(err) && found.Surveyed == 0 {
		return err
	}
	result := &huntResult{source.String(), h.threshold, string(host.Detect(h.Measuring.CPUs...).Microarchitecture), found, cli.Stopped(err)}
	if err := h.out.Write(std, result, result.text()); err != nil {
		return err
	}
	var reports error
	if h.report != "" {
		if failed := h.writeReports(source, found); failed != nil {
			fmt.Fprintf(std.Err, "bbprof: writing the reports: %v\n", failed)
			reports = cli.Exit(cli.ExitInternal)
		}
	}
	switch {
	case cli.Stopped(err):
		fmt.Fprintln(std.Err, "bbprof: interrupted; this is what was found until then")
		return cli.Exit(cli.ExitInterrupted)
	case err != nil && blockflags.ExitOf(err) != cli.ExitUsage: // a usage error: the model failed at every block
		fmt.Fprintln(std.Err, "bbprof: the search ended early; this is what was found until then")
	}
	return cmp.Or(err, reports)
}

// corpus reads the files' blocks in random order, at most h.blocks.
func (h *huntCmd) corpus(std cli.Streams) ([]string, error) {
	if len(h.files) == 0 {
		return nil, nil
	}
	blocks, err := rowflags.DistinctBlocks(h.files, std.In, h.column, h.out.Notes(std))
	if err != nil {
		return nil, cli.Usage(err)
	}
	rng := rand.New(rand.NewPCG(h.seed, 1))
	rng.Shuffle(len(blocks), func(i, k int) { blocks[i], blocks[k] = blocks[k], blocks[i] })
	return blocks[:min(len(blocks), h.blocks)], nil
}

type huntMeasurer struct {
	workers blockflags.Workers
	retries int
	width   int // operations renamed a cycle
	busy    int // results without a number because the core was busy
}

func huntSetup(how hunt.How) profiler.Setup {
	var s profiler.Setup
	switch how {
	case hunt.OtherState:
		paper := initial.Paper()
		s.Init = &paper
	case hunt.AsLoop:
		s.Mode = profiler.Loop
	case hunt.OtherLayout:
		offset := 32
		s.CodeOffset = &offset
	}
	return s
}

func (m *huntMeasurer) Measure(ctx context.Context, cases []hunt.Case, how hunt.How) ([]hunt.Measurement, error) {
	blocks := make([]profiler.Block, len(cases))
	for i, c := range cases {
		blocks[i].Code, _ = hex.DecodeString(c.Hex)
		blocks[i].Setup = huntSetup(how)
		if c.Set != "" {
			blocks[i].Setup.Set, _ = initial.ParseSet(c.Set) // written by hunt, so valid
		}
	}
	results, err := pool.All(ctx, m.workers.Measurers(), blocks, m.retries, 0, nil) // there are hundreds of such calls, each of a few blocks
	out := make([]hunt.Measurement, len(results))
	for i := range results {
		out[i] = measurementOf(&results[i], m.width)
		if results[i].Reason == verdict.BusyCore {
			m.busy++
		}
	}
	return out, err
}

// measurementOf converts a result. Copies that fill all rename slots can read too fast, because the first ones retire
// faster than later ones are renamed. So an interval below the slots' limit is extended up to it.
func measurementOf(r *profiler.Result, width int) hunt.Measurement {
	m := hunt.Measurement{Cycles: r.Cycles, Low: r.CILow, High: r.CIHigh, Result: r}
	slots := 0.0
	if width > 0 { // known
		slots = float64(r.Instructions) / float64(width)
	}
	others := len(r.Warnings)
	if r.Impossible == profiler.BelowDispatch {
		others-- // says the same
	}
	switch err := r.Err(); {
	case err != nil:
		m.Why = err.Error()
	case r.SelfForwarding > 0:
		m.Why = "a load waits for a store only because registers or words of memory start equal"
	case others > 0:
		m.Why = "warning: " + strings.Join(r.Warnings, "; ")
	case r.Cycles < slots:
		m.High, m.Suspect = max(m.High, slots), true
	}
	return m
}

type huntResult struct {
	Model     string  `json:"model"`
	Threshold float64 `json:"threshold"`
	Core      string  `json:"core"`
	*hunt.Findings
	Interrupted bool `json:"interrupted,omitempty"`
}

func (f *huntResult) text() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s: %d of %s wrong by more than %.3g %%; %s\n",
		f.Model, f.Wrong, words.Plural(f.Surveyed, "block"), 100*f.Threshold, words.Plural(len(f.Classes), "class"))
	if f.Error > 0 {
		fmt.Fprintf(&w, "blocks with one of them hold %.1f %% of the corpus' excess error\n", 100*float64(f.Explained))
	}
	if f.Unconfirmed > 0 {
		fmt.Fprintf(&w, "%s left out: a second measurement did not show the error, or there was none beside other work\n",
			words.Plural(f.Unconfirmed, "smallest block"))
	}
	if len(f.Classes) == 0 {
		return w.String()
	}
	t := cli.NewTable("rrlrrrl", "share", "blocks", "model is", "predicted", "measured", "ratio", "smallest block, and what shows the same")
	for i := range f.Classes {
		c := &f.Classes[i]
		block := c.Text
		if c.Set != "" {
			block += ", with " + c.Set
		}
		if list := c.Doubts(); len(list) > 0 {
			block += "  [not in: " + strings.Join(list, ", ") + "]"
		}
		t.Row(c.Share.Percent()+" %", strconv.Itoa(c.Blocks), string(c.Sign), twoDigits(c.Predicted.Cycles), twoDigits(c.Cycles),
			twoDigits(c.Predicted.Cycles/c.Cycles), block)
		if same := c.Same(); len(same) > 0 {
			t.Row("", "", "", "", "", "", "  also "+shortened(same, 6))
		}
	}
	w.WriteString("\n" + t.String())
	return w.String()
}

func twoDigits(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func shortened(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:n], "; "), len(list)-n)
}

//go:embed hunt_report.tmpl
var huntReport string

// reported is what a class's report shows.
type reported struct {
	*hunt.Class
	predict.Explanation
	Source          predict.Source
	Measured        []hunt.Opinion
	Factor          float64
	Info            host.CPU
	Kernel, Version string
}

// writeReports writes two files per class: its assembly, and what an issue about it needs.
func (h *huntCmd) writeReports(source predict.Source, found *hunt.Findings) error {
	page := template.Must(template.New("report").Funcs(template.FuncMap{
		"trim": strings.TrimSpace, "lines": func(text string) string { return strings.Trim(text, "\n") },
		"cell": func(text string) string { return strings.ReplaceAll(text, "|", "/") },
	}).Parse(huntReport))
	for i := range found.Classes {
		c := &found.Classes[i]
		name := fmt.Sprintf("%03d-%s", i+1, slug(c))
		e := predict.Explanation{Assembly: "\t.intel_syntax noprefix\n\t" + strings.ReplaceAll(c.Text, "; ", "\n\t") + "\n"}
		if x, ok := source.(*predict.MCA); ok {
			if said, err := x.Explain(context.Background(), c.Hex, name+".s"); err == nil {
				e = said
			}
		}
		ratio := c.Predicted.Cycles / c.Cycles
		var text bytes.Buffer
		err := page.Execute(&text, reported{c, e, source, append([]hunt.Opinion{{How: hunt.Survey, Measurement: c.Measurement}}, c.Opinions...),
			max(ratio, 1/ratio), host.Detect(h.Measuring.CPUs...), host.ThisMachine().Kernel, cli.Version()})
		err = cmp.Or(err, os.WriteFile(filepath.Join(h.report, name+".s"), []byte(e.Assembly), 0o666))
		if err = cmp.Or(err, os.WriteFile(filepath.Join(h.report, name+".md"), text.Bytes(), 0o666)); err != nil {
			return err
		}
	}
	return nil
}

func slug(c *hunt.Class) string {
	const longest = 40
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return ' '
	}, strings.Join(c.Holds(), " "))
	name = strings.Join(strings.Fields(name), "-")
	return name[:min(len(name), longest)]
}
