package sweep

import (
	"fmt"
	"math"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

// Figure draws the cycles, with intervals if all have one, and below a block's the predictions that vary.
func (s Sweep) Figure() plot.Figure {
	all := s.relate(Column{Values: make([]float64, len(s.Points))})
	var cycles plot.Series
	for _, p := range all.Points {
		cycles.Add(float64(p.Value), p.Cycles, p.Low, p.High)
	}
	if !all.Known {
		cycles.Low, cycles.High = nil, nil
	}
	first, last := s.Points[0].Value, s.Points[len(s.Points)-1].Value
	f := plot.Figure{Ticks: ticks(first, last), Panels: []plot.Panel{{X: s.Axis, Y: "cycles", Series: []plot.Series{cycles}}}}
	if !s.OfBlock {
		return f
	}
	f.Panels[0].Y = "cycles per iteration"
	var relations []string
	predicted := plot.Panel{X: s.Axis, Y: "predicted per iteration", Zero: true}
	for _, r := range s.Relate(s.Groups[0]) {
		if math.IsNaN(r.R) { // constant
			continue
		}
		predicted.Series = append(predicted.Series, plot.Series{Name: r.Name, X: cycles.X, Y: r.Values})
		relations = append(relations, fmt.Sprintf("%s: r = %.2f", r.Name, r.R))
	}
	if len(predicted.Series) > 0 {
		f.Title = "correlation with cycles, " + strings.Join(relations, ", ")
		if len(predicted.Series) == 1 {
			predicted.Y = "predicted " + predicted.Series[0].Name
		}
		f.Panels = append(f.Panels, predicted)
	}
	return f
}

// ticks chooses about eight ticks at multiples of a power of two, to suit lines and pages.
func ticks(from, to int) int {
	step := 1
	for step*8 < to-from {
		step *= 2
	}
	return step
}
