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
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type Type string

const (
	Text    Type = "text"
	Integer Type = "integer"
	Number  Type = "number" // with Decimals digits after the point
	Flag    Type = "flag"   // true or false
)

// Column is a column of a result file.
type Column struct {
	Name     string
	Type     Type
	Decimals int
	// PerRow marks columns of the input row, not its block: rows of one block differ in them.
	PerRow bool
	// Unknown makes an empty cell of a carried column null in Parquet, as in bbprof's own columns.
	Unknown bool
	of      func(*Entry) string // nil for a column carried from the input
	// with reports whether a run with these flags may fill the column; nil: any run may.
	with func(Flags) bool
}

// mistyped reports a cell that does not have the column's type.
func (c Column) mistyped(cell string) error {
	return fmt.Errorf("%s is %.40q, which is not of type %s", c.Name, cell, c.Type)
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

// runHeader is the column of Entry.RunHeader.
const runHeader = "run_header"

// cycleDecimals resolves better than any interval.
const cycleDecimals = 4

// firstColumns come first and keep their names. The input's columns follow, then the rest.
const firstColumns = 6

// Columns lists bbprof's own columns in order. Those that are mostly constant in a run come last. disasm adds the
// block's text.
func Columns(disasm bool) []Column {
	cycles := func(of func(*profiler.Result) float64) func(*Entry) string {
		return func(e *Entry) string {
			if e.Result.Status != profiler.OK {
				return ""
			}
			return strconv.FormatFloat(of(&e.Result), 'f', cycleDecimals, 64)
		}
	}
	loop := func(of func(*profiler.Result) float64) func(*Entry) string {
		return func(e *Entry) string {
			if e.Result.LoopCycles == 0 { // not requested, or not measured
				return ""
			}
			return cycles(of)(e)
		}
	}
	text := func(of func(*profiler.Result) string) func(*Entry) string {
		return func(e *Entry) string { return of(&e.Result) }
	}
	count := func(of func(*profiler.Result) int, known func(*profiler.Result) bool) func(*Entry) string {
		return func(e *Entry) string {
			if !known(&e.Result) {
				return ""
			}
			return strconv.Itoa(of(&e.Result))
		}
	}
	decoded := func(r *profiler.Result) bool { return r.Instructions > 0 }
	someBytes := func(r *profiler.Result) bool { return r.Bytes > 0 }
	ran := func(r *profiler.Result) bool { return r.UnrollLong > 0 } // there were images to run
	ok := func(r *profiler.Result) bool { return r.Status == profiler.OK }

	columns := []Column{
		{Name: "hex", Type: Text, of: func(e *Entry) string { return e.Row.Hex() }},
		{Name: "status", Type: Text, of: text(func(r *profiler.Result) string { return string(r.Status) })},
		{Name: "reason", Type: Text, of: text(func(r *profiler.Result) string { return string(r.Reason) })},
		{Name: "cycles", Type: Number, Decimals: cycleDecimals, of: cycles(func(r *profiler.Result) float64 { return r.Cycles })},
		{Name: "ci_low", Type: Number, Decimals: cycleDecimals, of: cycles(func(r *profiler.Result) float64 { return r.CILow })},
		{Name: "ci_high", Type: Number, Decimals: cycleDecimals, of: cycles(func(r *profiler.Result) float64 { return r.CIHigh })},

		{Name: "speeds", Type: Integer, of: count(func(r *profiler.Result) int { return len(r.Speeds) }, func(r *profiler.Result) bool { return ok(r) && len(r.Speeds) > 0 })},
	}
	columns = append(columns, speedColumns("lowest", func(s []profiler.Speed) profiler.Speed { return s[0] })...)
	columns = append(columns, speedColumns("highest", func(s []profiler.Speed) profiler.Speed { return s[len(s)-1] })...)
	columns = append(columns, []Column{
		{Name: "loop_cycles", Type: Number, Decimals: cycleDecimals, with: bothModes, of: loop(func(r *profiler.Result) float64 { return r.LoopCycles })},
		{Name: "loop_ci_low", Type: Number, Decimals: cycleDecimals, with: bothModes, of: loop(func(r *profiler.Result) float64 { return r.LoopCILow })},
		{Name: "loop_ci_high", Type: Number, Decimals: cycleDecimals, with: bothModes, of: loop(func(r *profiler.Result) float64 { return r.LoopCIHigh })},
		{Name: "loops_take", Type: Text, of: text(func(r *profiler.Result) string { return r.LoopsTake })},

		{Name: "instructions", Type: Integer, of: count(func(r *profiler.Result) int { return r.Instructions }, decoded)},
		{Name: "bytes", Type: Integer, of: count(func(r *profiler.Result) int { return r.Bytes }, someBytes)},
		{Name: "category", Type: Text, of: func(e *Entry) string { return string(asm.CategoryOfCode(e.Row.Code)) }},
		{Name: "branch", Type: Text, of: branch(func(b *profiler.BranchReport) string { return string(b.As) })},
		{Name: "branch_changed", Type: Text, of: branch((*profiler.BranchReport).Changed)},
		{Name: "unroll_short", Type: Integer, of: count(func(r *profiler.Result) int { return r.UnrollShort }, ran)},
		{Name: "unroll_long", Type: Integer, of: count(func(r *profiler.Result) int { return r.UnrollLong }, ran)},
		{Name: "samples_kept", Type: Integer, of: count(func(r *profiler.Result) int { return r.SamplesKept }, ran)},
		{Name: "samples_dropped", Type: Integer, of: count(func(r *profiler.Result) int { return r.SamplesDropped }, ran)},
		{Name: "pages", Type: Integer, of: count(func(r *profiler.Result) int { return r.Pages }, ran)},
		{Name: "frames", Type: Integer, of: count(func(r *profiler.Result) int { return r.Frames }, ran)},
		{Name: "init", Type: Text, of: text(func(r *profiler.Result) string { return r.Init.Name })},
		{Name: "set", Type: Text, of: text(func(r *profiler.Result) string { return r.Init.Set })},
		{Name: "paper_verdict", Type: Text, of: text(func(r *profiler.Result) string { return r.PaperVerdict })},
		{Name: "self_forwarding_loads", Type: Integer, of: count(func(r *profiler.Result) int { return r.SelfForwarding }, ok)},
		{Name: "copies_within", Type: Integer, with: fromCaptured, of: captured(func(c *profiler.CapturedReport) string { return positive(int64(c.Within)) })},
		{Name: "leaves", Type: Text, with: fromCaptured, of: captured(func(c *profiler.CapturedReport) string {
			if c.Leaves == nil {
				return ""
			}
			return c.Leaves.Error()
		})},
		{Name: "detail", Type: Text, of: text(detail)},
		{Name: "impossible", Type: Text, of: text(func(r *profiler.Result) string { return string(r.Impossible) })},

		{Name: "tries", Type: Integer, of: func(e *Entry) string { return positive(int64(e.Tries)) }},
		{Name: "rescued", Type: Flag, of: func(e *Entry) string {
			if !ran(&e.Result) {
				return ""
			}
			return strconv.FormatBool(e.Result.Rescued)
		}},
		{Name: "windows_kept", Type: Integer, of: count(func(r *profiler.Result) int { return r.WindowsKept }, ran)},
		{Name: "windows_dropped", Type: Integer, of: count(func(r *profiler.Result) int {
			return r.WindowsSwitched + r.WindowsUnsteady + r.WindowsDrifted
		}, ran)},
		{Name: "runs_per_sample", Type: Integer, of: count(func(r *profiler.Result) int { return r.RunsPerSample }, func(r *profiler.Result) bool { return r.RunsPerSample > 0 })},
		{Name: "ticks_per_cycle", Type: Number, Decimals: cycleDecimals, of: text(func(r *profiler.Result) string {
			if r.Clock == nil {
				return ""
			}
			return strconv.FormatFloat(r.Clock.TicksPerCycle, 'f', cycleDecimals, 64)
		})},
		{Name: "counters", Type: Text, of: text(counters)},
	}...)
	for _, reason := range []verdict.Reason{verdict.L1DMiss, verdict.L1IMiss, verdict.Misaligned, verdict.Alias4K, verdict.AliasFrame, verdict.ContextSwitch} {
		columns = append(columns, Column{Name: "evidence_" + string(reason), Type: Text, of: text(func(r *profiler.Result) string {
			for _, e := range r.Evidence {
				if e.Invariant == reason {
					return string(e.Kind)
				}
			}
			return ""
		})})
	}
	columns = append(columns,
		Column{Name: "row", Type: Integer, PerRow: true, of: func(e *Entry) string { return positive(e.Row.Number) }},
		Column{Name: "line", Type: Integer, PerRow: true, of: func(e *Entry) string { return positive(int64(e.Row.Line)) }},
		Column{Name: "duplicate_of", Type: Integer, PerRow: true, of: func(e *Entry) string { return positive(e.DuplicateOf) }})
	if disasm {
		columns = append(columns, disasmColumn())
	}
	return append(columns, []Column{
		{Name: "mode", Type: Text, of: text(func(r *profiler.Result) string { return string(r.Mode) })},
		{Name: "frontend", Type: Text, of: text(func(r *profiler.Result) string { return string(r.FrontEnd) })},
		{Name: "clock", Type: Text, of: text(func(r *profiler.Result) string {
			if r.Clock == nil {
				return ""
			}
			return r.Clock.Name
		})},
		{Name: "corpus", Type: Text, PerRow: true, of: func(e *Entry) string { return e.Row.File }},
		{Name: "run", Type: Text, of: func(e *Entry) string { return e.RunID }},
		{Name: runHeader, Type: Text, PerRow: true, of: func(e *Entry) string { return e.RunHeader }},
	}...)
}

// Flags are a run's flags that decide which columns it fills.
type Flags struct {
	Options  profiler.Options
	Captured bool // blocks start from captured states
}

func bothModes(f Flags) bool { return f.Options.Mode == profiler.Both || f.Options.LoopIfFed }

func fromCaptured(f Flags) bool { return f.Captured }

// speedColumns describe one of a block's several speeds: its cycles, its share of the layouts, and a layout that
// shows it, for -layout.
func speedColumns(name string, choose func([]profiler.Speed) profiler.Speed) []Column {
	of := func(cell func(profiler.Speed) string) func(*Entry) string {
		return func(e *Entry) string {
			if e.Result.Status != profiler.OK || len(e.Result.Speeds) < 2 {
				return ""
			}
			return cell(choose(e.Result.Speeds))
		}
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', cycleDecimals, 64) }
	return []Column{
		{Name: name + "_cycles", Type: Number, Decimals: cycleDecimals, of: of(func(s profiler.Speed) string { return number(s.Cycles) })},
		{Name: name + "_share", Type: Number, Decimals: cycleDecimals, of: of(func(s profiler.Speed) string { return number(s.Share) })},
		{Name: name + "_layout", Type: Integer, of: of(func(s profiler.Speed) string { return strconv.Itoa(s.Layouts[0]) })},
	}
}

// branch makes a cell about the branch at the block's end, empty without one.
func branch(of func(*profiler.BranchReport) string) func(*Entry) string {
	return func(e *Entry) string {
		if e.Result.Branch == nil {
			return ""
		}
		return of(e.Result.Branch)
	}
}

// captured makes a cell about a captured state, empty without one.
func captured(of func(*profiler.CapturedReport) string) func(*Entry) string {
	return func(e *Entry) string {
		if e.Result.Captured == nil {
			return ""
		}
		return of(e.Result.Captured)
	}
}

func disasmColumn() Column {
	return Column{Name: "disasm", Type: Text, of: func(e *Entry) string {
		var insts []string
		for _, l := range e.Result.Listing {
			insts = append(insts, l.Text)
		}
		return strings.Join(insts, "; ")
	}}
}

// counters formats the counts per iteration: role=number, or event=number for the user's own events.
func counters(r *profiler.Result) string {
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

// positive leaves a zero count empty.
func positive(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// detail explains a row: why there is no number, or a caveat about it.
func detail(r *profiler.Result) string {
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
	return Column{Name: "mapping", Type: Text, of: func(e *Entry) string {
		var pages []string
		for _, p := range e.Result.Mapping {
			pages = append(pages, fmt.Sprintf("%#x", p.Addr))
		}
		return strings.Join(pages, " ")
	}}
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

// Filled returns the columns that a run with these flags may fill, plus those named in asked.
func (s Schema) Filled(f Flags, asked []string) Schema {
	return slices.DeleteFunc(slices.Clone(s), func(c Column) bool {
		return c.with != nil && !c.with(f) && !slices.Contains(asked, c.Name)
	})
}

// Join adds the optional columns of other that s lacks, each after the column that precedes it in other.
func (s Schema) Join(other Schema) Schema {
	for i, c := range other {
		if c.with == nil || s.Index(c.Name) >= 0 {
			continue
		}
		at := len(s)
		if i > 0 {
			if before := s.Index(other[i-1].Name); before >= 0 {
				at = before + 1
			}
		}
		s = slices.Insert(slices.Clone(s), at, c)
	}
	return s
}

// Arrange permutes cells; missing ones are empty.
func Arrange(cells []string, permutation []int, into []string) []string {
	into = into[:0]
	for _, at := range permutation {
		if at < 0 {
			into = append(into, "")
		} else {
			into = append(into, cells[at])
		}
	}
	return into
}

// Permutation returns the index in s of each column of other, -1 for an optional one that s lacks; nil if the
// columns differ otherwise.
func (s Schema) Permutation(other Schema) []int {
	at := make(map[string]int, len(s))
	for i, c := range s {
		at[c.Name] = i
	}
	order, missing := make([]int, len(other)), 0
	for i, c := range other {
		k, ok := at[c.Name]
		switch {
		case ok:
			order[i] = k
			delete(at, c.Name)
		case c.with != nil:
			order[i] = -1
			missing++
		default:
			return nil
		}
	}
	if len(at) > 0 || len(s)+missing != len(other) {
		return nil
	}
	return order
}

// InOrderOf returns the columns of s in the order of other, or nil if they differ or the input's columns are in
// another order.
func (s Schema) InOrderOf(other Schema) Schema {
	order := s.Permutation(other)
	if order == nil || slices.Contains(order, -1) {
		return nil
	}
	in := make(Schema, len(s))
	last := -1 // of the carried columns
	for i, at := range order {
		in[i] = s[at]
		if s[at].of == nil {
			if at < last {
				return nil
			}
			last = at
		}
	}
	return in
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

// distinct fails for two columns of one name, which JSON and Parquet cannot hold.
func (s Schema) distinct() error {
	seen := make(map[string]bool, len(s))
	for _, c := range s {
		if seen[c.Name] {
			return fmt.Errorf("two columns are called %.40q; only CSV can hold that, so rename one", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// checkWidth fails for more columns than allowed.
func checkWidth(n int) error {
	if n > input.MaxColumns {
		return fmt.Errorf("it has %d columns or more; at most %d are allowed", n, input.MaxColumns)
	}
	return nil
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

func (s Schema) Cells(e *Entry) []string {
	cells := make([]string, len(s))
	carried := 0
	for i, c := range s {
		if c.of != nil {
			cells[i] = input.OneLine(c.of(e))
			continue
		}
		if carried < len(e.Row.Carried) {
			cells[i] = input.OneLine(e.Row.Carried[carried])
		}
		carried++
	}
	return cells
}

// Repeat copies the cells of a row with the same block, except those that belong to the row itself.
func (s Schema) Repeat(measured []string, e *Entry) []string {
	cells := slices.Clone(measured)
	carried := 0
	for i, c := range s {
		switch {
		case c.of == nil:
			cells[i] = ""
			if carried < len(e.Row.Carried) {
				cells[i] = input.OneLine(e.Row.Carried[carried])
			}
			carried++
		case c.PerRow:
			cells[i] = input.OneLine(c.of(e))
		}
	}
	return cells
}
