package explain

import (
	"fmt"

	"github.com/bbprof/bbprof/figure"
)

// Figure draws the effects that were measured, in percent of the time without.
func Figure(e Explanation) figure.Figure {
	effects := figure.Series{Dots: true}
	f := figure.Figure{Title: fmt.Sprintf("%.3f cycles per iteration as set up", e.Base.Cycles)}
	for _, finding := range e.Findings {
		if finding.Without == 0 {
			continue
		}
		percent := 100 / finding.Without
		effects.X = append(effects.X, float64(len(f.Names)))
		effects.Y = append(effects.Y, finding.Effect*percent)
		effects.Low = append(effects.Low, finding.Low*percent)
		effects.High = append(effects.High, finding.High*percent)
		f.Names = append(f.Names, finding.Hypothesis)
	}
	f.Panels = []figure.Panel{{Y: "effect, % of the cycles without", Zero: true, Series: []figure.Series{effects}}}
	return f
}
