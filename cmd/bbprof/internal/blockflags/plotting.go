package blockflags

import (
	"cmp"
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
)

type PlotFile string

func (p *PlotFile) Add(f *cli.Flags) {
	f.Declare(cli.Flag{Name: "plot", Arg: "FILE", Help: "draw it as SVG; FILE ends in .svg", Writes: true, Set: func(file string) error {
		if err := plot.Check(file); err != nil {
			return err
		}
		// Fail before measuring, not after.
		if err := cli.Replaceable(file); err != nil {
			return err
		}
		*p = PlotFile(file)
		return nil
	}})
}

// Draw writes the figure of a subject, such as "block 4801c0", measured on the given CPUs.
func (p PlotFile) Draw(subject string, cpus []int, f plot.Figure) error {
	if p == "" {
		return nil
	}
	f.Subject, f.Machine = subject, cmp.Or(f.Machine, Machine(cpus))
	return cli.WriteWhole(string(p), f.Draw)
}

func Machine(cpus []int) string {
	cpu := host.Detect(cpus...)
	return fmt.Sprintf("%s (%s)", cpu.Brand, cpu.Microarchitecture)
}

func BlockSubject(hex string) string {
	const twoLines = 160
	return "block " + words.Cut(hex, twoLines)
}
