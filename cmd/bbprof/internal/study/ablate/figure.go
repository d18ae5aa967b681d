package ablate

import (
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/profiler"
)

// StageFigure draws a block's cycles at the steps at which it was measured.
func StageFigure(stages []Stage) plot.Figure {
	cycles := plot.Series{Name: "measured", Dots: true}
	f := plot.Figure{}
	for i, s := range stages {
		r, outcome := s.Result, ""
		switch {
		case Crashed(r):
			outcome = "crashed"
		case r.Status == profiler.OK:
			cycles.X, cycles.Y = append(cycles.X, float64(i)), append(cycles.Y, r.Cycles)
			cycles.Low, cycles.High = append(cycles.Low, r.CILow), append(cycles.High, r.CIHigh)
		default:
			outcome = string(r.Status)
		}
		f.Names = append(f.Names, fmt.Sprintf("%d\n%s", i+1, outcome))
	}
	f.X = legend(len(stages), func(i int) string { return stages[i].Step })
	f.Panels = []plot.Panel{{Y: "cycles per iteration", Zero: true, Series: []plot.Series{cycles}}}
	return f
}

// ShareFigure draws a corpus's shares beside the paper's.
func ShareFigure(shares []Share) plot.Figure {
	ours, paper := plot.Series{Name: "here", Dots: true}, plot.Series{Name: "paper", Dots: true}
	f := plot.Figure{}
	for i, s := range shares {
		f.Names = append(f.Names, fmt.Sprint(i+1))
		ours.X, ours.Y = append(ours.X, float64(i)), append(ours.Y, s.Percent())
		if s.Paper > 0 {
			paper.X, paper.Y = append(paper.X, float64(i)), append(paper.Y, s.Paper)
		}
	}
	f.X = legend(len(shares), func(i int) string { return shares[i].Step })
	f.Panels = []plot.Panel{{Y: "% of the blocks measured", Zero: true, Series: []plot.Series{ours, paper}}}
	return f
}

// legend spells the numbered steps out, in as many lines as it takes.
func legend(steps int, step func(int) string) string {
	text, line := "", ""
	for i := range steps {
		entry := fmt.Sprintf("%d %s", i+1, step(i))
		if line != "" && len(line)+len(entry) > 90 {
			text, line = text+line+"\n", ""
		}
		if line != "" {
			line += "    "
		}
		line += entry
	}
	return text + line
}
