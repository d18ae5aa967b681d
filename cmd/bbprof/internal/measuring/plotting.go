package measuring

import (
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/internal/host"
)

// PlotFile is the file to draw into, if any.
type PlotFile string

func (p *PlotFile) Add(f *cli.Flags) {
	f.Declare(cli.Flag{Name: "plot", Arg: "FILE", Help: "draw it as SVG; FILE ends in .svg", Writes: true, Set: func(file string) error {
		if err := plot.Check(file); err != nil {
			return err
		}
		// What cannot be written should be known before measuring, not after.
		if err := cli.Replaceable(file); err != nil {
			return err
		}
		*p = PlotFile(file)
		return nil
	}})
}

// Draw writes the figure of a subject, such as "block 4801c0", measured on some CPUs.
func (p PlotFile) Draw(subject string, cpus []int, f plot.Figure) error {
	if p == "" {
		return nil
	}
	cpu := host.Detect(cpus...)
	f.Subject, f.Machine = subject, fmt.Sprintf("%s (%s)", cpu.Brand, cpu.Microarchitecture)
	return cli.WriteWhole(string(p), f.Draw)
}

func BlockSubject(hex string) string {
	const shown = 160 // two lines
	if len(hex) > shown {
		hex = hex[:shown] + "…"
	}
	return "block " + hex
}
