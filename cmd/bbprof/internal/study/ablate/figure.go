package ablate

import (
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/profiler"
)

// StageFigure draws a block's cycles at the measured steps.
func StageFigure(stages []Stage) plot.Figure {
	cycles := plot.Series{Name: "measured", Kind: plot.Dots}
	f := plot.Figure{}
	for i, s := range stages {
		r, outcome := s.Result, ""
		switch {
		case Crashed(r):
			outcome = "crashed"
		case r.Status == profiler.OK:
			cycles.Add(float64(i), r.Cycles, r.CILow, r.CIHigh)
		default:
			outcome = string(r.Status)
		}
		f.Names = append(f.Names, fmt.Sprintf("%d\n%s", i+1, outcome))
	}
	f.X, f.Keys = "step", keys(len(stages), func(i int) string { return stages[i].Step })
	f.Panels = []plot.Panel{{Y: "cycles per iteration", Zero: true, Series: []plot.Series{cycles}}}
	return f
}

// ShareFigure draws a corpus's shares next to the paper's.
func ShareFigure(shares []Share) plot.Figure {
	ours, paper := plot.Series{Name: "here", Kind: plot.Dots}, plot.Series{Name: "paper", Kind: plot.Dots}
	f := plot.Figure{}
	for i, s := range shares {
		f.Names = append(f.Names, fmt.Sprint(i+1))
		ours.X, ours.Y = append(ours.X, float64(i)), append(ours.Y, s.Percent())
		if s.Paper > 0 {
			paper.X, paper.Y = append(paper.X, float64(i)), append(paper.Y, s.Paper)
		}
	}
	f.X, f.Keys = "step", keys(len(shares), func(i int) string { return shares[i].Step })
	f.Panels = []plot.Panel{{Y: "% of the blocks measured", Zero: true, Series: []plot.Series{ours, paper}}}
	return f
}

// keys names the numbered steps.
func keys(steps int, step func(int) string) (list []string) {
	for i := range steps {
		list = append(list, fmt.Sprintf("%d %s", i+1, step(i)))
	}
	return list
}
