package bounds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/profiler"
)

// Figure draws each class's slack, labelled by letter, and what leaving out each instruction saves, the instructions of a
// binding chain as a separate series.
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
		s.Add(at, p.Saved.Cycles, p.Saved.Low, p.Saved.High)
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
	return slices.ContainsFunc(a.Chains, func(c ChainReport) bool { return (c.Binds || c.AsLong) && slices.Contains(c.Instructions, instruction) })
}

func Columns() []string {
	names := []string{"hex", "status", "reason", "cycles", "ci_low", "ci_high", "bound", "bounds", "says", "chain", "chain_saved", "slots_per_cycle"}
	for _, p := range slices.Concat(frontEnd, classes) {
		names = append(names, "free_"+strings.ReplaceAll(p.name, " ", "_"))
	}
	return append(names, "address", "set")
}

// Row returns an answer as a row of Columns. A class that was not tested has an empty cell.
func (a Answer) Row() []string {
	row, address := make([]string, len(Columns())), ""
	if a.Address != nil {
		address = fmt.Sprintf("%#x", uint64(*a.Address))
	}
	copy(row, []string{a.Base.Hex, string(a.Base.Status), string(a.Base.Reason)})
	if a.Base.Status == profiler.OK {
		copy(row[3:], a.found())
	}
	copy(row[len(row)-2:], []string{address, a.Base.Init.Set})
	return row
}

// found returns the cells from cycles on.
func (a Answer) found() (row []string) {
	for _, v := range []float64{a.Base.Cycles, a.Base.CILow, a.Base.CIHigh} {
		row = append(row, strconv.FormatFloat(v, 'f', 4, 64))
	}
	var kinds []string
	for _, k := range a.Bounds {
		kinds = append(kinds, string(k))
	}
	chain, saved := "", ""
	for _, c := range a.Chains {
		if (c.Binds || c.AsLong) && chain == "" {
			if chain = c.Text; c.Saved != nil {
				saved = strconv.FormatFloat(c.Saved.Cycles, 'f', 4, 64)
			}
		}
	}
	row = append(row, string(a.Bound), strings.Join(kinds, " "), a.Sentence, chain, saved, strconv.FormatFloat(a.FrontEnd.Slots, 'f', 3, 64))
	for _, s := range a.Slack {
		share := ""
		if s.Untested == "" {
			share = strconv.FormatFloat(s.Share, 'f', 3, 64)
		}
		row = append(row, share)
	}
	return row
}
