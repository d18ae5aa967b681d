package batch

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// twoControls are a chain that is known and one that is not; in a lab a block takes as many cycles as it has bytes.
var twoControls = []Control{{Name: "chain", Block: profiler.Block{Code: make([]byte, 3)}, Cycles: 3},
	{Name: "adds", Block: profiler.Block{Code: make([]byte, 9)}}}

// distinctRows is a corpus of n blocks of five bytes, each a millisecond's work in busyLab.
func distinctRows(n int) string {
	corpus, _ := noisyCorpus(n, 0)
	return corpus
}

// busyLab slows every block by a third within a time, on the workers from one on.
func busyLab(from, to time.Duration, first int) *lab {
	began := time.Now()
	l := &lab{delay: func(string, int) time.Duration { return time.Millisecond }}
	l.slows = func(worker, _ int) float64 {
		if at := time.Since(began); worker >= first && from <= at && at < to {
			return 4. / 3
		}
		return 1
	}
	return l
}

// wrong counts a result's accepted rows whose cycles are not their block's, and the rows of a busy core.
func wrong(t *testing.T, path string) (wrong, busy, all int) {
	t.Helper()
	got := rows(t, path)
	for _, row := range got {
		cycles, _ := strconv.ParseFloat(row["cycles"], 64)
		switch {
		case row["reason"] == "busy_core":
			busy++
			if !strings.Contains(row["detail"], "; about 6.667 cycles") && !strings.Contains(row["detail"], "; about 6.6667 cycles") {
				t.Errorf("row %s: %s", row["row"], row["detail"])
			}
		case row["status"] != "ok" || math.Abs(cycles-5) > 0.01:
			wrong++
		}
	}
	return wrong, busy, len(got)
}

// TestControls: rows that a neighbour slowed are measured again, whether it comes and goes, was there at the start or has
// had the idle level wrong; where it stays they are rejected. Controls take 2 % of the time.
func TestControls(t *testing.T) {
	const n, second = 1250, 250 * time.Millisecond // of the time that so many rows take
	for name, c := range map[string]struct {
		from, to    time.Duration
		first       int     // worker
		level       float64 // of the workers from the first on, meanwhile; 0: that of all
		learnt      bool
		void, stays bool // rows are judged at the end only; rejected in the end
	}{
		"none":                   {},
		"for a while":            {from: second, to: 2 * second},
		"at the start":           {to: second},
		"and nothing is known":   {to: second, learnt: true, void: true},
		"from some time on":      {from: second, to: time.Hour, stays: true},
		"a level learnt late":    {to: second, level: 1400, void: true},
		"one worker's own level": {to: second, first: 1, level: 1400, void: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			path, corpus := file(t), distinctRows(n)
			l := busyLab(c.from, c.to, c.first)
			if slows := l.slows; c.level > 0 { // that alone tells
				l.level = func(worker int) float64 { return 1000 + (c.level-1000)*3*(slows(worker, 5)-1) }
				l.slows = func(worker, bytes int) float64 {
					if bytes == 5 {
						return slows(worker, bytes)
					}
					return 1
				}
			}
			o := Options{Workers: l.workers(2), Retries: 1, Controls: twoControls}
			if c.learnt {
				o.Controls = twoControls[1:]
			}
			tally := require.Get(batched(t, l, path, corpus, o))(t)
			share := tally.Controls.Share
			if c.void != (tally.Void > 0) {
				t.Errorf("%s: %d rows were void at the end", name, tally.Void)
			}
			if c.void {
				tally = require.Get(batched(t, l, path, corpus, o))(t)
			}
			got, busy, all := wrong(t, path)
			if got > 0 || c.stays != (busy > 0) || int64(busy) != tally.Reasons["busy_core"] || all != n || tally.Rows != n {
				t.Errorf("%s: %d rows are wrong and %d busy; %+v", name, got, busy, tally)
			}
			if share > 0.03 {
				t.Errorf("%s: controls took %.3f of the time", name, share)
			}
			if c.to == 0 && (tally.Controls.Again > 0 || len(tally.Controls.Blocks) != 2 || tally.Controls.Blocks[0].Measured < 10) {
				t.Errorf("%+v", tally.Controls)
			}
		})
	}
}

// TestVoidOnFile: a run that is killed before it measures slowed rows again leaves none of them accepted, and a resumed
// one measures them.
func TestVoidOnFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, corpus := file(t), distinctRows(1500)+block(0)+",again\n"
		l := busyLab(500*time.Millisecond, time.Hour, 0)
		out := require.Get(Create(path, resultfile.CSV, schema, false))(t)
		require.Get(Run(t.Context(), open(t, corpus), out, Options{Workers: l.workers(2), Run: here(), Controls: twoControls}))(t)
		end(out) // unsorted, as a kill leaves it
		last := map[string]string{}
		for _, row := range rows(t, path) {
			last[row["row"]] = row["status"] + row["cycles"]
		}
		busy := 0
		for row, what := range last {
			if what == "rejected" {
				busy++
			} else if what != "ok5.0000" {
				t.Errorf("row %s: %s", row, what)
			}
		}
		l = busyLab(0, 0, 0)
		tally := require.Get(batched(t, l, path, corpus, Options{Workers: l.workers(2), Controls: twoControls}))(t)
		if got, left, _ := wrong(t, path); got > 0 || left > 0 || busy == 0 || tally.Earlier != int64(1501-busy) || tally.OK != 1501 {
			t.Errorf("%d rows were busy; in the end %d wrong, %d busy; %+v", busy, got, left, tally)
		}
		if n := strings.Count(readFile(t, path), `""version""`); n != 1 {
			t.Errorf("%d run headers", n)
		}
	})
}

// TestControlsOfPipe: what went out cannot be replaced, and is counted.
func TestControlsOfPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := busyLab(500*time.Millisecond, time.Second, 0)
		var out strings.Builder
		tally := require.Get(piped(t, t.Context(), &out, resultfile.CSV, distinctRows(2000), false,
			Options{Workers: l.workers(2), Retries: 1, Controls: twoControls}))(t)
		slowed := 0
		for _, row := range parse(t, out.String()) {
			if row["cycles"] != "5.0000" {
				slowed++
			}
		}
		if slowed == 0 || tally.Late < int64(slowed) {
			t.Errorf("%d rows are slow, and %d are said to be", slowed, tally.Late)
		}
		var says strings.Builder
		tally.Report(&says)
		if !strings.Contains(says.String(), fmt.Sprintf("WARNING: %d rows had been written before", tally.Late)) {
			t.Errorf("the summary: %s", &says)
		}
	})
}

// TestExpected: a control's time is the fastest mode, neither the fastest reading nor the most frequent.
func TestExpected(t *testing.T) {
	for _, c := range []struct {
		readings []float64
		whole    bool
		want     float64
	}{
		{[]float64{2, 2.004}, false, 0},
		{[]float64{1.5, 2, 2.004, 2.006, 2.7, 2.7, 2.71, 2.7, 2.7}, false, 2},
		{[]float64{2.95, 2.96, 2.94}, true, 3},
	} {
		k := kind{Control: Control{Whole: c.whole}, buckets: map[int]int{}}
		for _, r := range c.readings {
			k.learn(r)
		}
		if got := k.expected(); math.Abs(got-c.want) > 0.005*c.want {
			t.Errorf("of %v: %v, want %v", c.readings, got, c.want)
		}
	}
}
