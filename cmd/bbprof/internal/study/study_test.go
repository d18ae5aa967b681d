package study

import (
	"context"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/ablate"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/values"
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
	code := cli.Finish(command, run(std), blockflags.Explain, std)
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
		name := require.File(t, "out.csv", "kept\n")
		b := &boundsCmd{}
		b.Out.File = name
		exits(t, c.name, "bounds", c.want, "", c.stderr, func(std cli.Streams) error {
			return b.rows(t.Context(), []pool.Profiler{c.p}, blocks, func(int) {}, std)
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
		return ablate.Stage{Result: profiler.Result{Status: profiler.OK, Ran: profiler.Ran{UnrollLong: 100}, Counters: counts,
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
		in := require.Get(rowflags.OpenBlocks([]string{"-"}, strings.NewReader(c.corpus)))(t)
		exits(t, c.corpus, "ablate", cli.ExitHost, c.stdout, "an idle CPU", func(std cli.Streams) error {
			return new(ablateCmd).shares(t.Context(), failsAt(0x91, 0, 0x93), in, std)
		})
	}
}

// TestValuesUnmeasured: points that could not be measured are no numbers, and without any other the command fails.
func TestValuesUnmeasured(t *testing.T) {
	noisy := values.Point{Input: "none", Values: "fixed", Status: string(profiler.Rejected), Reason: verdict.BusyCore}
	fixed := values.Point{Input: "none", Values: "fixed", Status: string(profiler.OK), Cycles: 2}
	for _, c := range []struct {
		name   string
		points []values.Point
		want   int
		says   string
	}{
		{"none", []values.Point{noisy, noisy}, cli.ExitRejected, "with fixed values rejected (busy_core)\n"},
		{"one", []values.Point{fixed, noisy}, cli.ExitOK, "with fixed values 2.000 cycles, and measured so again rejected (busy_core)\n"},
	} {
		got := values.Sweep{Base: profiler.Result{Status: profiler.OK}, Rounds: 3, Points: c.points}
		for _, json := range []bool{false, true} {
			s := new(sweepCmd)
			s.Out.JSON = json
			shows, says := "none,false,fixed,", "bbprof: 2 points of 0 inputs, 3 measurements each; "+c.says
			if json {
				shows, says = `"reason":"busy_core"`, ""
			}
			exits(t, c.name, "sweep", c.want, shows, says, func(std cli.Streams) error { return s.showValues(std, got) })
		}
	}
}
