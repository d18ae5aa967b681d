package main

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/host"
)

func predictCommand() *command {
	return &command{
		name:     "predict",
		summary:  "have a model such as llvm-mca predict the blocks of a corpus",
		synopsis: []string{"predict -model SOURCE [flags] FILE...  (a corpus or a result; - is standard input)"},
		about: `It writes hex,cycles,failure of each distinct block: cycles of an iteration, or why there is no
prediction, in the tool's words. A SOURCE is what bbprof score -h lists, or lower-bound.
`,
		examples: `bbprof predict -model llvm-mca-22 -mcpu znver4 blocks.csv > mca.csv
bbprof score -model mca=mca.csv results.csv
`,
		exits: map[int]string{exitOK: "done, whether or not every block has a prediction", exitUsage: "bad usage, a file that cannot be read, or a tool that is not there or fails at all",
			exitInternal: "", exitInterrupted: "interrupted"},
		setup: func(f *flags) func(streams) error {
			c := predictingBlocks{}
			f.operands = &c.files
			f.declare(flagDecl{name: "model", arg: "[NAME=]SOURCE", help: "what predicts", set: c.addModel})
			c.addPredicting(f)
			f.text(&c.column, "column", "C", "the column of blocks, by name or number (default: hex, or the first)")
			f.toggle(&c.out.json, "json", "one JSON object on one line for each block")
			c.out.addFile(f)
			return c.run
		},
	}
}

type predictingBlocks struct {
	predicting
	files  []string
	column string
	out    output
}

func (c *predictingBlocks) run(std streams) error {
	if len(c.models) != 1 {
		return badUsage("name one model, such as -model llvm-mca-22")
	}
	if len(c.files) == 0 {
		return badUsage("no file named; name one or more, or - for standard input")
	}
	blocks, err := distinctBlocks(c.files, std.in, c.column, c.out.notes(std))
	if err != nil {
		return &usageError{err}
	}
	source, err := c.source()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	predictions, err := source.Predict(ctx, blocks)
	if err != nil {
		return sourceError(c.models[0].name, err)
	}
	if !slices.ContainsFunc(predictions, func(p score.Prediction) bool { return !p.Died }) {
		return badUsage("-model %s: it has failed at each of %s: %s", c.models[0].name, plural(len(blocks), "block"), predictions[0].Failure)
	}
	return c.out.stream(std, func(w io.Writer) error { return writePredictions(w, blocks, predictions, c.out.json) })
}

// lowerBound names the source that needs no tool.
const lowerBound = "lower-bound"

// source is the model, for the core that is named, or else that of these CPUs of this host.
func (c *predicting) source(cpus ...int) (predict.Source, error) {
	name := c.core
	if name == "" {
		name = string(host.Detect(cpus...).Microarchitecture)
	}
	core, ok := predict.CoreOf(name)
	if !ok && c.core != "" {
		return nil, badUsage("-core %s: bbprof does not know it; it knows %s", name, predict.CoreNames())
	}
	if c.models[0].text == lowerBound {
		if !ok {
			return nil, badUsage("-model %s: bbprof does not know this CPU's core; name one with -core", lowerBound)
		}
		return predict.LowerBounds(core), nil
	}
	sources, err := c.sources(core)
	if err != nil {
		return nil, err
	}
	return sources[0], nil
}

type predictionJSON struct {
	Hex     string   `json:"hex"`
	Cycles  *float64 `json:"cycles"`
	Failure string   `json:"failure,omitempty"`
}

func writePredictions(w io.Writer, blocks []string, predictions []score.Prediction, asJSON bool) error {
	lines, rows := []predictionJSON{}, [][]string{{"hex", "cycles", "failure"}}
	for i, p := range predictions {
		line, row := predictionJSON{Hex: blocks[i], Failure: p.Failure}, []string{blocks[i], "", p.Failure}
		if p.Known() {
			line.Cycles, row[1] = &p.Cycles, strconv.FormatFloat(p.Cycles, 'g', 8, 64)
		}
		lines, rows = append(lines, line), append(rows, row)
	}
	if asJSON {
		return jsonLines(w, lines)
	}
	return csv.NewWriter(w).WriteAll(rows)
}
