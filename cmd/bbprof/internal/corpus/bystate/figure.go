package bystate

import (
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

// Figure draws of both artificial states how many of the blocks take at most so many times as long in the
// program's state.
func (s Summary) Figure() plot.Figure {
	share := func(name string, of func(Comparison) float64) plot.Series {
		line := plot.Series{Name: name, Kind: plot.Line}
		for _, c := range s.List {
			if other := of(c); c.Captured > 0 && other > 0 {
				line.X = append(line.X, min(max(c.Captured/other, shownLow), shownHigh))
			}
		}
		slices.Sort(line.X)
		for i := range line.X {
			line.Y = append(line.Y, 100*float64(i+1)/float64(len(line.X)))
		}
		return line
	}
	return plot.Figure{
		Title: "Cycles in the program's state and in bbprof's",
		X:     "program's state ÷ bbprof's (beyond 0.25 and 2.5: at the edge)",
		Panels: []plot.Panel{{Y: "% of the blocks", Zero: true, Series: []plot.Series{
			share("paper", func(c Comparison) float64 { return c.Paper }),
			share("distinct pointers", func(c Comparison) float64 { return c.Distinct }),
			{Kind: plot.Rule, X: []float64{1}, Y: []float64{0}},
		}}},
	}
}

// What of the ratio is shown: the rest stands at the edges.
const shownLow, shownHigh = 0.25, 2.5
