package explain

import (
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

func Figure(e Explanation) plot.Figure {
	effects := plot.Series{Kind: plot.Dots}
	var names []string
	for _, finding := range e.Findings {
		if finding.Effect == nil {
			continue
		}
		percent := 100 / finding.Without
		effects.Add(float64(len(names)), finding.Size*percent, finding.Low*percent, finding.High*percent)
		names = append(names, finding.Hypothesis)
	}
	return plot.Figure{Title: fmt.Sprintf("%.3f cycles per iteration as set up", e.Base.Cycles),
		Panels: []plot.Panel{{Names: names, Y: "effect, % of the cycles without", Zero: true, Series: []plot.Series{effects}}}}
}
