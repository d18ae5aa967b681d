package resultfile

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
)

// isResult reports whether the file says what became of blocks: its rows are then checked.
func (s Schema) isResult() bool { return s.Index("hex") >= 0 && s.Index("status") >= 0 }

// unambiguous fails for a result with two columns of one of bbprof's own names.
func (s Schema) unambiguous() error {
	return slices.DeleteFunc(slices.Clone(s), Column.Carried).Distinct()
}

// check says why bbprof cannot have written a row of a result, nil if it can: a row that was edited, damaged or made
// up is not data.
func (p Positions) check(cells []string) error {
	cell := func(name string) string { return p.Cell(cells, name) }
	switch status := profiler.Status(cell("status")); status {
	case profiler.OK:
		if _, err := asm.ParseHex(cell("hex"), profiler.MaxBlock); err != nil {
			return fmt.Errorf("status is ok, and hex is not a block: %w", err)
		}
		if err := p.checkInterval(cells, "cycles", "ci_low", "ci_high", true); err != nil {
			return err
		}
		return p.checkInterval(cells, "row_cycles", "row_ci_low", "row_ci_high", false)
	case profiler.Rejected, profiler.Failed:
		if _, ok := p["reason"]; ok && status == profiler.Rejected && cell("reason") == "" {
			return fmt.Errorf("status is %s, without a reason", status)
		}
		for _, name := range ofAccepted[:3] {
			if cell(name) != "" {
				return fmt.Errorf("status is %s, and %s is %.40q", status, name, cell(name))
			}
		}
		return nil
	default:
		return fmt.Errorf("status is %.40q, not %s, %s or %s", status, profiler.OK, profiler.Rejected, profiler.Failed)
	}
}

// checkInterval checks cycles and the ends of their interval, those that the file has columns for.
func (p Positions) checkInterval(cells []string, value, low, high string, needed bool) error {
	if _, ok := p[value]; !ok || !needed && p.Cell(cells, value) == "" {
		return nil
	}
	v, err := strconv.ParseFloat(p.Cell(cells, value), 64)
	if err != nil || !(v > 0 && v <= profiler.MostCycles) {
		return fmt.Errorf("status is ok, and %s is %.40q: want a number above 0, and at most %g", value, p.Cell(cells, value), profiler.MostCycles)
	}
	for _, end := range []struct {
		name  string
		below bool
	}{{low, true}, {high, false}} {
		if _, ok := p[end.name]; !ok {
			continue
		}
		e, err := strconv.ParseFloat(p.Cell(cells, end.name), 64)
		if err != nil || !(e >= 0 && e <= profiler.MostCycles) || end.below && e > v || !end.below && e < v {
			return fmt.Errorf("%s is %.40q, which is no end of an interval around %s %s", end.name, p.Cell(cells, end.name), value, p.Cell(cells, value))
		}
	}
	return nil
}
