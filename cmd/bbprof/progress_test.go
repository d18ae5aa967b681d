package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/internal/require"
)

// TestWatch: without a terminal a line tells now and then of counts, rate and time left.
func TestWatch(t *testing.T) {
	var w strings.Builder
	watch := newWatch(&w, 1000)
	p := batch.Progress{Tally: &batch.Tally{Rows: 10, OK: 9, Rejected: 1, Measured: 10}, Bytes: 100}
	watch.show(p)
	if w.Len() > 0 {
		t.Errorf("at once: %q", w.String())
	}
	ago := func(d time.Duration) {
		watch.began, watch.lastLine, watch.lastTime = time.Now().Add(-d), time.Now().Add(-d), time.Now().Add(-d)
		watch.lastCount = 0
	}
	for _, c := range []struct {
		bytes int64
		aside int
		ended bool
		want  string
	}{
		{550, 0, false, "bbprof: 100 rows, 10 blocks/s, 90 ok, 10 rejected, 55 %, 10s left\n"},
		{550, 3, false, "bbprof: 100 rows, 10 blocks/s, 90 ok, 10 rejected, 3 to be tried again, 55 %, 10s left\n"},
		{1000, 3, true, "bbprof: 100 rows, 10 blocks/s, 90 ok, 10 rejected, retry: 3 to go\n"},
	} {
		w.Reset()
		ago(lineEvery)
		watch.show(batch.Progress{Tally: &batch.Tally{Rows: 100, OK: 90, Rejected: 10, Measured: 100}, Bytes: c.bytes, Aside: c.aside, Ended: c.ended})
		if w.String() != c.want {
			t.Errorf("%q, want %q", w.String(), c.want)
		}
	}
	watch.size = 0 // standard input
	w.Reset()
	ago(lineEvery)
	watch.show(batch.Progress{Tally: &batch.Tally{Rows: 100, Failed: 2, Measured: 100}, Bytes: 5})
	if want := "bbprof: 100 rows, 10 blocks/s, 0 ok, 0 rejected, 2 error\n"; w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
}

func TestFit(t *testing.T) {
	for width, want := range map[int]string{20: "12 rows, 3 ok, 1s", 17: "12 rows, 3 ok, 1s", 16: "12 rows, 3 ok", 13: "12 rows, 3 ok", 12: "12 rows", 6: "", 0: "", -1: ""} {
		if got := fit("12 rows, 3 ok, 1s", width); got != want {
			t.Errorf("in %d columns: %q, want %q", width, got, want)
		}
	}
}

// TestCollectorRests: what the last step of a batch needs, which puts rows in order, is not
// multiplied by what suits measuring.
func TestCollectorRests(t *testing.T) {
	mustMeasure(t)
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var stderr strings.Builder
	if code := run([]string{"batch", "-"}, strings.NewReader("0f05\n"), io.Discard, &stderr); disturbed(stderr.String()) {
		require.Skip(t, require.Idle, "%s", &stderr)
	} else if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if got := debug.SetGCPercent(100); got != leastPercent {
		t.Errorf("the heap may grow by %d %%, want %d", got, leastPercent)
	}
}

// TestGCPercent: the heap grows to its goal, which is less where the cgroup leaves less, and by a
// quarter where more is in use.
func TestGCPercent(t *testing.T) {
	if got := gcPercent(16<<20, 4<<20); got != 300 {
		t.Errorf("4 MiB may grow by %d %%, to a goal of 16 MiB", got)
	}
	for live, want := range map[uint64]int{0: 2300, 4 << 20: 2300, 48 << 20: 100, 96 << 20: leastPercent, 1 << 30: leastPercent} {
		if got := gcPercent(heapGoal, live); got != want {
			t.Errorf("of %d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

// TestWaiting: however many workers wait for an idle CPU, one line says so.
func TestWaiting(t *testing.T) {
	var out strings.Builder
	say := waiting(&out)
	say("first")
	say("second")
	if got := out.String(); got != "bbprof: first\n" {
		t.Errorf("%q", got)
	}
}

// TestWaitingIsSaid: whoever starts profilers has them say that they wait for an idle CPU, which may take a minute.
func TestWaitingIsSaid(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	starts, says := regexp.MustCompile(`profiler\.New\(|startWorkers\(`), regexp.MustCompile(`Waiting(:| =) waiting\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && starts.Match(text) && !says.Match(text) {
			t.Errorf("%s starts profilers without Waiting", file)
		}
	}
}
