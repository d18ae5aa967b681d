package study

import (
	"context"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func readText(t *testing.T, text string) (baseline, error) {
	t.Helper()
	in, _ := require.Get2(resultfile.OpenStream(strings.NewReader(text)))(t)
	return readBaseline(in)
}

func TestReadBaseline(t *testing.T) {
	got, err := readText(t, `ci_high,hex,status,cycles,ci_low,run_header
1.1,90,ok,1,0.9,"{""version"":""1""}"
,0f05,rejected,,,
3.0000,4801c0,ok,3.0000,3.0000,
1.1,90,ok,1,0.9,
`)
	if err != nil || len(got.rows) != 4 || len(got.runs) != 1 || got.runs[0].Version != "1" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []check.Block{{Row: 1, Code: []byte{0x90}, Cycles: 1, Half: 0.1}, {Row: 3, Code: []byte{0x48, 1, 0xc0}, Cycles: 3, Half: 0.00005}}
	blocks := distinctBaseline(got.rows)
	for i := range blocks {
		blocks[i].Half = float64(int(blocks[i].Half*1e5+0.5)) / 1e5
	}
	require.Equal(t, "blocks", want, blocks)

	const header = "hex,status,cycles,ci_low,ci_high\n"
	for _, c := range []struct{ text, want string }{
		{"", "it is empty"},
		{"hex,status,cyc", "ends within its first line"},
		{"hex,status,cycles,ci_low\n", "no column ci_high"},
		{header + "9,ok,1,1,1\n", "row 1: hex: "},
		{header + "90,ok,1,,1\n", `row 1: ci_low is "", not a number`},
		{header + "90,rejected,,,\n90,ok,0,0,0\n", "row 2: 0 cycles with an interval from 0 to 0 is not a measurement"},
		{header + "90,ok,1,1.1,1.2\n", "is not a measurement"},
		{header + "90,ok,1,0.8,0.9\n", "is not a measurement"},
		{"hex,status,cycles,ci_low,ci_high,run_header\n90,ok,1,1,1,{\n", "run_header"},
	} {
		if _, err := readText(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

func TestAgainst(t *testing.T) {
	run := func(change func(*resultfile.Run)) resultfile.Run {
		r := resultfile.Run{Version: "1", Host: resultfile.Host{Microarchitecture: "Zen 4", Vendor: "AuthenticAMD", Brand: "x", Family: 25}, Settings: map[string]any{"Mode": "unroll"}}
		if change != nil {
			change(&r)
		}
		return r
	}
	unknown := func(r *resultfile.Run) { r.Host.Microarchitecture = cpu.Unknown }
	for _, c := range []struct {
		name         string
		runs         []resultfile.Run
		here         resultfile.Run
		unlike, told []string
	}{
		{"the same", []resultfile.Run{run(nil)}, run(nil), nil, nil},
		{"of nobody", nil, run(nil), []string{"it does not say on which CPU and with which settings (columns run and run_header)"}, nil},
		{"another microarchitecture", []resultfile.Run{run(func(r *resultfile.Run) { r.Host.Microarchitecture = "Zen 5" })}, run(nil), []string{"microarchitecture: Zen 5, here Zen 4"}, nil},
		{"another brand of it", []resultfile.Run{run(func(r *resultfile.Run) { r.Host.Brand = "y" })}, run(nil), nil, []string{"CPU: y, here x"}},
		{"two that nobody knows", []resultfile.Run{run(unknown)}, run(func(r *resultfile.Run) { unknown(r); r.Host.Model = 1 }),
			[]string{"CPU: AuthenticAMD family 0x19 model 0x0, here AuthenticAMD family 0x19 model 0x1"}, nil},
		{"other settings, in two runs", []resultfile.Run{run(func(r *resultfile.Run) { r.Settings = map[string]any{"Mode": "loop"} }), run(func(r *resultfile.Run) { r.Settings = map[string]any{"Mode": "loop"} })}, run(nil),
			[]string{`setting Mode: "loop", here "unroll"`}, nil},
		{"another version", []resultfile.Run{run(func(r *resultfile.Run) { r.Version = "0" })}, run(nil), nil, []string{"version: 0, here 1"}},
	} {
		b := baseline{runs: c.runs}
		unlike, told := b.against(c.here)
		require.Equal(t, c.name, c.unlike, unlike)
		require.Equal(t, c.name, c.told, told)
	}
}

// TestCheckEnds: a block that bbprof failed on is listed with its row and is the run's failure, unless another is slower;
// what a host error leaves is written before it.
func TestCheckEnds(t *testing.T) {
	of := func(row int, s check.Status) check.Outcome {
		return check.Outcome{Block: check.Block{Row: row, Code: []byte{0x90}, Cycles: 1}, Status: s}
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
		{"failed", []check.Outcome{of(1, check.Fine), failed}, nil, cli.ExitInternal, "  error  90: the child is gone\n", "bbprof: internal failure in 1 block, first in row 7: the child is gone\n"},
		{"all failed", []check.Outcome{failed}, nil, cli.ExitInternal, "bbprof failed on 1 block\n", "row 7"},
		{"another slower", []check.Outcome{of(1, check.Slower), failed}, nil, cli.ExitRejected, "error   90: the child is gone\n", ""},
		{"the host", []check.Outcome{of(1, check.Fine), of(2, check.Interrupted)}, gone, cli.ExitHost, "incomplete: ended by this host before 1 block", "an idle CPU"},
		{"Ctrl-C", []check.Outcome{of(1, check.Fine), of(2, check.Interrupted)}, context.Canceled, cli.ExitInterrupted, "incomplete: interrupted before 1 block", "interrupted"},
		{"the host, at once", nil, gone, cli.ExitHost, "", "an idle CPU"},
	} {
		var stdout, stderr strings.Builder
		std := cli.Streams{Out: &stdout, Err: &stderr}
		code := cli.Finish("check", (&checking{}).finish(std, c.outcomes, c.err), measuring.Explain, std)
		if code != c.want || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) || (c.stdout == "") != (stdout.String() == "") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, code, c.want, stdout.String(), stderr.String())
		}
	}
}
