package study

import (
	"context"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

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
		{header + "9,ok,1,1,1\n", "row 1: hex: "},
		{header + "90,ok,1,,1\n", `row 1: column ci_low is "", not a number`},
		{header + "90,rejected,,,\n90,ok,0,0,0\n", "row 2: 0 cycles with an interval from 0 to 0 is not a measurement"},
		{header + "90,ok,1,1.1,1.2\n", "is not a measurement"},
		{header + "90,ok,1,0.8,0.9\n", "is not a measurement"},
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
