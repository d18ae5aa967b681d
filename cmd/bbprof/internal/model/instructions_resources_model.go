package model

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/resources"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
)

// judgeTable compares a model with the uses in an existing table. It asks for the same mixes: each kernel with and
// without the form.
func (c *instructionsCmd) judgeTable(std cli.Streams, name string, models []modelflags.Model) error {
	if len(models) == 0 {
		return cli.BadUsage("%s is a table of resources; name a model to compare with it by -model, and a file by -report", name)
	}
	t, err := resources.Open(name)
	if err != nil {
		return cli.Usage(err)
	}
	counts, total, err := c.formCounts(std, t)
	if err != nil {
		return cli.BadUsage("-corpus: %w", err)
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	code := func(mix []resources.Copies) string {
		b, _ := instructions.Mix(mix) // empty if there is none
		return hex.EncodeToString(b.Code)
	}
	questions := t.Questions(slices.Sorted(maps.Keys(counts)))
	var blocks []string
	for _, q := range questions {
		blocks = append(blocks, code(q.Kernel), code(q.With))
	}
	asked := slices.Compact(slices.Sorted(slices.Values(blocks)))
	asked = slices.DeleteFunc(asked, func(b string) bool { return b == "" })
	said, err := models[0].Predict(ctx, asked)
	if err != nil {
		return err
	}
	answers := predictionsOf(blocks, asked, said)
	uses := map[int][]resources.ModelUse{}
	for i, q := range questions {
		if kernel, with := answers[2*i], answers[2*i+1]; kernel.Known() && with.Known() {
			uses[q.Form] = append(uses[q.Form], t.Compare(q, (with.Cycles-kernel.Cycles)/float64(q.N)))
		}
	}
	compared := len(uses)
	list := resources.Differences(uses, counts)
	return cli.WriteWhole(c.report, func(w io.Writer) error {
		fmt.Fprintf(w, "%s: %d of %d forms use a resource of %s differently than measured, by more than 0.1 cycles and 20 %%\n"+
			"A resource is named by the instructions that saturate it; a use is the cycles that one instruction of the form adds to these, "+
			"in whole slots.\n", models[0], len(list), compared, t.Core)
		return writeDifferences(ctx, w, t, models[0], list, total)
	})
}

// writeDifferences writes where the model differs; total counts the corpus' instructions, 0 without one.
func writeDifferences(ctx context.Context, w io.Writer, t *resources.Table, model modelflags.Model, list []resources.Difference, total float64) error {
	named := make([]string, len(list))
	if p, ok := model.Source.(*predict.MCA); ok {
		var examples []string
		for _, d := range list {
			code, _ := forms.Example(asm.FormNamed(t.Forms[d.Form].Name)) // without an example, nothing is known
			examples = append(examples, hex.EncodeToString(code))
		}
		var err error
		if named, err = p.Pressure(ctx, examples); err != nil {
			return model.Error(err)
		}
	}
	for i, d := range list {
		form := &t.Forms[d.Form]
		fmt.Fprintf(w, "\n%s", form.Name)
		if total > 0 {
			fmt.Fprintf(w, "  (%.2f %% of the corpus)", 100*d.Counts/total)
		}
		fmt.Fprintf(w, "\n  one of many takes %.2f cycles", form.Alone)
		if named[i] != "" {
			fmt.Fprintf(w, "; the model has %s", named[i])
		}
		fmt.Fprintln(w)
		for _, u := range d.Uses {
			r := &t.Resources[u.Resource]
			fmt.Fprintf(w, "  measured %.2f, model %.2f of %s (%.2f a cycle)\n", u.Measured, u.Model, r.Name, r.PerCycle)
		}
	}
	return nil
}

// formCounts counts the table's forms, and all, in the corpus of -corpus; without one each form counts once, of 0.
func (c *instructionsCmd) formCounts(std cli.Streams, t *resources.Table) (counts map[int]float64, total float64, err error) {
	number := map[string]int{}
	counts = map[int]float64{}
	for i := range t.Forms {
		number[t.Forms[i].Name], counts[i] = i, 1
	}
	if c.corpus == "" {
		return counts, 0, nil
	}
	clear(counts)
	blocks, err := rowflags.DistinctBlocks([]string{c.corpus}, std.In, input.NoFlag, c.out.Notes(std))
	for _, b := range blocks {
		insts, _ := asm.DecodeHex(b) // empty if invalid
		for i := range insts {
			if form := insts[i].Form(); form != nil {
				if at, ok := number[form.Name()]; ok {
					counts[at]++
				}
				total++
			}
		}
	}
	return counts, total, err
}

// isResources reports whether a file name is a resource table's.
func isResources(name string) bool { return strings.HasSuffix(name, ".json") }
