package batch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// TestTornAnywhere truncates a result around its last rows' ends and at random, as a kill or a power loss may. After
// resuming, every row is there once, and no block is measured whose row was whole.
func TestTornAnywhere(t *testing.T) {
	corpus := text(40)
	path := file(t)
	require.Get(batched(t, &lab{}, path, corpus, Options{}))(t)
	whole := readFile(t, path)
	last := strings.LastIndexByte(whole[:len(whole)-1], '\n') + 1 // where the last row begins
	cuts := []int{0, 1, last - 1, last, last + 1, len(whole) - 1, len(whole)}
	for range 20 {
		cuts = append(cuts, rand.IntN(len(whole)))
	}
	for _, cut := range cuts {
		for _, zeros := range []int{0, 10_000} { // some file systems leave blocks of zeros
			content := whole[:cut] + strings.Repeat("\x00", zeros)
			writeFile(t, path, content)
			had := wholeRows(t, content)
			l := &lab{}
			if _, err := batched(t, l, path, corpus, Options{}); err != nil {
				t.Fatalf("cut after %d of %d bytes: %v", cut, len(whole), err)
			}
			holds(t, rows(t, path), corpus)
			l.onlyOnce(t)
			for _, hex := range l.order {
				if had[hex] {
					t.Errorf("cut after %d bytes: %s is measured again", cut, hex)
				}
			}
		}
	}
}

// TestResumeRefuses: what would mix results or destroy a file is refused with a reason.
func TestResumeRefuses(t *testing.T) {
	corpus := text(30)
	const other = "hex,id\n90,0\n91,1\n"
	path := file(t)
	require.Get(batched(t, &lab{}, path, corpus, Options{}))(t)
	whole := readFile(t, path)
	lines := strings.SplitAfter(whole, "\n")
	columns := 1 + strings.Count(lines[0], ",")
	for _, c := range []struct {
		name, content, corpus string
		run                   resultfile.Run
		says                  string
	}{
		{"other settings", whole, corpus, elsewhere(func(r *resultfile.Run) { r.Settings["mode"] = "loop" }), `setting mode: "unroll", here "loop"`},
		{"another shard", whole, corpus, elsewhere(func(r *resultfile.Run) { r.Shard = "0/2" }), `shard: "", here "0/2"`},
		{"another input", whole, other, here(), "line 2: the result has another block in its row 1; go on with the same input"},
		{"a shorter input", whole, strings.Join(strings.SplitAfter(corpus, "\n")[:20], ""), here(),
			"the input ends before the rows that the result has: 11 are missing"},
		{"other columns", strings.Replace(whole, ",id,", ",name,", 1), corpus, here(), "it has name, it lacks id"},
		{"damage in the middle", strings.Join(lines[:5], "") + "x\n" + strings.Join(lines[6:], ""), corpus, here(),
			fmt.Sprintf("line 6 is not a row: 1 columns, of %d, and whole rows follow", columns)},
		{"a row twice", whole + lines[5], corpus, here(), "line 32 is a second result of row 5"},
		{"no run", regexp.MustCompile(`,[-0-9a-f]*,("\{""version.*\}")?\n`).ReplaceAllString(whole, ",,\n"), corpus, here(), "no row names its run"},
		{"other settings, without the header", noHeader(whole), corpus,
			elsewhere(func(r *resultfile.Run) { r.Settings["mode"] = "loop" }), "settings or microarchitecture: run "},
		{"another's file", "precious", corpus, here(), "it does not begin like a result and is left alone"},
		{"another's table", "a,b\n1,2\n", corpus, here(), "its columns are not those of this run"},
	} {
		writeFile(t, path, c.content)
		l := &lab{}
		_, err := batched(t, l, path, c.corpus, Options{Run: c.run})
		require.Fails(t, c.name, err, c.says)
		if readFile(t, path) != c.content || len(l.order) > 0 {
			t.Errorf("%s: %d blocks were measured, or the file changed", c.name, len(l.order))
		}
	}
}

// noHeader returns a result without its first row, as after a filter.
func noHeader(whole string) string {
	lines := strings.SplitAfter(whole, "\n")
	return lines[0] + strings.Join(lines[2:], "")
}

// TestResumeFiltered: a row that was filtered out, or whose number no row can have, is measured again.
func TestResumeFiltered(t *testing.T) {
	corpus := text(30)
	path := file(t)
	require.Get(batched(t, &lab{}, path, corpus, Options{}))(t)
	whole := readFile(t, path)
	for _, content := range []string{noHeader(whole), withCell(t, whole, 30, "row", "9223372036854775807")} {
		writeFile(t, path, content)
		tally := require.Get(batched(t, &lab{}, path, corpus, Options{}))(t)
		require.Equal(t, "rows of the earlier run", int64(29), tally.Earlier)
		holds(t, rows(t, path), corpus)
	}
	writeFile(t, path, withCell(t, whole, 30, "row", "4000000000"))
	_, err := batched(t, &lab{}, path, corpus, Options{})
	require.Fails(t, "a row of another input", err, "the input ends before the rows that the result has: 1 are missing")
}

// TestOneAtATime: while a run writes a file, no other may, regardless of flags; afterwards one may if told to.
func TestOneAtATime(t *testing.T) {
	path := file(t)
	first, _ := require.Get2(Resume(path, resultfile.CSV, schema, here()))(t)
	first.store.put([]byte("x"))
	before := readFile(t, path)
	_, _, err := Resume(path, resultfile.CSV, schema, here())
	require.Fails(t, "resuming", err, "another bbprof is writing it")
	_, err = Create(path, resultfile.CSV, schema, true)
	require.Fails(t, "replacing", err, "another bbprof is writing it")
	require.Equal(t, "the file", before, readFile(t, path))
	end(first)
	written := readFile(t, path)
	_, err = Create(path, resultfile.CSV, schema, false)
	require.Fails(t, "creating", err, "-resume continues it, -overwrite replaces it")
	require.Equal(t, "the file", written, readFile(t, path))
	end(require.Get(Create(path, resultfile.CSV, schema, true))(t))
	require.Equal(t, "the file", strings.Join(schema.Names(), ",")+"\n", readFile(t, path))
}

// TestResumeRepeats: a repeated block is found among an earlier run's rows, whatever the result omits or shows
// differently, such as moved registers.
func TestResumeRepeats(t *testing.T) {
	const corpus = "hex,id\n90,x\n91,x\n90,x\n90,y\n"
	state := func(row *input.Row) string { return row.Carried[0] }
	for _, c := range []struct {
		name  string
		visit func(*input.Row) string
		set   string // of the first row, in the result
		last  string // whose result the last row has
	}{
		{"as they are", nil, "", "1"},
		{"in captured states", state, "", ""},
		{"with a register moved", nil, "rsi=0x12345640", "1"},
	} {
		path := file(t)
		require.Get(batched(t, &lab{}, path, corpus, Options{Visit: c.visit}))(t)
		lines := strings.SplitAfter(withCell(t, readFile(t, path), 1, "set", c.set), "\n")
		writeFile(t, path, lines[0]+lines[1])
		tally := require.Get(batched(t, &lab{}, path, corpus, Options{Visit: c.visit}))(t)
		got := rows(t, path)
		if tally.Earlier != 1 || got[2]["duplicate_of"] != "1" || got[3]["duplicate_of"] != c.last {
			t.Errorf("%s: of %d earlier rows, rows 3 and 4 repeat %q and %q, want 1 and %q",
				c.name, tally.Earlier, got[2]["duplicate_of"], got[3]["duplicate_of"], c.last)
		}
	}
}

// TestResumeOddText: rows and column names made of arbitrary input text can be read again.
func TestResumeOddText(t *testing.T) {
	const corpus = "hex,caf\xe9\n4\x008,a\x00b\nzz\rz,x\ry\n\xff\xfe,caf\xe9\n\"z\"\"\",\"a\"\"b\"\n 90 , z\n"
	schema := resultfile.NewSchema(false, open(t, corpus).Carried())
	for _, format := range []resultfile.Format{resultfile.CSV, resultfile.JSON} {
		path := file(t)
		for _, earlier := range []int64{0, 5, 4} {
			out, _ := require.Get2(Resume(path, format, schema, here()))(t)
			require.Equal(t, format+": rows that are read again", earlier, out.Earlier())
			l := &lab{}
			tally := require.Get(Run(t.Context(), open(t, corpus), out, Options{Workers: l.workers(1), Run: here()}))(t)
			require.Equal(t, format, int64(5), tally.Rows)
			require.NoError(t, errors.Join(out.Flush(), out.Sort(), out.Close()))
			if earlier > 0 {
				whole := readFile(t, path)
				writeFile(t, path, whole[:len(whole)-10])
			}
		}
	}
}

// TestResumeScales: resuming keeps a mark per row in memory, and no rows.
func TestResumeScales(t *testing.T) {
	const n = 10_000
	path, names := file(t), schema.Names()
	lines := []string{strings.Join(names, ",")}
	row := make([]string, len(names))
	row[slices.Index(names, "run")] = here().ID()
	for i := range n {
		row[0], row[1], row[slices.Index(names, "row")] = block(i), "error", fmt.Sprint(i+1)
		lines = append(lines, strings.Join(row, ","))
	}
	writeFile(t, path, strings.Join(lines, "\n")+"\n")
	lines = nil
	before := inUse()
	out, _ := require.Get2(Resume(path, resultfile.CSV, schema, here()))(t)
	require.Equal(t, "rows", int64(n), out.Earlier())
	if perRow := float64(inUse()-before) / n; perRow > 60 {
		t.Errorf("%.0f bytes a row are kept", perRow)
	}
	require.NoError(t, end(out))
}

// sorted returns a result's rows in order, with a run's header replaced.
func sorted(t *testing.T, content string, ended [2]string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, sortInto(&b, strings.NewReader(content), int64(len(content)), ended))
	return b.String()
}

// TestEnded: sorting completes the run's header, even in a file already in order; another run's header stays.
func TestEnded(t *testing.T) {
	for _, content := range []string{
		"hex,row,run_header\n90,1,first\n91,2,\n92,3,second\n",
		"hex,row,run_header\n91,2,first\n90,1,\n92,3,second\n",
	} {
		for ended, want := range map[[2]string]string{
			{"first", "ended"}:  "hex,row,run_header\n90,1,ended\n91,2,\n92,3,second\n",
			{"second", "ended"}: "hex,row,run_header\n90,1,first\n91,2,\n92,3,ended\n",
			{}:                  "hex,row,run_header\n90,1,first\n91,2,\n92,3,second\n",
		} {
			require.Equal(t, content, want, sorted(t, content, ended))
		}
	}
	path := file(t)
	out := require.Get(Create(path, resultfile.CSV, schema, false))(t)
	defer out.Close()
	run := here()
	e := resultfile.Entry{RunID: run.ID(), RunHeader: run.String()}
	e.Row.Number, e.Row.Code, e.Result.Status = 1, []byte{0x90}, "error"
	require.NoError(t, out.put(0, schema.Cells(&e), nil))
	run.Controls = &resultfile.Controls{Stretches: 8}
	out.Ended(e.RunHeader, run.String())
	require.NoError(t, errors.Join(out.Flush(), out.Sort()))
	require.Equal(t, "the header", run.String(), rows(t, path)[0]["run_header"])
}

// TestFinished: a complete result is checked like a resumed one, and what its columns cannot show is listed.
// The script batch_resume has other inputs, columns and formats.
func TestFinished(t *testing.T) {
	corpus := text(30)
	whole := file(t)
	require.Get(batched(t, &lab{}, whole, corpus, Options{}))(t)
	all := strings.Join(schema.Names(), ",")
	loop := elsewhere(func(r *resultfile.Run) { r.Settings["mode"] = "loop" })
	lines := strings.SplitAfter(corpus, "\n")
	const runs, input = "CPU and settings were not checked", "the input was not checked"
	for _, c := range []struct {
		name, columns string
		format        resultfile.Format
		corpus        string
		run           resultfile.Run
		unchecked     []string
		wrong         string
	}{
		{"the same", all, resultfile.Parquet, corpus, here(), nil, ""},
		{"other settings", all, resultfile.Parquet, corpus, loop, nil, `setting mode: "unroll", here "loop"`},
		{"a shorter input", all, resultfile.Parquet, strings.Join(lines[:20], ""), here(), nil, "11 are missing"},
		{"a longer input", all, resultfile.Parquet, corpus + "90,30\n", here(), nil,
			"line 32: the result is complete and has no row 31; go on with the same input"},
		{"a column tells of the run", "run,hex", resultfile.CSV, corpus, loop, nil, "settings or microarchitecture: run "},
		{"two columns", "hex,cycles", resultfile.CSV, corpus, loop, []string{runs, input}, ""},
	} {
		names := strings.Split(c.columns, ",")
		want, _ := require.Get2(schema.Select(names))(t)
		path := filepath.Join(t.TempDir(), "result")
		convert(t, whole, path, c.format, names)
		_, unchecked, err := Finished(path, c.format, want, open(t, c.corpus), Shard{}, c.run)
		if c.wrong == "" {
			require.NoError(t, err)
		} else {
			require.Fails(t, c.name, err, c.wrong)
		}
		if !slices.EqualFunc(unchecked, c.unchecked, strings.Contains) {
			t.Errorf("%s: %q, want %q", c.name, unchecked, c.unchecked)
		}
	}
}

// convert writes some columns of a result in another format.
func convert(t *testing.T, from, to string, format resultfile.Format, names []string) {
	t.Helper()
	in := require.Get(resultfile.OpenRows(from, nil))(t)
	defer in.Close()
	f := require.Get(os.Create(to))(t)
	defer f.Close()
	out := require.Get(resultfile.NewSelection(f, format, in.Schema, names))(t)
	require.NoError(t, in.Copy(out))
}
