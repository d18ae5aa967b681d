package model

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/predicting"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// readTwice buffers standard input, if it is among the files, for a second reading.
func readTwice(files []string, stdin io.Reader) (first, second io.Reader, err error) {
	if !slices.Contains(files, "-") {
		return stdin, stdin, nil
	}
	all, err := io.ReadAll(stdin)
	return bytes.NewReader(all), bytes.NewReader(all), err
}

// writePredictions writes the model's prediction of each distinct block, measured or not. It returns a source that
// repeats these predictions.
func (c *scoreCmd) writePredictions(ctx context.Context, source predict.Source, stdin io.Reader, std cli.Streams) (predict.Source, error) {
	blocks, err := rowfile.DistinctBlocks(c.files, stdin, c.column, c.out.Notes(std))
	if err != nil {
		return nil, cli.Usage(err)
	}
	list, err := source.Predict(ctx, blocks)
	if err != nil {
		return nil, predicting.SourceError(c.Models[0].Name, err)
	}
	if !slices.ContainsFunc(list, func(p score.Prediction) bool { return !p.Died }) {
		return nil, cli.BadUsage("-model %s: it has failed at each of %s: %s", c.Models[0].Name, words.Plural(len(blocks), "block"), list[0].Failure)
	}
	said := cachedSource{source, map[string]score.Prediction{}}
	rows := [][]string{{"hex", "cycles", "failure"}}
	for i, p := range list {
		said.of[blocks[i]] = p
		row := []string{blocks[i], "", p.Failure}
		if p.Known() {
			row[1] = strconv.FormatFloat(p.Cycles, 'g', 8, 64)
		}
		rows = append(rows, row)
	}
	err = cli.WriteWhole(c.predictions, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) })
	if err != nil {
		return nil, fmt.Errorf("writing the predictions: %w", err)
	}
	fmt.Fprintf(c.out.Notes(std), "bbprof: %s: %s by %s\n", c.predictions, words.Plural(len(blocks), "block"), source)
	return said, nil
}

// cachedSource answers from earlier predictions.
type cachedSource struct {
	predict.Source
	of map[string]score.Prediction
}

func (p cachedSource) Predict(_ context.Context, blocks []string) (list []score.Prediction, err error) {
	for _, b := range blocks {
		said, ok := p.of[b]
		if !ok {
			said = score.Failed("not asked")
		}
		list = append(list, said)
	}
	return list, nil
}
