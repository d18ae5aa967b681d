package resultfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/verdict"
)

// ofAccepted are the columns that only an accepted row has.
var ofAccepted = []string{"cycles", "ci_low", "ci_high", "speeds", "lowest_cycles", "lowest_share", "lowest_layout",
	"highest_cycles", "highest_share", "highest_layout", "row_cycles", "row_ci_low", "row_ci_high", "loops_take", "untrained_cycles",
	"self_forwarding_loads", "impossible", "ticks_per_cycle", "clock"}

// Reject turns an accepted row into a rejected one.
func (p Positions) Reject(cells []string, reason verdict.Reason, detail string) {
	if cycles := p.Cell(cells, "cycles"); cycles != "" {
		detail += "; about " + cycles + " cycles"
	}
	for _, name := range ofAccepted {
		p.set(cells, name, "")
	}
	p.set(cells, "status", "rejected")
	p.set(cells, "reason", string(reason))
	p.set(cells, "detail", detail)
}

func (p Positions) set(cells []string, column, text string) {
	if i, ok := p[column]; ok {
		cells[i] = text
	}
}

// neverIdle begins the detail of rows that bbprof used to accept although it had seen no idle core.
const neverIdle = "no CPU was seen idle"

// IsBusy reports whether a row is of a busy core, by its reason or, where it was accepted, by that detail.
func (p Positions) IsBusy(cells []string) bool {
	return p.Cell(cells, "reason") == string(verdict.BusyCore) || p.Cell(cells, "status") == "ok" && strings.Contains(p.Cell(cells, "detail"), neverIdle)
}

// asBusy reads such a row as what it is now: rejected.
func (p Positions) asBusy(cells []string) []string {
	if !p.IsBusy(cells) || p.Cell(cells, "status") != "ok" {
		return cells
	}
	cells = slices.Clone(cells)
	p.Reject(cells, verdict.BusyCore, p.Cell(cells, "detail"))
	return cells
}

// Controls is a run's record of the known blocks that were measured between the rows.
type Controls struct {
	Share     float64   `json:"share"` // of the workers' time
	Blocks    []Control `json:"blocks"`
	Stretches int       `json:"stretches"` // between two checks, with rows
	Again     int       `json:"again"`     // blocks measured again because the controls around them were off
}

// Control is the record of one known block.
type Control struct {
	Name     string  `json:"name"`
	Hex      string  `json:"hex"`
	Cycles   float64 `json:"cycles"` // on an idle core: known, or this run's own
	Measured int     `json:"measured"`
	Off      int     `json:"off"`
	Busy     int     `json:"rejected"` // for noise, so without a number
}

// Add adds the record of another part of the run, with the same blocks.
func (c *Controls) Add(other *Controls) {
	if c == nil || other == nil {
		return
	}
	c.Share = max(c.Share, other.Share)
	c.Stretches, c.Again = c.Stretches+other.Stretches, c.Again+other.Again
	for i := range c.Blocks {
		b, more := &c.Blocks[i], &other.Blocks[i]
		b.Cycles = cmp.Or(b.Cycles, more.Cycles)
		b.Measured, b.Off, b.Busy = b.Measured+more.Measured, b.Off+more.Off, b.Busy+more.Busy
	}
}

func (c *Controls) String() string {
	measured, off, busy := 0, 0, 0
	for _, b := range c.Blocks {
		measured, off, busy = measured+b.Measured, off+b.Off, busy+b.Busy
	}
	return fmt.Sprintf("%d measurements of known blocks between the rows, %d of them off, %d without a number; "+
		"%d blocks measured again for that; %.1f %% of the time",
		measured, off, busy, c.Again, 100*c.Share)
}
