package ablate

import (
	"fmt"

	"github.com/bbprof/bbprof/figure"
	"github.com/bbprof/bbprof/profiler"
)

// StageFigure draws a block's cycles at the steps at which it was measured.
func StageFigure(stages []Stage) figure.Figure {
	cycles := figure.Series{Name: "measured", Dots: true}
	f := figure.Figure{}
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
	f.Panels = []figure.Panel{{Y: "cycles per iteration", Zero: true, Series: []figure.Series{cycles}}}
	return f
}

// ShareFigure draws a corpus's shares beside the paper's.
func ShareFigure(shares []Share) figure.Figure {
	ours, paper := figure.Series{Name: "here", Dots: true}, figure.Series{Name: "paper", Dots: true}
	f := figure.Figure{}
	for i, s := range shares {
		f.Names = append(f.Names, fmt.Sprint(i+1))
		ours.X, ours.Y = append(ours.X, float64(i)), append(ours.Y, s.Percent())
		if s.Paper > 0 {
			paper.X, paper.Y = append(paper.X, float64(i)), append(paper.Y, s.Paper)
		}
	}
	f.X = legend(len(shares), func(i int) string { return shares[i].Step })
	f.Panels = []figure.Panel{{Y: "% of the blocks measured", Zero: true, Series: []figure.Series{ours, paper}}}
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
