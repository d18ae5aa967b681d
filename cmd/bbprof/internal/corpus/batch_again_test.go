package corpus

import (
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// lateIdle measures beside a neighbour that its start took for an idle core, until it leaves.
type lateIdle struct{ measured, leaves int }

func (l *lateIdle) ProfileAll(_ context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	for b, ok := next(); ok; b, ok = next() {
		cycles, level := float64(len(b.Code)), 955.
		time.Sleep(time.Microsecond)
		if len(b.Code) < 10 { // not a control, so that the level alone tells
			time.Sleep(5 * time.Millisecond) // for a check after each
			if l.measured++; l.measured <= l.leaves {
				cycles, level = 1.4*cycles, 1482
			}
		}
		done(profiler.Result{Status: profiler.OK, Cycles: cycles, CILow: cycles, CIHigh: cycles, Ran: profiler.Ran{UnrollLong: 1},
			Clock: &profiler.ClockReport{ProbeIdle: level}}, nil)
	}
	return nil
}

// TestMeasuredAgain: once a session has learnt that a core was not idle, a batch to a file measures its earlier rows again, and
// one of standard input leaves them rejected.
func TestMeasuredAgain(t *testing.T) {
	const rows = "hex\n4801c0\n4801c8\n4801c0\n4801d0\n4801d8\n4801e0\n"
	for _, stdin := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { measuredAgain(t, rows, stdin) })
	}
}

func measuredAgain(t *testing.T, rows string, stdin bool) {
	corpus, result := require.File(t, "blocks.csv", rows), filepath.Join(t.TempDir(), "r.csv")
	b := &batchFlags{files: []string{corpus}, out: cli.Output{File: result}, format: resultfile.CSV, overwrite: true}
	if stdin {
		b.files = []string{"-"}
	}
	var says strings.Builder
	std := cli.Streams{In: strings.NewReader(rows), Err: &says}
	j := batchJob{schema: resultfile.NewSchema(false, nil), run: resultfile.Run{Version: "1"}, dest: destination{batchFlags: b, journal: result}}
	var err error
	j.states, j.in, err = b.openStates(std)
	require.NoError(t, err)
	j.out = require.Get(j.dest.create(j.schema, std.Out))(t)
	options := batch.Options{Workers: []pool.Measurer{&lateIdle{leaves: 2}}, Run: j.run,
		Controls: []batch.Control{{Name: "long", Block: profiler.Block{Code: make([]byte, 10)}}}}
	end := batchEnd{flags: b, std: std}
	end.tally = require.Get(batch.Run(t.Context(), j.in, j.out, options))(t)
	void := end.tally.Void
	require.NoError(t, b.again(t.Context(), &j, options, &end))
	require.NoError(t, j.out.Flush())
	require.NoError(t, j.dest.finish(j.out))
	require.NoError(t, j.out.Close())
	got := map[string]int{}
	for _, row := range require.Get(csv.NewReader(strings.NewReader(string(require.Get(os.ReadFile(result))(t)))).ReadAll())(t)[1:] {
		got[row[1]+row[2]+row[3]]++
	}
	want := map[string]int{"ok3.0000": 6}
	if stdin {
		want = map[string]int{"rejectedbusy_core": 3, "ok3.0000": 3} // the first repeats
	}
	require.Equal(t, "rows", want, got)
	if void != 3 || stdin == strings.Contains(says.String(), "they are measured again") || stdin != strings.Contains(says.String(), "WARNING: 3 rows") || !stdin && (end.tally.OK != 6 || end.tally.Earlier != 0) {
		t.Errorf("%d void rows, %+v: %s", void, end.tally, &says)
	}
}
