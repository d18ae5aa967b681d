// Package modelflags holds what the commands that query models share.
package modelflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Timeout limits how long a tool may be silent. Learned models start slowly.
const Timeout = time.Minute

type Flags struct {
	Models  []Model
	MCPU    string
	Core    string
	Timeout time.Duration // without an answer; 0 means the default
	Branch  profiler.Branch
	Kept    *journal.Journal // asked before the models
	Notes   io.Writer        // gets progress; may be nil
}

// Model is a model that was asked for, and its source once it is open. Its errors name it.
type Model struct {
	Name, Text string
	predict.Source
	kept  *journal.Journal
	notes io.Writer
}

// A model that is asked for many blocks predicts a few first, and more at a time until it takes longEnough before they are kept:
// a learned model takes seconds to start.
const (
	firstFew   = 64
	manyMore   = 8
	longEnough = 10 * time.Second
)

func init() { journal.Register(score.Prediction{}) }

func (m Model) Predict(ctx context.Context, blocks []string) ([]score.Prediction, error) {
	if m.kept == nil {
		list, err := m.Source.Predict(ctx, blocks)
		if err != nil {
			err = m.Error(err)
		}
		return list, err
	}
	list := make([]score.Prediction, len(blocks))
	var asked []int
	for i, b := range blocks {
		if p, ok := m.kept.Take(m.key(b)); ok {
			list[i] = p.(score.Prediction)
		} else {
			asked = append(asked, i)
		}
	}
	shown := cli.Progress(cmp.Or(m.notes, io.Discard), len(blocks), "blocks by "+m.Name)
	defer shown.End()
	for few := firstFew; len(asked) > 0; {
		shown.Step(len(blocks) - len(asked))
		part, began := asked[:min(few, len(asked))], time.Now()
		asked = asked[len(part):]
		var some []string
		for _, i := range part {
			some = append(some, blocks[i])
		}
		said, err := m.Source.Predict(ctx, some)
		if err != nil {
			return list, m.Error(err)
		}
		if time.Since(began) < longEnough {
			few *= manyMore
		}
		for k, i := range part {
			if list[i] = said[k]; said[k].Known() {
				if err := m.kept.Keep(m.key(blocks[i]), said[k]); err != nil {
					return list, err
				}
			}
		}
	}
	return list, nil
}

func (m Model) key(block string) string { return m.String() + " " + block }

// Error names the model, and turns what the user can fix into a usage error.
func (m Model) Error(err error) error {
	if usage := (*predict.UsageError)(nil); errors.As(err, &usage) {
		return cli.BadUsage("-model %s: %w", m.Name, err)
	}
	return fmt.Errorf("-model %s: %w", m.Name, err)
}

// Failed returns an error if the model failed at every block. The source itself gives up only after several.
func (m Model) Failed(list []score.Prediction) error {
	if len(list) == 0 || slices.ContainsFunc(list, func(p score.Prediction) bool { return !p.Died }) {
		return nil
	}
	return cli.BadUsage("-model %s: it has failed at each of %s: %s", m.Name, words.Plural(len(list), "block"), list[len(list)-1].Failure)
}

// View returns llvm-mca's pressure and timeline of a block; "" for other models.
func (m Model) View(ctx context.Context, code []byte) string {
	x, ok := m.Source.(*predict.MCA)
	if !ok {
		return ""
	}
	said, _ := x.Explain(ctx, fmt.Sprintf("%x", code), "-", predict.Timeline...) // an error leaves it empty
	return said.Output
}

func (p *Flags) AddModel(f *cli.Flags, help string) {
	f.Declare(cli.Flag{Name: "model", Arg: "[NAME=]SOURCE", Help: help, Set: p.addModel})
}

func (p *Flags) addModel(s string) error {
	name, source, ok := strings.Cut(s, "=")
	if !ok || strings.ContainsAny(name, ",:") { // the = belongs to the source
		name, source = s, s
	}
	if name == "" || source == "" {
		return errors.New("write NAME=SOURCE, such as mca=llvm-mca-22")
	}
	if slices.ContainsFunc(p.Models, func(m Model) bool { return m.Name == name }) {
		return fmt.Errorf("there are two models of the name %s", name)
	}
	p.Models = append(p.Models, Model{Name: name, Text: source})
	return nil
}

func (p *Flags) AddMCPU(f *cli.Flags) {
	f.Text(&p.MCPU, "mcpu", "CPU", "the core that llvm-mca predicts, by LLVM's name (default: the one that was measured)")
}

// AddSettings declares the flags that apply to all models of a command.
func (p *Flags) AddSettings(f *cli.Flags) {
	if p.Timeout == 0 {
		p.Timeout = Timeout
	}
	p.AddMCPU(f)
	f.Text(&p.Core, "core", "NAME", "the core that was measured, such as \"Zen 4\", where the results do not tell")
	cli.Parsed(f, &p.Timeout, cli.ParseDuration, "timeout", "TIME",
		"end a tool that has been silent for so long, and blame the block that it was at").Fallback = p.Timeout.String()
}

// Open opens the models for a core.
func (p *Flags) Open(core cpu.Core) (list []Model, err error) {
	for _, m := range p.Models {
		if m, err = p.OpenOne(m, core); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func (p *Flags) OpenOne(m Model, core cpu.Core) (_ Model, err error) {
	m.Source, err = predict.Parse(m.Text, predict.Options{Core: core, MCPU: p.MCPU, Timeout: cmp.Or(p.Timeout, Timeout), Branch: p.Branch, Open: OpenTable})
	if err != nil {
		err = fmt.Errorf("-model %s: %w", m.Name, err)
		if host := (*verdict.HostError)(nil); !errors.As(err, &host) {
			err = cli.Usage(err)
		}
	}
	m.kept, m.notes = p.Kept, p.Notes
	return m, err
}

// NamedCore returns the core that -core names, or else the core of these CPUs.
func (p *Flags) NamedCore(cpus ...int) (cpu.Core, error) {
	core, err := predict.CoreNamed(p.Core, string(host.Detect(cpus...).Microarchitecture))
	if err != nil {
		err = cli.Usage(err)
	}
	return core, err
}

// OpenTable opens a file of predictions. Its rows close it.
func OpenTable(name string) (columns []string, rows iter.Seq2[[]string, error], err error) {
	in, err := resultfile.OpenRows(name, nil)
	if err != nil {
		return nil, nil, err
	}
	in.Foreign = true
	return in.Schema.Names(), func(yield func([]string, error) bool) {
		defer in.Close()
		for row, err := range in.All() {
			if !yield(row.Cells, err) {
				return
			}
		}
	}, nil
}
