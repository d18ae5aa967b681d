package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bbprof/bbprof/figure"
)

// usagePlot is the flag of every command that draws.
const usagePlot = `  -plot FILE      draw it; FILE ends in .svg, .png or .pdf; may be repeated
`

// plots are the files that -plot names.
type plots []string

func (p *plots) add(f *flag.FlagSet) {
	f.Func("plot", "", func(file string) error {
		if _, err := figure.Format(file); err != nil {
			return err
		}
		// What cannot be written should be known before measuring, not after.
		if dir, err := os.Stat(filepath.Dir(file)); err != nil || !dir.IsDir() {
			return fmt.Errorf("there is no folder %s", filepath.Dir(file))
		}
		*p = append(*p, file)
		return nil
	})
}

// draw writes the figure to each file.
func (p plots) draw(f figure.Figure) error {
	for _, file := range p {
		if err := f.Save(file); err != nil {
			return err
		}
	}
	return nil
}
