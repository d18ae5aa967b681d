// Package predicting holds what the commands that query models share.
package predicting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/predict"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

// Timeout limits how long a tool may be silent. Learned models start slowly.
const Timeout = time.Minute

// Flags holds the models and their settings.
type Flags struct {
	Models  []Model
	MCPU    string
	Core    string
	Timeout time.Duration // without an answer; 0 means the default
	Branch  profiler.Branch
}

type Model struct{ Name, Text string }

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
	p.Models = append(p.Models, Model{name, source})
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
	cli.Parsed(f, &p.Timeout, cli.ParseDuration, "timeout", "TIME", "end a tool that has been silent for so long, and blame the block that it was at").Fallback = p.Timeout.String()
}

// Sources opens the models for a core.
func (p *Flags) Sources(core predict.Core) ([]predict.Source, error) {
	var list []predict.Source
	for _, m := range p.Models {
		s, err := p.Source(m, core)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Source opens one model.
func (p *Flags) Source(m Model, core predict.Core) (predict.Source, error) {
	s, err := predict.Parse(m.Text, predict.Options{Core: core, MCPU: p.MCPU, Timeout: cmp.Or(p.Timeout, Timeout), Branch: p.Branch, Open: OpenTable})
	if err != nil {
		return nil, cli.BadUsage("-model %s: %w", m.Name, err)
	}
	return s, nil
}

// NamedCore returns the core that -core names, or else the core of these CPUs.
func (p *Flags) NamedCore(cpus ...int) (predict.Core, error) {
	name := p.Core
	if name == "" {
		name = string(host.Detect(cpus...).Microarchitecture)
	}
	core, ok := predict.CoreOf(name)
	if !ok && p.Core != "" {
		return core, cli.BadUsage("-core %s: bbprof does not know it; it knows %s", name, predict.CoreNames())
	}
	return core, nil
}

// View returns llvm-mca's pressure and timeline of a block; "" for other models.
func View(ctx context.Context, s predict.Source, code []byte) string {
	x, ok := s.(predict.Explainer)
	if !ok {
		return ""
	}
	said, _ := x.Explain(ctx, fmt.Sprintf("%x", code), "-", predict.Timeline...) // an error leaves it empty
	return said.Output
}

// SourceError turns what the user can fix into a usage error.
func SourceError(name string, err error) error {
	if usage := (*predict.UsageError)(nil); errors.As(err, &usage) {
		return cli.BadUsage("-model %s: %w", name, err)
	}
	return fmt.Errorf("-model %s: %w", name, err)
}

// tableRows reads a file of predictions.
type tableRows struct{ *resultfile.Rows }

func (r tableRows) Columns() []string { return r.Schema.Names() }

func (r tableRows) Next() ([]string, error) {
	row, err := r.Rows.Next()
	return row.Cells, err
}

// OpenTable opens a file of predictions.
func OpenTable(name string) (predict.Rows, error) {
	in, err := resultfile.OpenRows(name, nil)
	if err != nil {
		return nil, err
	}
	return tableRows{in}, nil
}
