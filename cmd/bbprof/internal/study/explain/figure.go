package explain

import (
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

func Figure(e Explanation) plot.Figure {
	effects := plot.Series{Kind: plot.Dots}
	f := plot.Figure{Title: fmt.Sprintf("%.3f cycles per iteration as set up", e.Base.Cycles)}
	for _, finding := range e.Findings {
		if finding.Effect == nil {
			continue
		}
		percent := 100 / finding.Without
		effects.Add(float64(len(f.Names)), finding.Size*percent, finding.Low*percent, finding.High*percent)
		f.Names = append(f.Names, finding.Hypothesis)
	}
	f.Panels = []plot.Panel{{Y: "effect, % of the cycles without", Zero: true, Series: []plot.Series{effects}}}
	return f
}
