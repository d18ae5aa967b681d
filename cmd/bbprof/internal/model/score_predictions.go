package model

import (
	"bytes"
	"cmp"
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
func (c *scoreCmd) writePredictions(ctx context.Context, model predicting.Model, stdin io.Reader, std cli.Streams) (predict.Source, error) {
	blocks, err := rowfile.DistinctBlocks(c.files, stdin, c.column, c.out.Notes(std))
	if err != nil {
		return nil, cli.Usage(err)
	}
	list, err := model.Predict(ctx, blocks)
	if err = cmp.Or(err, model.Failed(list)); err != nil {
		return nil, err
	}
	said := cachedSource{model.Source, map[string]score.Prediction{}}
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
	fmt.Fprintf(c.out.Notes(std), "bbprof: %s: %s by %s\n", c.predictions, words.Plural(len(blocks), "block"), model)
	return said, nil
}

// cachedSource answers from earlier predictions.
type cachedSource struct {
	predict.Source
	of map[string]score.Prediction
}

func (p cachedSource) Predict(_ context.Context, blocks []string) (list []score.Prediction, err error) {
	for _, b := range blocks {
		list = append(list, p.of[b]) // of a measured block, so it was asked
	}
	return list, nil
}
