package study

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/ablate"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// scripted is a profiler given by a function.
type scripted func(profiler.Block) (profiler.Result, error)

func (f scripted) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	r, err := f(b)
	r.Hex = hex.EncodeToString(b.Code)
	return r, err
}

// failsAt returns two cycles for a block, unless its first byte is one at which bbprof, the block or the host fails.
func failsAt(failed, rejected, host byte) scripted {
	return func(b profiler.Block) (profiler.Result, error) {
		switch b.Code[0] {
		case failed:
			return profiler.Result{Status: profiler.Failed, Failure: "the child is gone"}, nil
		case rejected:
			r := &verdict.Rejection{Reason: verdict.SIGFPE}
			return profiler.Result{Status: profiler.Rejected, Reason: r.Reason, Rejection: r}, nil
		case host:
			return profiler.Result{}, &verdict.HostError{Missing: "an idle CPU"}
		}
		return profiler.Result{Status: profiler.OK, Cycles: 2, CILow: 1.9, CIHigh: 2.1, Predicted: &invariants.Prediction{}}, nil
	}
}

// exits checks how a command ends and what it prints; stdout "" means nothing.
func exits(t *testing.T, name, command string, want int, stdout, stderr string, run func(cli.Streams) error) {
	t.Helper()
	var out, said strings.Builder
	std := cli.Streams{Out: &out, Err: &said}
	code := cli.Finish(command, run(std), measuring.Explain, std)
	if code != want || !strings.Contains(out.String(), stdout) || (stdout == "") != (out.Len() == 0) || !strings.Contains(said.String(), stderr) {
		t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, want, &out, &said)
	}
}

// TestBoundsOfFiles: rows completed before the host fails are written; without any, an existing file is kept.
func TestBoundsOfFiles(t *testing.T) {
	blocks := []input.Row{{Code: []byte{0x91}}, {Code: []byte{0x92}}, {Code: []byte{0x93}}}
	changedFails := func(b profiler.Block) (profiler.Result, error) {
		if len(b.Code) > 1 {
			return profiler.Result{Status: profiler.Failed, Failure: "the child is gone"}, nil
		}
		return failsAt(0, 0x92, 0)(b)
	}
	for _, c := range []struct {
		name   string
		p      scripted
		want   int
		rows   []string // how each begins
		stderr string
	}{
		{"failures", failsAt(0x91, 0x92, 0), cli.ExitOK, []string{"hex,", "91,error,", "92,rejected,sigfpe,", "93,ok,,2.0"},
			"bbprof: block 91: the child is gone\n"},
		{"failures of changed blocks", changedFails, cli.ExitOK,
			[]string{"hex,", "91,error,", "92,rejected,", "93,error,"}, "bbprof: block 93: measuring it changed, as "},
		{"the host", failsAt(0x91, 0x92, 0x93), cli.ExitHost, []string{"hex,", "91,error,", "92,rejected,"},
			"bbprof: incomplete: 2 of 3 blocks done and written\nbbprof: this host cannot measure: an idle CPU"},
		{"the host at once", failsAt(0, 0, 0x91), cli.ExitHost, []string{"kept"}, "bbprof: this host cannot measure: an idle CPU"},
	} {
		name := filepath.Join(t.TempDir(), "out.csv")
		require.NoError(t, os.WriteFile(name, []byte("kept\n"), 0o666))
		b := &boundsCmd{}
		b.Out.File = name
		exits(t, c.name, "bounds", c.want, "", c.stderr, func(std cli.Streams) error {
			return b.rows(t.Context(), []measure.Profiler{c.p}, blocks, func(int) {}, std)
		})
		lines := strings.Split(strings.TrimSuffix(string(require.Get(os.ReadFile(name))(t)), "\n"), "\n")
		ok := len(lines) == len(c.rows)
		for i := range min(len(lines), len(c.rows)) {
			ok = ok && strings.HasPrefix(lines[i], c.rows[i])
		}
		if !ok {
			t.Errorf("%s: %q, want %q", c.name, lines, c.rows)
		}
	}
}

// TestStageMisses: misses are called counted if every measured step has a count, else predicted.
func TestStageMisses(t *testing.T) {
	measured := func(counts ...profiler.CounterReport) ablate.Stage {
		return ablate.Stage{Result: profiler.Result{Status: profiler.OK, UnrollLong: 100, Counters: counts,
			Predicted: &invariants.Prediction{L1DMisses: 2, L1IMisses: 3, RunL1IMisses: 250}}}
	}
	l1d := func(n float64) profiler.CounterReport {
		return profiler.CounterReport{Role: string(pmu.L1DReadMiss), Kind: invariants.Counted, PerIteration: &n}
	}
	unchecked := profiler.CounterReport{Role: string(pmu.L1DReadMiss), Kind: invariants.Unchecked}
	crashed := ablate.Stage{Result: profiler.Result{Status: profiler.Rejected, Reason: verdict.SIGSEGV,
		Rejection: &verdict.Rejection{Reason: verdict.SIGSEGV, Detail: "nothing"}}}
	for _, c := range []struct {
		name   string
		stages []ablate.Stage
		want   []string
		kind   string
	}{
		{"all counted", []ablate.Stage{crashed, measured(l1d(9.5)), measured(l1d(0))}, []string{"", "950", "0"}, "counted"},
		{"one not", []ablate.Stage{crashed, measured(l1d(9.5)), measured(unchecked)}, []string{"", "200", "200"}, "predicted"},
		{"none", []ablate.Stage{measured(), measured(unchecked)}, []string{"200", "200"}, "predicted"},
		{"nothing measured", []ablate.Stage{crashed}, []string{""}, "predicted"},
	} {
		if got, kind := misses(c.stages, pmu.L1DReadMiss); !slices.Equal(got, c.want) || kind != c.kind {
			t.Errorf("%s: %q, %s", c.name, got, kind)
		}
	}
	table := stageTable([]ablate.Stage{crashed, measured(l1d(9.5))})
	if !strings.Contains(table, "crashed  sigsegv: nothing") || !strings.Contains(table, "L1D are counted, of L1I predicted") {
		t.Error(table)
	}
}

// TestAblateEnds: when the host fails, partial results of a corpus are written before the error.
func TestAblateEnds(t *testing.T) {
	for _, c := range []struct {
		corpus, stdout string
	}{
		{"90\n91\n93\n", "of 2 blocks\nincomplete: ended by this host before the end\n"},
		{"93\n", ""},
	} {
		in := require.Get(rowfile.OpenBlocks([]string{"-"}, strings.NewReader(c.corpus), ""))(t)
		exits(t, c.corpus, "ablate", cli.ExitHost, c.stdout, "an idle CPU", func(std cli.Streams) error {
			return new(ablateCmd).shares(t.Context(), failsAt(0x91, 0, 0x93), in, std)
		})
	}
}

func readText(text string) (baseline, error) { return readBaseline("-", strings.NewReader(text)) }

func TestReadBaseline(t *testing.T) {
	got, err := readText(`ci_high,hex,status,cycles,ci_low,run_header
1.1,90,ok,1,0.9,"{""version"":""1""}"
,0f05,rejected,,,
3.0000,4801c0,ok,3.0000,3.0000,
1.1,90,ok,1,0.9,
`)
	if err != nil || len(got.rows) != 4 || len(got.runs.All()) != 1 || got.runs.All()[0].Version != "1" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []check.Block{{Row: 1, Code: []byte{0x90}, Cycles: 1, Half: 0.1}, {Row: 3, Code: []byte{0x48, 1, 0xc0}, Cycles: 3, Half: 0.00005}}
	blocks, without := distinctBaseline(got.rows)
	for i := range blocks {
		blocks[i].Half = float64(int(blocks[i].Half*1e5+0.5)) / 1e5
	}
	require.Equal(t, "blocks", want, blocks)
	require.Equal(t, "rows without cycles", 1, without)

	const header = "hex,status,cycles,ci_low,ci_high\n"
	for _, c := range []struct{ text, want string }{
		{"hex,status,cyc", "ends within its first line"},
		{"hex,status,cycles,ci_low\n", "no column ci_high"},
		{header + "90,rejected,,,\n90,ok,0,0,0\n", `row 2: status is ok, and cycles is "0"`},
		{"hex,status,cycles,ci_low,ci_high,run_header\n90,ok,1,1,1,{\n", "run_header"},
		{"hex,status,cycles,ci_low,ci_high,set\n90,ok,1,1,1,x\n", "-: row 1: set: "},
	} {
		if _, err := readText(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestBaselineDistinct: equal bytes are one block only from equal registers and, where it matters, page offsets.
func TestBaselineDistinct(t *testing.T) {
	const rip = "488b0510000000" // mov rax, [rip+0x10]
	got := require.Get(readText("hex,status,cycles,ci_low,ci_high,address,set\n90,ok,1,1,1,0x1,\n90,ok,1,1,1,0x2,\n90,ok,1,1,1,0x1,rax=1\n" +
		rip + ",ok,1,1,1,0x1,\n" + rip + ",ok,1,1,1,0x2,\n" + rip + ",ok,1,1,1,0x1,\n" + rip + ",ok,2,2,2,0x1,\n"))(t)
	var rows []int
	blocks, _ := distinctBaseline(got.rows)
	for _, b := range blocks {
		rows = append(rows, b.Row)
	}
	require.Equal(t, "rows", []int{1, 3, 4, 5, 7}, rows)
	if again := got.rows[2]; *again.At != 1 || again.Set.String() != "rax=0x1" {
		t.Errorf("%+v", again)
	}
}

// TestCheckEnds: a block that bbprof failed on fails the run, unless another is slower; a host error comes last.
func TestCheckEnds(t *testing.T) {
	of := func(row int, s check.Status) check.Outcome {
		return check.Outcome{Row: row, Hex: "90", Baseline: 1, Status: s}
	}
	failed := of(7, check.Failed)
	failed.Failure = "the child is gone"
	gone := &verdict.HostError{Missing: "an idle CPU"}
	for _, c := range []struct {
		name     string
		outcomes []check.Outcome
		err      error
		want     int
		stdout   string
		stderr   string
	}{
		{"failed", []check.Outcome{of(1, check.Fine), failed}, nil, cli.ExitInternal, "  error  90: the child is gone\n",
			"bbprof: internal failure in 1 block, first in row 7: the child is gone\n"},
		{"all failed", []check.Outcome{failed}, nil, cli.ExitInternal, "bbprof failed on 1 block\n", "row 7"},
		{"another slower", []check.Outcome{of(1, check.Slower), failed}, nil, cli.ExitRejected, "error   90: the child is gone\n", ""},
		{"the host", []check.Outcome{of(1, check.Fine), of(2, check.Interrupted)}, gone, cli.ExitHost,
			"incomplete: ended by this host before 1 block", "an idle CPU"},
		{"Ctrl-C", []check.Outcome{of(1, check.Fine), of(2, check.Interrupted)}, context.Canceled, cli.ExitInterrupted,
			"incomplete: interrupted before 1 block", "interrupted"},
		{"the host, at once", nil, gone, cli.ExitHost, "", "an idle CPU"},
	} {
		exits(t, c.name, "check", c.want, c.stdout, c.stderr, func(std cli.Streams) error { return new(checkCmd).finish(std, c.outcomes, c.err) })
	}
}
