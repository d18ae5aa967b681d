package sweep

import (
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

// Figure draws the cycles and, below them, what was predicted and varies.
func Figure(points []Point, f Factor) plot.Figure {
	ps := measured(points)
	cycles := plot.Series{}
	for _, p := range ps {
		cycles.Add(float64(p.Value), p.Result.Cycles, p.Result.CILow, p.Result.CIHigh)
	}
	first, last := f.Values[0], f.Values[len(f.Values)-1]
	fig := plot.Figure{X: f.Label, Ticks: Ticks(first, last), Panels: []plot.Panel{{Y: "cycles per iteration", Series: []plot.Series{cycles}}}}
	var relations []string
	predicted := plot.Panel{Y: "predicted per iteration", Zero: true}
	for _, r := range Relate(points) {
		if r.R != r.R { // the same everywhere
			continue
		}
		predicted.Series = append(predicted.Series, plot.Series{Name: r.Column, X: cycles.X, Y: r.Values})
		relations = append(relations, fmt.Sprintf("%s: r = %.2f", r.Column, r.R))
	}
	if len(predicted.Series) > 0 {
		fig.Title = "correlation with cycles, " + strings.Join(relations, ", ")
		if len(predicted.Series) == 1 {
			predicted.Y = "predicted " + predicted.Series[0].Name
		}
		fig.Panels = append(fig.Panels, predicted)
	}
	return fig
}

// Ticks lets an axis have some eight ticks at multiples of a power of two, as lines and pages are.
func Ticks(from, to int) int {
	step := 1
	for step*8 < to-from {
		step *= 2
	}
	return step
}
