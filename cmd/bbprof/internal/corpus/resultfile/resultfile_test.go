package resultfile

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// TestDictionary checks docs/reference.md against the columns and the noise reasons.
func TestDictionary(t *testing.T) {
	text := require.Get(os.ReadFile("../../../../../docs/reference.md"))(t)
	var documented, written []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| .*\\. \\|$").FindAllSubmatch(text, -1) {
		documented = append(documented, string(m[1])+" "+string(m[2]))
	}
	for _, c := range known() {
		written = append(written, c.Name+" "+string(c.Type))
	}
	require.Equal(t, "the columns of docs/reference.md (-written +documented)", written, documented)
	_, section, _ := strings.Cut(string(text), "Each remedy follows **Do**.")
	section, _, _ = strings.Cut(section, "may be the machine's doing")
	documented, written = nil, nil
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	for _, reason := range verdict.Reasons() {
		if reason.Noise() {
			written = append(written, string(reason))
		}
	}
	slices.Sort(documented)
	slices.Sort(written)
	require.Equal(t, "the reasons that are noise (-written +documented)", written, documented)
}

// entries are results of every kind, including awkward text.
func entries() []*Entry {
	address, half := uint64(0x10), 0.5
	row := func(n int64, code string, carried ...string) input.Row {
		return input.Row{Number: n, File: "a b,c.csv", Line: int(n) + 1, Code: []byte(code), Carried: carried}
	}
	bad := input.Row{Number: 5, File: "-", Line: 7, Text: "z\xff\x00" + strings.Repeat("y", 1000), Carried: []string{"", " x\r\ny\x00"},
		Rejection: &verdict.Rejection{Reason: verdict.BadHex, Detail: "line 7: no"}}
	return []*Entry{
		{Row: row(1, "\x90", `a "quoted", one`, ""), Tries: 1, RunID: "01234567", RunHeader: `{"version":"x"}`, Result: profiler.Result{
			Status: profiler.OK, Cycles: 0.25, CILow: 0.2499, CIHigh: 0.25016, Instructions: 1, Bytes: 1,
			Speeds: []profiler.Speed{{Cycles: 0.2, Share: 1. / 3, Layouts: []int{0, 4}},
				{Cycles: 0.25, Share: 1. / 6, Layouts: []int{3}}, {Cycles: 0.275, Share: 0.5, Layouts: []int{1, 2, 5}}},
			Mode: profiler.Both, FrontEnd: profiler.Decode, RowCycles: 0.26, RowCILow: 0.259, RowCIHigh: 0.261,
			Region:    &profiler.RegionReport{Untrained: &profiler.Untrained{Cycles: 0.35}},
			LoopsTake: profiler.CyclesColumn,
			Ran: profiler.Ran{UnrollShort: 128, UnrollLong: 512, Pages: 2, Frames: 1, Rescued: true, WindowsKept: 9, Spent: timing.Spent{
				SamplesKept: 72, WindowsSwitched: 1, WindowsUnsteady: 2, WindowsDrifted: 4, RunsPerSample: 5}},
			Init: initial.State{Name: "stack", Set: "rdi=0x1,zf=0x1"}, PaperVerdict: "sigfpe", SelfForwarding: 3,
			Clock: &profiler.ClockReport{Name: "tsc", TicksPerCycle: 0.70251},
			Evidence: []invariants.Evidence{{Invariant: verdict.L1DMiss, Kind: invariants.Inferred},
				{Invariant: verdict.ContextSwitch, Kind: invariants.Counted}},
			Counters: []profiler.CounterReport{{Role: string(pmu.Cycles), PerIteration: &half},
				{Role: string(pmu.L1IMiss)}, {Role: string(pmu.Asked), Event: "uops", PerIteration: &half}},
			Captured: &profiler.CapturedReport{Within: 3, Leaves: &verdict.Rejection{Reason: verdict.SIGFPE, Detail: "no"}},
			Warnings: []string{"one", "two"}, Impossible: profiler.BelowDispatch, Listing: []profiler.ListingLine{{Text: "nop"}, {Text: "mov rax, rbx"}}}},
		{Row: row(2, "\x90\xc3", "é", "1"), Tries: 3, Result: profiler.Result{
			Status: profiler.Rejected, Reason: verdict.ControlFlow, Instructions: 2, Bytes: 2,
			Rejection: &verdict.Rejection{Reason: verdict.ControlFlow, Detail: "ret leaves the block", Inst: &verdict.Inst{Index: 1, Offset: 1, Text: "ret"}}}},
		{Row: row(3, "\x48", "null", "007"), Result: profiler.Result{
			Status: profiler.Rejected, Reason: verdict.Unmappable, Cycles: 7, RowCycles: 7, Speeds: make([]profiler.Speed, 2),
			Instructions: 1, Bytes: 3, Ran: profiler.Ran{UnrollShort: 1, UnrollLong: 3, Pages: 2, Frames: 1},
			Rejection: &verdict.Rejection{Reason: verdict.Unmappable, Detail: `so, "so"`, Address: &address}}},
		{Row: row(4, "\x91"), Result: profiler.Result{Status: profiler.Failed, Failure: "child\ndied", Instructions: 1, Bytes: 1}},
		{Row: bad, Result: bad.Rejected()},
	}
}

func cellsOf(s Schema) (rows [][]string) {
	for _, e := range entries() {
		rows = append(rows, s.Cells(e))
	}
	return rows
}

// TestCells: unknown cells are empty, never 0, and no cell has a line end or a zero byte.
func TestCells(t *testing.T) {
	s := NewSchema(true, []string{"x", "y"})
	want := []string{
		`hex=90|status=ok|reason=|cycles=0.2500|ci_low=0.2499|ci_high=0.2502|mode=both|frontend=decode|speeds=3|
			lowest_cycles=0.2000|lowest_share=0.3333|lowest_layout=0|highest_cycles=0.2750|highest_share=0.5000|highest_layout=1|
			row_cycles=0.2600|row_ci_low=0.2590|row_ci_high=0.2610|loops_take=cycles|untrained_cycles=0.3500|instructions=1|bytes=1|unroll_short=128|unroll_long=512|
			samples_kept=72|samples_dropped=0|pages=2|frames=1|init=stack|set=rdi=0x1,zf=0x1|paper_verdict=sigfpe|
			self_forwarding_loads=3|copies_within=3|leaves=sigfpe: no|detail=one; two|impossible=below_dispatch|tries=1|rescued=true|
			windows_kept=9|windows_dropped=7|runs_per_sample=5|clock=tsc|ticks_per_cycle=0.7025|counters=cycles=0.5000; uops=0.5000|
			evidence_l1d_miss=inferred|evidence_l1i_miss=|evidence_context_switch=counted|row=1|corpus=a b,c.csv|line=2|duplicate_of=|
			run=01234567|run_header={"version":"x"}|disasm=nop; mov rax, rbx|x=a "quoted", one|y=`,
		`hex=90c3|status=rejected|reason=control_flow|cycles=|instructions=2|unroll_short=|samples_kept=|pages=|copies_within=|
			leaves=|rescued=|windows_kept=|detail=ret leaves the block (instruction 2 at byte 1: ret)|impossible=|tries=3|clock=|
			ticks_per_cycle=`,
		`cycles=|row_cycles=|speeds=|lowest_cycles=|highest_layout=|unroll_short=1|samples_kept=0|pages=2|self_forwarding_loads=|
			detail=so, "so"|tries=|y=007`,
		"status=error|detail=child died|x=|y=",
		"hex=z\ufffd " + strings.Repeat("y", 195) + "…|reason=bad_hex|bytes=|row=5|line=7|y= x  y ",
	}
	for i, cells := range cellsOf(s) {
		for _, cell := range strings.Split(strings.ReplaceAll(want[i], "|\n\t\t\t", "|"), "|") {
			name, value, _ := strings.Cut(cell, "=")
			require.Equal(t, fmt.Sprintf("row %d: %s", i+1, name), value, cells[s.Index(name)])
		}
	}
}

// TestRepeat: a repeated row has the block's cells and its own.
func TestRepeat(t *testing.T) {
	s := NewSchema(false, []string{"x", "y"})
	all := entries()
	measured := s.Cells(all[0])
	own := map[string]string{"row": "2", "line": "3", "duplicate_of": "1", "run_header": "", "corpus": "a b,c.csv", "x": "é", "y": "1"}
	for i, got := range s.Repeat(measured, &Entry{Row: all[1].Row, DuplicateOf: 1}) {
		want, is := own[s[i].Name]
		if !is {
			want = measured[i]
		}
		require.Equal(t, s[i].Name, want, got)
	}
}

// write returns a file of a format with all entries.
func write(t *testing.T, f Format, s Schema, rows [][]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := require.Get(NewWriter(&out, f, s))(t)
	for _, cells := range rows {
		require.NoError(t, w.Write(cells))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func read(t *testing.T, text []byte) (s Schema, rows [][]string) {
	t.Helper()
	name := require.File(t, "result", text)
	r := require.Get(OpenRows(name, nil))(t)
	defer r.Close()
	for row, err := range r.All() {
		require.NoError(t, err)
		rows = append(rows, slices.Clone(row.Cells))
	}
	return r.Schema, rows
}

// TestRoundTrip: every readable format returns the same columns and cells.
func TestRoundTrip(t *testing.T) {
	s := NewSchema(true, []string{"x", "y"})
	rows := cellsOf(s)
	for _, f := range []Format{CSV, JSON, Parquet} {
		got, cells := read(t, write(t, f, s, rows))
		require.Equal(t, fmt.Sprintf("%s: columns", f), s.Names(), got.Names())
		require.Equal(t, fmt.Sprintf("%s: cells", f), rows, cells)
	}
}

// TestOthersCanRead: CSV and JSON follow their standards, and unknown values are null.
func TestOthersCanRead(t *testing.T) {
	s := NewSchema(true, []string{"x", "y"})
	rows := cellsOf(s)
	got := require.Get(csv.NewReader(bytes.NewReader(write(t, CSV, s, rows))).ReadAll())(t)
	require.Equal(t, "CSV", append([][]string{s.Names()}, rows...), got)
	d := json.NewDecoder(bytes.NewReader(write(t, JSON, s, rows)))
	d.UseNumber()
	for i, cells := range rows {
		var object map[string]any
		if err := d.Decode(&object); err != nil || len(object) != len(s) {
			t.Fatalf("row %d: %d values of %d, %v", i+1, len(object), len(s), err)
		}
		for k, c := range s {
			var want any = cells[k]
			switch {
			case cells[k] == "" && c.Name != "x" && c.Name != "y":
				want = nil
			case c.Type == Flag:
				want = cells[k] == "true"
			case c.Type != Text:
				want = json.Number(cells[k])
			}
			require.Equal(t, fmt.Sprintf("row %d: %s", i+1, c.Name), want, object[c.Name])
		}
	}
	if d.More() {
		t.Error("more lines than rows")
	}
}

// TestNoUTF8: CSV keeps invalid UTF-8 from the input; other formats must not.
func TestNoUTF8(t *testing.T) {
	s := SchemaOf([]string{"hex", "x"})
	for f, want := range map[Format]string{CSV: "caf\xe9", JSON: "caf\ufffd", Parquet: "caf\ufffd"} {
		_, rows := read(t, write(t, f, s, [][]string{{"90", "caf\xe9"}}))
		require.Equal(t, f, want, rows[0][1])
	}
}

// TestDamage: a damaged row is reported with its line, and the next is read.
func TestDamage(t *testing.T) {
	const header, good = "hex,cycles,row,rescued,x\n", "90,1.0000,1,true,z\n"
	var damage *DamageError
	for _, c := range []struct{ name, bad, says string }{
		{"a column missing", "90,1.0000,1,true\n", "4 columns, of 5"},
		{"a column too many", "90,1.0000,1,true,z,\n", "6 columns"},
		{"a quote", "90,1.0000,1,true,\"z\n", "a quote is not closed"},
		{"no number", "90,1.0000x,1,true,z\n", "cycles is \"1.0000x\", which is not of type number"},
		{"no integer", "90,1.0000,1.5,true,z\n", "row is"},
		{"no flag", "90,1.0000,1,yes,z\n", "rescued is"},
		{"zeros", "90,1.0000,1,true,\x00\x00\n", "x is"},
		{"empty", "\n", "1 columns"},
	} {
		r := require.Get(NewLineReader(strings.NewReader(header+good+c.bad+good), CSV))(t)
		r.Next()
		_, err := r.Next()
		if !errors.As(err, &damage) || damage.Line != 3 || r.At != int64(len(header+good)) || !strings.Contains(damage.What, c.says) {
			t.Errorf("%s: %v, %+v", c.name, err, damage)
		}
		if cells, err := r.Next(); err != nil || cells[4] != "z" {
			t.Errorf("%s: after it %q, %v", c.name, cells, err)
		}
	}
	for _, torn := range []string{"9", good[:len(good)-1]} {
		r := require.Get(NewLineReader(strings.NewReader(header+torn), CSV))(t)
		if _, err := r.Next(); !errors.As(err, &damage) {
			t.Errorf("torn %q: %v", torn, err)
		}
	}
	for _, bad := range []string{`{"hex":"90"}`, `{"hex":"90","row":1,"x":[]}`, `{"hex":"90","row":"a","x":""}`, `{"hex"`, `[]`} {
		r := require.Get(NewLineReader(strings.NewReader(`{"hex":"90","row":1,"x":"a"}`+"\n"+bad+"\n"), JSON))(t)
		r.Next()
		if _, err := r.Next(); !errors.As(err, &damage) || damage.Line != 2 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]Format{
		"": CSV, "a": CSV, "a.csv.zst": CSV, "dir.d/a": CSV, "a.JSONL": JSON, "a.ndjson.gz": JSON, "a.bhive": BHive, "a.csv.bak": "", "a.tsv": "",
	} {
		if got, known := FormatOf(name); known != (want != "") || known && got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestNumerals(t *testing.T) {
	for want, list := range map[bool][]string{
		true:  {"0", "0.5", "-1.25", "10", "1e5", "-0"},
		false: {"", "-", ".5", "01", "+1", "NaN", "Inf", "0x1", "1_0", "1.", "1.e5", "1 ", " 1", "1e999"},
	} {
		for _, s := range list {
			require.Equal(t, s, want, isNumeral(s))
		}
	}
}

func TestRun(t *testing.T) {
	settings := SettingsOf(profiler.Options{CPUs: []int{1}, Detail: true})
	defaults := SettingsOf(profiler.Options{}.WithDefaults())
	a := Run{Version: "1", Host: Host{Brand: "x"}, Settings: settings, Kernel: "6"}
	b := Run{Version: "1", Host: Host{Brand: "x"}, Settings: defaults, Kernel: "7", Selftest: "4 of 4"}
	if d := a.Difference(b).All(); d != nil || a.ID() != b.ID() || !isID(a.ID()) {
		t.Errorf("%q, %s, %s", d, a.ID(), b.ID())
	}
	again := require.Get(ParseRun(a.String()))(t)
	if again.ID() != a.ID() || a.Difference(again).All() != nil {
		t.Errorf("%+v, differs in %q", again, a.Difference(again).All())
	}
	brand := a
	brand.Host.Brand = "y"
	if d := differenceOfIDs(a.ID(), brand.ID()); d.Unlike != nil || len(d.Told) != 1 || !strings.HasPrefix(d.Told[0], "CPU: ") {
		t.Errorf("%s: %q", brand.ID(), d)
	}
	other := SettingsOf(profiler.Options{Mode: profiler.Loop, Precision: 0.02})
	if mode := (Run{Version: "1", Host: a.Host, Settings: other}); differenceOfIDs(a.ID(), mode.ID()).Unlike == nil {
		t.Errorf("%s and %s are of other settings", a.ID(), mode.ID())
	}
}

// TestAgainst: of several runs each difference is told once, and only another core or setting makes cycles incomparable.
func TestAgainst(t *testing.T) {
	here := Run{Version: "1", Host: Host{Microarchitecture: "Zen 4", Vendor: "AMD", Family: 25}, Settings: map[string]any{"Mode": "unroll"}}
	newer, brand, version, loop, unknown := here, here, here, here, here
	newer.Host.Microarchitecture = "Zen 5"
	brand.Host.Brand = "y"
	version.Version = "0"
	loop.Settings = map[string]any{"Mode": "loop"}
	unknown.Host.Microarchitecture = cpu.Unknown
	model := unknown
	model.Host.Model = 1
	for _, c := range []struct {
		runs         []Run
		here         Run
		unlike, told string
	}{
		{[]Run{here}, here, "", ""},
		{[]Run{newer}, here, "microarchitecture: Zen 5 (), here Zen 4 ()", ""},
		{[]Run{brand}, here, "", `CPU: {"microarchitecture":"Zen 4","vendor":"AMD","brand":"y"`},
		{[]Run{unknown}, model, "microarchitecture: AMD family 0x19 model 0x0, here AMD family 0x19 model 0x1", ""},
		{[]Run{loop, loop}, here, `setting Mode: "loop", here "unroll"`, ""},
		{[]Run{version}, here, "", `version: "0", here "1"`},
	} {
		got := (&Runs{runs: c.runs}).Against(c.here)
		if strings.Join(got.Unlike, "|") != c.unlike || !strings.HasPrefix(strings.Join(got.Told, "|"), c.told) || (c.told == "") != (got.Told == nil) {
			t.Errorf("%+v, want %q, %q", got, c.unlike, c.told)
		}
	}
}

// TestSettings: settings have the names of the flags, and none is missing.
func TestSettings(t *testing.T) {
	set := require.Get(initial.ParseSet("rdi=1"))(t)
	for _, c := range []struct {
		options profiler.Options
		want    string
	}{
		{profiler.Options{}, `{"budget":"3s","clock":"auto","events":"","frames":"auto","frontend":"opcache","ftz":true,"identical":8,"init":"auto",` +
			`"mode":"hot","precision":0.01,"rescue":true,"unroll":"auto"}`},
		{profiler.Options{Unroll: &unroll.Factors{Short: 50, Long: 100}, Budget: 1500 * time.Millisecond, Precision: 0.02, Frames: 1, Init: "zero", NoFTZ: true,
			NoRescue: true, Mode: profiler.Both, FrontEnd: profiler.Decode, Clock: profiler.TSCClock, Identical: 4, Events: []string{"a", "b"},
			CPUs: []int{3}, Detail: true, Layout: new(int), Set: set, Strict: true},
			`{"budget":"1.5s","clock":"tsc","events":"a,b","frames":1,"frontend":"decode","ftz":false,"identical":4,"init":"zero","layout":0,` +
				`"mode":"both","precision":0.02,"rescue":false,"set":"rdi=0x1","strict":true,"unroll":"50,100"}`},
	} {
		settings := SettingsOf(c.options)
		text, _ := json.Marshal(settings)
		require.Equal(t, "settings differ", c.want, string(text))
		require.Equal(t, "read again", settings, require.Get(ParseRun(Run{Settings: settings}.String()))(t).Settings)
	}
}

// FuzzLines: any cells survive a round trip through one line.
func FuzzLines(f *testing.F) {
	f.Add("90", "a,b", `"`)
	f.Add("", " ", "\ufeff\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		s := SchemaOf([]string{"hex", "x", "y"})
		cells := []string{input.OneLine(a), input.OneLine(b), input.OneLine(c)}
		for i, cell := range cells {
			cells[i] = strings.ToValidUTF8(cell, "?") // JSON requires UTF-8
		}
		for _, format := range []Format{CSV, JSON} {
			lines := require.Get(NewLines(format, s))(t)
			line := require.Get(lines.Append(nil, cells))(t)
			text, ended := strings.CutSuffix(string(line), "\n")
			got, err := lines.Parse(text, nil)
			if err != nil || !ended || strings.Contains(text, "\n") || !slices.Equal(got, cells) {
				t.Fatalf("%s: %q as %q is %q, %v", format, cells, line, got, err)
			}
		}
	})
}

// TestByteOrderMark: a byte-order mark is not part of the first line, but counts in offsets.
func TestByteOrderMark(t *testing.T) {
	for _, text := range []string{"hex,row\n90,1\n", `{"hex":"90","row":1}` + "\n"} {
		r := require.Get(NewLineReader(strings.NewReader("\ufeff"+text), ""))(t)
		cells, err := r.Next()
		if err != nil || !slices.Equal(r.Schema().Names(), []string{"hex", "row"}) || !slices.Equal(cells, []string{"90", "1"}) {
			t.Errorf("%q: %q, %v of %q", text, cells, err, r.Schema().Names())
		}
		if want := int64(len("\ufeff") + strings.LastIndex(text[:len(text)-1], "\n") + 1); r.At != want {
			t.Errorf("%q: the row is at %d, want %d", text, r.At, want)
		}
	}
}
