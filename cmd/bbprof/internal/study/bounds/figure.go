package bounds

import (
	"fmt"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

// Figure draws what is free of each class, which a letter stands for, and what each instruction saves when it is left out, those of a
// chain that binds in a series of their own.
func Figure(a Answer) plot.Figure {
	slack := plot.Series{Kind: plot.Bars, Width: 0.7}
	f := plot.Figure{Title: fmt.Sprintf("%.3f cycles per iteration, bound by %s", a.Base.Cycles, a.Bound), Beside: true}
	var classes, parts []string
	for _, s := range a.Slack {
		if s.Untested == "" {
			slack.X, slack.Y = append(slack.X, float64(len(classes))), append(slack.Y, 100*s.Share)
			letter := string(rune('a' + len(classes)))
			f.Keys = append(f.Keys, letter+"  "+s.Class)
			classes = append(classes, letter)
		}
	}
	f.Panels = []plot.Panel{{Names: classes, Y: "free, % of the class", Zero: true, Series: []plot.Series{slack}}}
	chain, others := plot.Series{Kind: plot.Dots, Name: "on the chain that binds"}, plot.Series{Kind: plot.Dots, Name: "others"}
	for _, p := range a.Parts {
		at := float64(len(parts))
		parts = append(parts, fmt.Sprint(p.Instruction))
		f.Keys = append(f.Keys, fmt.Sprintf("%d  %s", p.Instruction, p.Text))
		if p.Saved == nil {
			continue
		}
		s := &others
		if a.onChain(p.Instruction) {
			s = &chain
		}
		s.X, s.Y = append(s.X, at), append(s.Y, p.Saved.Cycles)
		s.Low, s.High = append(s.Low, p.Saved.Low), append(s.High, p.Saved.High)
	}
	if len(chain.X)+len(others.X) > 0 {
		panel := plot.Panel{Names: parts, Y: "saved without it, cycles", Zero: true}
		for _, s := range []plot.Series{chain, others} {
			if len(s.X) > 0 {
				panel.Series = append(panel.Series, s)
			}
		}
		f.Panels = append(f.Panels, panel)
	}
	return f
}

func (a Answer) onChain(instruction int) bool {
	for _, c := range a.Chains {
		for _, i := range c.Instructions {
			if c.Binds && i == instruction {
				return true
			}
		}
	}
	return false
}
