package bounds

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/profiler"
)

// Columns are the names of an answer's row: the first as those of any result.
func Columns() []string {
	names := []string{"hex", "status", "reason", "cycles", "ci_low", "ci_high", "bound", "bounds", "says", "chain", "chain_saved", "slots_per_cycle"}
	for _, p := range slices.Concat(frontEnd, classes) {
		names = append(names, "free_"+strings.ReplaceAll(p.name, " ", "_"))
	}
	return names
}

// Row is an answer as a row of Columns. A class that was not tested has an empty cell.
func (a Answer) Row() []string {
	r := a.Base
	row := []string{r.Hex, string(r.Status), string(r.Reason), "", "", ""}
	if r.Status != profiler.OK {
		return append(row, make([]string, len(Columns())-len(row))...)
	}
	for i, v := range []float64{r.Cycles, r.CILow, r.CIHigh} {
		row[3+i] = strconv.FormatFloat(v, 'f', 4, 64)
	}
	var kinds []string
	for _, k := range a.Bounds {
		kinds = append(kinds, string(k))
	}
	chain, saved := "", ""
	for _, c := range a.Chains {
		if c.Binds && chain == "" {
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
