package model

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/resources"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/predicting"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowfile"
)

// judgeTable compares a model with the uses in an existing table.
func (c *instructionsCmd) judgeTable(std cli.Streams, name string, sources []predict.Source) error {
	if len(sources) == 0 {
		return cli.BadUsage("%s is a table of resources; name a model to compare with it by -model, and a file by -report", name)
	}
	in, err := os.Open(name)
	if err != nil {
		return cli.Usage(err)
	}
	defer in.Close()
	f, err := resources.Read(in)
	if err != nil {
		return cli.BadUsage("%s: %w", name, err)
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	return cli.WriteWhole(c.report, func(w io.Writer) error { return c.resourcesOf(ctx, std, w, f, sources[0]) })
}

// resourcesOf writes where a model's uses of resources differ from the measured ones. It asks for the same mixes: each
// kernel with and without the form.
func (c *instructionsCmd) resourcesOf(ctx context.Context, std cli.Streams, w io.Writer, f *resources.File, source predict.Source) error {
	counts, total, err := c.formCounts(std, f)
	if err != nil {
		return cli.BadUsage("-corpus: %w", err)
	}
	var asked []int
	for i := range f.Forms {
		if counts == nil || counts[i] > 0 {
			asked = append(asked, i)
		}
	}
	questions := f.Questions(asked)
	number := map[string]int{}
	var blocks []string
	block := func(mix []resources.FileKernel) int {
		code, err := mixCode(mix)
		if err != nil {
			return -1
		}
		at, known := number[code]
		if !known {
			at = len(blocks)
			number[code] = at
			blocks = append(blocks, code)
		}
		return at
	}
	type pair struct{ kernel, with int }
	var pairs []pair
	for _, q := range questions {
		pairs = append(pairs, pair{block(q.Kernel), block(q.With)})
	}
	answers, err := source.Predict(ctx, blocks)
	if err != nil {
		return predicting.SourceError(c.Models[0].Name, err)
	}
	uses := map[int][]resources.ModelUse{}
	for i, q := range questions {
		if p := pairs[i]; p.kernel >= 0 && p.with >= 0 && answers[p.kernel].Known() && answers[p.with].Known() {
			model := (answers[p.with].Cycles - answers[p.kernel].Cycles) / float64(q.N)
			uses[q.Form] = append(uses[q.Form], f.Compare(q, model))
		}
	}
	list := resources.Differences(uses, func(form int) float64 {
		if counts == nil {
			return 1
		}
		return counts[form]
	})
	return c.writeDifferences(ctx, w, f, source, list, len(uses), counts != nil, total)
}

func (c *instructionsCmd) writeDifferences(ctx context.Context, w io.Writer, f *resources.File, source predict.Source, list []resources.Difference, asked int, counted bool, total float64) error {
	named := make([]string, len(list))
	if p, ok := source.(predict.Presser); ok {
		var examples []string
		for _, d := range list {
			code, _ := forms.Example(asm.FormNamed(f.Forms[d.Form].Form)) // without an example, nothing is known
			examples = append(examples, hex.EncodeToString(code))
		}
		var err error
		if named, err = p.Pressure(ctx, examples); err != nil {
			return predicting.SourceError(c.Models[0].Name, err)
		}
	}
	fmt.Fprintf(w, "%s: %d of %d forms use a resource of %s differently than measured, by more than 0.1 cycles and 20 %%\n", source, len(list), asked, f.Core)
	fmt.Fprint(w, "A resource is named by the instructions that saturate it; a use is the cycles that one instruction of the form adds to these, in whole slots.\n")
	for i, d := range list {
		fmt.Fprintf(w, "\n%s", f.Forms[d.Form].Form)
		if counted {
			fmt.Fprintf(w, "  (%.2f %% of the corpus)", 100*d.Counts/total)
		}
		fmt.Fprintf(w, "\n  one of many takes %.2f cycles", f.Forms[d.Form].Alone)
		if named[i] != "" {
			fmt.Fprintf(w, "; the model has %s", named[i])
		}
		fmt.Fprintln(w)
		for _, u := range d.Uses {
			r := &f.Resources[u.Resource]
			fmt.Fprintf(w, "  measured %.2f, model %.2f of %s (%.2f a cycle)\n", u.Measured, u.Model, r.Name, r.PerCycle)
		}
	}
	return nil
}

// mixCode returns a mix's block in hexadecimal.
func mixCode(mix []resources.FileKernel) (string, error) {
	var parts []instructions.Copies
	for _, k := range mix {
		form := asm.FormNamed(k.Form)
		if form == nil {
			return "", errors.New("there is no form " + k.Form)
		}
		parts = append(parts, instructions.Copies{Form: form, N: k.N})
	}
	b, _, err := instructions.Mix(parts)
	return hex.EncodeToString(b.Code), err
}

// formCounts counts forms in the corpus of -corpus, nil without one.
func (c *instructionsCmd) formCounts(std cli.Streams, f *resources.File) (counts []float64, total float64, err error) {
	if c.corpus == "" {
		return nil, 0, nil
	}
	blocks, err := rowfile.DistinctBlocks([]string{c.corpus}, std.In, "", c.out.Notes(std))
	if err != nil {
		return nil, 0, err
	}
	number := map[string]int{}
	for i := range f.Forms {
		number[f.Forms[i].Form] = i
	}
	counts = make([]float64, len(f.Forms))
	for _, b := range blocks {
		insts, err := asm.DecodeHex(b)
		if err != nil {
			continue
		}
		for i := range insts {
			if form := insts[i].Form(); form != nil {
				if at, ok := number[form.Name()]; ok {
					counts[at]++
				}
				total++
			}
		}
	}
	return counts, total, nil
}

// isResources reports whether a file name is a resource table's.
func isResources(name string) bool { return strings.HasSuffix(name, ".json") }
