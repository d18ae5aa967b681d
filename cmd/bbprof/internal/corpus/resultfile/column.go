// Package resultfile defines the row of a result file. Its columns are declared once, as data: the header of CSV,
// the names in JSON, the schema of Parquet and the data dictionary (docs/reference.md) all follow from [Columns].
//
// Internally a row is a list of cells: the text as in CSV, empty if unknown. All formats convert from and to
// cells, so conversion loses nothing.
package resultfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Type is the type of a column's cells; numbers have Column.Decimals digits after the point.
type Type = parquet.Type

const (
	Text    = parquet.Text
	Integer = parquet.Integer
	Number  = parquet.Number
	Flag    = parquet.Flag
)

type Column struct {
	Name     string
	Type     Type
	Decimals int
	// PerRow marks columns of the input row, not its block: rows of one block differ in them.
	PerRow bool
	// Unknown makes an empty cell of a carried column null in Parquet, as in bbprof's own columns.
	Unknown bool
	of      func(*Entry) any // nil for a column carried from the input; nil and "" are unknown
}

func (c Column) mistyped(cell string) error {
	return fmt.Errorf("%s is %.40q, which is not of type %s", c.Name, cell, c.Type)
}

func (c Column) cell(e *Entry) string {
	switch v := c.of(e).(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', c.Decimals, 64)
	default:
		return input.OneLine(fmt.Sprint(v))
	}
}

// Entry holds everything that a row shows.
type Entry struct {
	Row    input.Row
	Result profiler.Result
	Tries  int
	// DuplicateOf is the number of the row whose measurement this row repeats, or 0.
	DuplicateOf int64
	RunID       string // Run.ID
	RunHeader   string // Run as JSON, in the first row of a run
}

const runHeader = "run_header"

// cycleDecimals resolves better than any interval.
const cycleDecimals = 4

// firstColumns come first and keep their names. The input's columns follow, then the rest.
const firstColumns = 6

type result = profiler.Result

// column makes a column about a block's result.
func column(name string, t Type, of func(*result) any) Column {
	return Column{Name: name, Type: t, Decimals: cycleDecimals, of: func(e *Entry) any { return of(&e.Result) }}
}

// columnIf makes a column that is unknown unless a condition holds.
func columnIf(known func(*result) bool, name string, t Type, of func(*result) any) Column {
	return column(name, t, func(r *result) any {
		if !known(r) {
			return nil
		}
		return of(r)
	})
}

func ok(r *result) bool        { return r.Status == profiler.OK }
func ran(r *result) bool       { return r.UnrollLong > 0 } // there were images to run
func captured(r *result) bool  { return r.Captured != nil }
func untrained(r *result) bool { return ok(r) && r.Region != nil && r.Region.Untrained != nil }
func branches(r *result) bool  { return r.Branch != nil }
func clocked(r *result) bool   { return r.Clock != nil }

// entryColumn makes a column about more than the result.
func entryColumn(name string, t Type, of func(*Entry) any) Column {
	return Column{Name: name, Type: t, of: of}
}

// rowColumn makes a column about the input row.
func rowColumn(name string, t Type, of func(*Entry) any) Column {
	return Column{Name: name, Type: t, PerRow: true, of: of}
}

// Columns lists bbprof's own columns in order. Those that are mostly constant in a run come last. disasm adds the
// block's text.
func Columns(disasm bool) []Column {
	rowed := func(r *result) bool { return ok(r) && r.RowCycles != 0 } // measured beside the loop
	columns := slices.Concat([]Column{
		entryColumn("hex", Text, func(e *Entry) any { return e.Row.Hex() }),
		column("status", Text, func(r *result) any { return r.Status }),
		column("reason", Text, func(r *result) any { return r.Reason }),
		columnIf(ok, "cycles", Number, func(r *result) any { return r.Cycles }),
		columnIf(ok, "ci_low", Number, func(r *result) any { return r.CILow }),
		columnIf(ok, "ci_high", Number, func(r *result) any { return r.CIHigh }),

		columnIf(ok, "speeds", Integer, func(r *result) any { return positive(len(r.Speeds)) }),
	},
		speedColumns("lowest", func(s []profiler.Speed) profiler.Speed { return s[0] }),
		speedColumns("highest", func(s []profiler.Speed) profiler.Speed { return s[len(s)-1] }),
		[]Column{
			columnIf(rowed, "row_cycles", Number, func(r *result) any { return r.RowCycles }),
			columnIf(rowed, "row_ci_low", Number, func(r *result) any { return r.RowCILow }),
			columnIf(rowed, "row_ci_high", Number, func(r *result) any { return r.RowCIHigh }),
			column("loops_take", Text, func(r *result) any { return r.LoopsTake }),
			column("instructions", Integer, func(r *result) any { return positive(r.Instructions) }),
			column("bytes", Integer, func(r *result) any { return positive(r.Bytes) }),
			entryColumn("category", Text, func(e *Entry) any { return asm.CategoryOfCode(e.Row.Code) }),
			columnIf(untrained, "untrained_cycles", Number, func(r *result) any { return r.Region.Untrained.Cycles }),
			columnIf(branches, "branch", Text, func(r *result) any { return r.Branch.As }),
			columnIf(branches, "branch_changed", Text, func(r *result) any { return r.Branch.Changed() }),
			columnIf(ran, "unroll_short", Integer, func(r *result) any { return r.UnrollShort }),
			columnIf(ran, "unroll_long", Integer, func(r *result) any { return r.UnrollLong }),
			columnIf(ran, "samples_kept", Integer, func(r *result) any { return r.SamplesKept }),
			columnIf(ran, "samples_dropped", Integer, func(r *result) any { return r.SamplesDropped }),
			columnIf(ran, "pages", Integer, func(r *result) any { return r.Pages }),
			columnIf(ran, "frames", Integer, func(r *result) any { return r.Frames }),
			column("init", Text, func(r *result) any { return r.Init.Name }),
			column("set", Text, func(r *result) any { return r.Init.Set }),
			column("paper_verdict", Text, func(r *result) any { return r.PaperVerdict }),
			columnIf(ok, "self_forwarding_loads", Integer, func(r *result) any { return r.SelfForwarding }),
			columnIf(captured, "copies_within", Integer, func(r *result) any { return positive(r.Captured.Within) }),
			columnIf(captured, "leaves", Text, func(r *result) any {
				if r.Captured.Leaves == nil {
					return nil
				}
				return r.Captured.Leaves.Error()
			}),
			column("detail", Text, detail),
			column("impossible", Text, func(r *result) any { return r.Impossible }),
			entryColumn("tries", Integer, func(e *Entry) any { return positive(e.Tries) }),
			columnIf(ran, "rescued", Flag, func(r *result) any { return r.Rescued }),
			columnIf(ran, "windows_kept", Integer, func(r *result) any { return r.WindowsKept }),
			columnIf(ran, "windows_dropped", Integer, func(r *result) any {
				return r.WindowsSwitched + r.WindowsUnsteady + r.WindowsDrifted
			}),
			column("runs_per_sample", Integer, func(r *result) any { return positive(r.RunsPerSample) }),
			columnIf(clocked, "ticks_per_cycle", Number, func(r *result) any { return r.Clock.TicksPerCycle }),
			column("counters", Text, counters),
		})
	for _, reason := range []verdict.Reason{verdict.L1DMiss, verdict.L1IMiss, verdict.DTLBMiss, verdict.Misaligned, verdict.Alias4K, verdict.AliasFrame,
		verdict.ContextSwitch, verdict.BusyCore} {
		columns = append(columns, column("evidence_"+string(reason), Text, func(r *result) any {
			for _, e := range r.Evidence {
				if e.Invariant == reason {
					return e.Kind
				}
			}
			return nil
		}))
	}
	columns = append(columns,
		rowColumn("row", Integer, func(e *Entry) any { return positive(e.Row.Number) }),
		rowColumn("line", Integer, func(e *Entry) any { return positive(e.Row.Line) }),
		rowColumn("duplicate_of", Integer, func(e *Entry) any { return positive(e.DuplicateOf) }))
	if disasm {
		columns = append(columns, column("disasm", Text, func(r *result) any {
			var insts []string
			for _, l := range r.Listing {
				insts = append(insts, l.Text)
			}
			return strings.Join(insts, "; ")
		}))
	}
	return append(columns,
		column("mode", Text, func(r *result) any { return r.Mode }),
		column("frontend", Text, func(r *result) any { return r.FrontEnd }),
		columnIf(clocked, "clock", Text, func(r *result) any { return r.Clock.Name }),
		rowColumn("corpus", Text, func(e *Entry) any { return e.Row.File }),
		entryColumn("run", Text, func(e *Entry) any { return e.RunID }),
		rowColumn(runHeader, Text, func(e *Entry) any { return e.RunHeader }))
}

// speedColumns describe one of a block's several speeds: its cycles, its share of the layouts, and a layout that
// shows it, for -layout.
func speedColumns(name string, choose func([]profiler.Speed) profiler.Speed) []Column {
	several := func(r *result) bool { return ok(r) && len(r.Speeds) > 1 }
	return []Column{
		columnIf(several, name+"_cycles", Number, func(r *result) any { return choose(r.Speeds).Cycles }),
		columnIf(several, name+"_share", Number, func(r *result) any { return choose(r.Speeds).Share }),
		columnIf(several, name+"_layout", Integer, func(r *result) any { return choose(r.Speeds).Layouts[0] }),
	}
}

// counters formats the counts per iteration: role=number, or event=number for the user's own events.
func counters(r *result) any {
	var list []string
	for _, c := range r.Counters {
		if c.PerIteration == nil {
			continue
		}
		name := string(c.Role)
		if c.Role == string(pmu.Asked) {
			name = c.Event
		}
		list = append(list, name+"="+strconv.FormatFloat(*c.PerIteration, 'f', cycleDecimals, 64))
	}
	return strings.Join(list, "; ")
}

// positive leaves a zero count unknown.
func positive[N int | int64](n N) any {
	if n == 0 {
		return nil
	}
	return n
}

func detail(r *result) any {
	switch {
	case r.Failure != "":
		return r.Failure
	case r.Rejection == nil:
		return strings.Join(r.Warnings, "; ")
	case r.Rejection.Inst == nil:
		return r.Rejection.Detail
	}
	in := r.Rejection.Inst
	return fmt.Sprintf("%s (instruction %d at byte %d: %s)", r.Rejection.Detail, in.Index+1, in.Offset, in.Text)
}

// WithMapping adds the column of a block's pages, which needs detailed results.
func (s Schema) WithMapping() Schema { return append(slices.Clone(s), mappingColumn()) }

func mappingColumn() Column {
	return column("mapping", Text, func(r *result) any {
		var pages []string
		for _, p := range r.Mapping {
			pages = append(pages, fmt.Sprintf("%#x", p.Addr))
		}
		return strings.Join(pages, " ")
	})
}

// known lists all columns that bbprof may write.
func known() []Column { return append(Columns(true), mappingColumn()) }

// Schema lists a file's columns: bbprof's own and the carried ones, which keep the order of the input.
type Schema []Column

// NewSchema returns the schema that batch writes.
func NewSchema(disasm bool, carried []string) Schema {
	own := Columns(disasm)
	s := slices.Clone(Schema(own[:firstColumns]))
	for _, name := range carried {
		s = append(s, Column{Name: name, Type: Text, PerRow: true})
	}
	return append(s, own[firstColumns:]...)
}

func arrange(cells []string, indices []int, into []string) []string {
	into = into[:0]
	for _, at := range indices {
		into = append(into, cells[at])
	}
	return into
}

// Reserved returns the names that no carried column may have.
func Reserved() (names []string) {
	for _, c := range known() {
		names = append(names, c.Name)
	}
	return names
}

// SchemaOf returns the schema of a file with these column names. Unknown columns count as carried.
func SchemaOf(names []string) Schema {
	own := map[string]Column{}
	for _, c := range known() {
		own[c.Name] = c
	}
	var s Schema
	for _, name := range names {
		c, ok := own[name]
		if !ok {
			c = Column{Name: name, Type: Text, PerRow: true}
		}
		s = append(s, c)
	}
	return s
}

// Typed sets the types of carried columns. Their empty cells are then unknown, not empty texts.
func (s Schema) Typed(types map[string]Type) Schema {
	s = slices.Clone(s)
	for i := range s {
		if t, ok := types[s[i].Name]; ok && s[i].of == nil {
			s[i].Type, s[i].Unknown = t, true
		}
	}
	return s
}

// Carried reports whether the column comes from the input.
func (c Column) Carried() bool { return c.of == nil }

// Distinct fails for two columns of one name, which JSON and Parquet cannot hold.
func (s Schema) Distinct() error {
	seen := make(map[string]bool, len(s))
	for _, c := range s {
		if seen[c.Name] {
			return fmt.Errorf("two columns are called %.40q; only CSV can hold that, so rename one", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

func tooWide(n int) error {
	return fmt.Errorf("it has %d columns or more; at most %d are allowed", n, input.MaxColumns)
}

func (s Schema) Names() (names []string) {
	for _, c := range s {
		names = append(names, c.Name)
	}
	return names
}

func (s Schema) Index(name string) int {
	return slices.IndexFunc(s, func(c Column) bool { return c.Name == name })
}

// Positions holds the index of each column that has a name. Of two with one name the first counts.
type Positions map[string]int

func (s Schema) Positions() Positions {
	at := Positions{}
	for i, c := range slices.Backward(s) {
		at[c.Name] = i
	}
	delete(at, "")
	return at
}

// Cell returns a column's cell, "" if there is no such column.
func (p Positions) Cell(cells []string, column string) string {
	if i, ok := p[column]; ok {
		return cells[i]
	}
	return ""
}

func (s Schema) Cells(e *Entry) []string { return s.Repeat(nil, e) }

// Repeat returns the cells of a row whose block was measured for another row, with the given cells.
func (s Schema) Repeat(measured []string, e *Entry) []string {
	cells := make([]string, len(s))
	carried := 0
	for i, c := range s {
		switch {
		case c.of == nil:
			if carried < len(e.Row.Carried) {
				cells[i] = input.OneLine(e.Row.Carried[carried])
			}
			carried++
		case c.PerRow || measured == nil:
			cells[i] = c.cell(e)
		default:
			cells[i] = measured[i]
		}
	}
	return cells
}
