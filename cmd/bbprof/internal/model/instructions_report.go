package model

import (
	"context"
	"fmt"
	"io"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
)

// disagreeing is how far outside an interval a model may be, as a share of the measurement: two measurements of a form
// differ by less.
const disagreeing = 0.02

// disagree asks a model for the measured blocks and writes where it is wrong.
func (c *instructionsCmd) disagree(ctx context.Context, std cli.Streams, rows []instructions.Row, model modelflags.Model) error {
	blocks := instructions.Blocks(rows)
	models, through := []modelflags.Model{model}, ""
	if a, ok := model.Source.(*predict.MCA); ok {
		models = append(models, modelflags.Model{Name: model.Name, Source: a.Aliasing()})
		through = "; a latency through memory, both with loads that wait for stores and without (-noalias)"
	}
	var cycles []map[string]float64
	for _, m := range models {
		predictions, err := m.Predict(ctx, blocks)
		if err != nil {
			return err
		}
		by := map[string]float64{}
		for i, p := range predictions {
			if p.Known() {
				by[blocks[i]] = p.Cycles
			}
		}
		cycles = append(cycles, by)
	}
	list, judged := instructions.Disagreements(rows, disagreeing, cycles...)
	title := fmt.Sprintf("%s: %d of %d numbers are outside the measured interval by more than %.0f %%%s", model, len(list), judged, 100*disagreeing, through)
	fmt.Fprintf(c.out.Notes(std), "bbprof: %s\n", title)
	err := cli.WriteWhole(c.report, func(w io.Writer) error {
		t := cli.NewTable("rrrl", "measured", "model", "factor", "form", "what", "block")
		for _, d := range list {
			t.Row(twoDigits(d.Cycles()), twoDigits(d.Model), twoDigits(d.Times()), d.Form, d.Title(), d.Block)
		}
		fmt.Fprintf(w, "%s\n\n%s", title, t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	return nil
}
