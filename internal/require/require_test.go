package require

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/verdict"
)

// ending records how a test ends. Each way panics with the ending, as the testing package ends the goroutine.
type ending struct{ testing.TB }

func (ending) Name() string                     { return "Test" }
func (ending) Errorf(format string, arg ...any) { panic("failed: " + fmt.Sprintf(format, arg...)) }
func (ending) Helper()                          {}
func (ending) Skip(args ...any)                 { panic("skipped: " + fmt.Sprint(args...)) }
func (ending) Fatal(args ...any)                { panic("failed: " + fmt.Sprint(args...)) }
func (ending) Fatalf(format string, arg ...any) { panic("failed: " + fmt.Sprintf(format, arg...)) }

func how(f func(testing.TB)) (how string) {
	defer func() {
		if said := recover(); said != nil {
			how = said.(string)
		}
	}()
	f(ending{})
	return "goes on"
}

func TestEndings(t *testing.T) {
	host := fmt.Errorf("starting: %w", &verdict.HostError{Missing: "ptrace"})
	busy := &verdict.HostError{Missing: "an idle CPU", Busy: true}
	noise := &verdict.Rejection{Reason: verdict.Unstable}
	measure := func(err error) func(testing.TB) { return func(t testing.TB) { Measure(t, err) } }
	tool := func(t testing.TB) { Tool(t, GCC, "no-such-cc", "nor-this-cc") }
	for _, c := range []struct {
		name, env string
		test      func(testing.TB)
		want      string
	}{
		{"no error", "measure,idle", measure(nil), "goes on"},
		{"the host cannot", "", measure(host), "skipped: measure: starting"},
		{"the host cannot and must", "gcc, measure", measure(host), "failed: measure: starting"},
		{"the host cannot, and it need not be idle", "idle", measure(host), "skipped: measure: starting"},
		{"a busy host", "measure", measure(busy), "skipped: idle: "},
		{"a busy host that must be idle", "idle", measure(busy), "failed: idle: "},
		{"the end of patience", "measure", measure(fmt.Errorf("profiling: %w", context.DeadlineExceeded)), "skipped: idle: profiling"},
		{"noise", "measure", measure(noise), "skipped: idle: unstable"},
		{"noise on a host that must be idle", "idle", measure(noise), "failed: idle: unstable"},
		{"a block's own rejection", "", measure(&verdict.Rejection{Reason: verdict.Timeout}), "failed: timeout"},
		{"another error", "", measure(errors.New("it broke")), "failed: it broke"},
		{"the host cannot, else the test decides", "", func(t testing.TB) { Host(t, host) }, "skipped: measure: starting"},
		{"another error, and the test decides", "", func(t testing.TB) { Host(t, errors.New("it broke")) }, "goes on"},
		{"no tool", "measure", tool, "skipped: gcc: no-such-cc or nor-this-cc is not installed"},
		{"no tool that must be there", "gcc", tool, "failed: gcc: no-such-cc or nor-this-cc is not installed (BBPROF_REQUIRE lists gcc)"},
		{"a tool", "gcc", func(t testing.TB) { Tool(t, GCC, "no-such-cc", os.Args[0]) }, "goes on"},
		{"what is equal", "", func(t testing.TB) { Equal(t, "a sum", 2, 1+1); NoError(t, nil) }, "goes on"},
		{"what is not", "", func(t testing.TB) { Equal(t, "a sum", 2, 1) }, "failed: a sum (-want +got):"},
		{"an error as it should be", "", func(t testing.TB) { Fails(t, "a file", errors.New("it broke"), "broke") }, "goes on"},
		{"no error", "", func(t testing.TB) { Fails(t, "a file", nil, "") }, `failed: a file: error <nil>, want it to say ""`},
		{"another error", "", func(t testing.TB) { Fails(t, "a file", errors.New("it broke"), "gone") }, "failed: a file: error it broke, want"},
		{"what an error says", "", func(t testing.TB) {
			FailsAs[*verdict.HostError](t, host, "starting", "ptrace")
			FailsAs[*verdict.HostError](t, nil)
		}, "goes on"},
		{"what it does not", "", func(t testing.TB) { FailsAs[*verdict.HostError](t, host, "ending") }, "failed: starting: "},
		{"an error of another type", "", func(t testing.TB) { FailsAs[*verdict.Rejection](t, host, "starting") }, "failed: starting: "},
		{"a value beside an error", "", func(t testing.TB) { Get(os.ReadFile("nowhere"))(t) }, "failed: open nowhere"},
		{"two", "", func(t testing.TB) { Get2(1, 2, errors.New("it broke"))(t) }, "failed: it broke"},
		{"a misspelt list", "mesure", tool, `failed: BBPROF_REQUIRE names "mesure"`},
		{"an unknown need", "", func(t testing.TB) { Skip(t, "luck", "none") }, "failed: luck: none, which is not one of the needs"},
	} {
		t.Setenv(env, c.env)
		if got := how(c.test); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// timed is a test that go test ends at a time, 0 for never.
type timed struct {
	ending
	at time.Time
}

func (t timed) Deadline() (time.Time, bool) { return t.at, !t.at.IsZero() }

// A test waits, itself and by its context, until its share of the time is over, or half of all.
func TestPatience(t *testing.T) {
	defer func(at time.Time) { began = at }(began)
	began = time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name string
		test testing.TB
		ago  time.Duration // that the test first asked
		want string
	}{
		{"a third is over", timed{ending{t}, began.Add(3 * time.Hour)}, 0, "goes on"},
		{"two thirds are over", timed{ending{t}, began.Add(90 * time.Minute)}, 0, "skipped: idle: other work"},
		{"no end", timed{ending{t}, time.Time{}}, 0, "goes on"},
		{"a benchmark", ending{t}, 0, "goes on"},
		{"the test's share is over", timed{ending{t}, began.Add(10 * time.Hour)}, 10 * time.Hour / ofTest, "skipped: idle: other work"},
		{"it is not", timed{ending{t}, began.Add(20 * time.Hour)}, 10 * time.Hour / ofTest, "goes on"},
	} {
		for _, f := range []func(testing.TB){Patience, func(t testing.TB) { Context(t) }} {
			firstAsked.Store("Test", time.Now().Add(-c.ago))
			if got := how(func(testing.TB) { f(c.test) }); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	}
	for asked, want := range map[time.Duration]time.Duration{time.Hour: time.Hour + 10*time.Hour/ofTest, 5*time.Hour - 1: 5 * time.Hour} {
		firstAsked.Store("Test", began.Add(asked))
		if at, ok := Context(timed{ending{t}, began.Add(10 * time.Hour)}).Deadline(); !ok || !at.Equal(began.Add(want)) {
			t.Errorf("first asked after %v, it ends %v after the start, %t; want %v", asked, at.Sub(began), ok, want)
		}
	}
	if _, ok := Context(ending{t}).Deadline(); ok {
		t.Error("a benchmark has an end")
	}
}

// TestAtMost: of 5 runs 2 may fail, and no more run than it takes to know.
func TestAtMost(t *testing.T) {
	for _, c := range []struct {
		runs string // what each says: . is nothing, x a complaint
		ran  int
		want string
	}{
		{".....", 3, "goes on"},
		{"xx...", 5, "goes on"},
		{"x..x.", 5, "goes on"},
		{"xxx..", 3, "failed: 3 of 3 runs failed, and 2 may:\nx\nx\nx"},
		{"x.x.x", 5, "failed: 3 of 5 runs failed, and 2 may"},
	} {
		ran := 0
		got := how(func(t testing.TB) {
			AtMost(t, 2, 5, func() string {
				ran++
				return strings.Trim(c.runs[ran-1:ran], ".")
			})
		})
		if ran != c.ran || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q after %d runs, want %q after %d", c.runs, got, ran, c.want, c.ran)
		}
	}
}

// TestTries: two tries at least, then as many as fit the time for which a test waits, and one once all tests have
// lost as much as they may.
func TestTries(t *testing.T) {
	defer lostByAll.Store(lostByAll.Load())
	for _, c := range []struct {
		before, took time.Duration // lost by all tests so far, and by a try
		want         int           // tries
	}{
		{0, Wait / 10, 11},
		{0, Wait, 2},
		{0, 3 * Wait, 2},
		{WaitOfAll - Wait, Wait / 2, 3},
		{WaitOfAll, time.Millisecond, 1},
	} {
		lostByAll.Store(int64(c.before))
		tries, n := Tries{}, 1
		for ; !tries.Disturbed(c.took); n++ {
		}
		Equal(t, fmt.Sprintf("tries of %v after %v", c.took, c.before), c.want, n)
	}
	var tries Tries
	if got := how(func(t testing.TB) { tries.Again(t, Wait, "busy") }); !strings.HasPrefix(got, "skipped: idle: ") {
		t.Error(got)
	}
}

// TestNote: a list of what was skipped has a line for each test, and no line for one that failed.
func TestNote(t *testing.T) {
	list := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(skippedEnv, list)
	t.Setenv(env, "gcc")
	for _, need := range []Need{Idle, GCC, Root} {
		how(func(t testing.TB) { Skip(t, need, "a\nb") })
	}
	Equal(t, "list", "require.Test: idle: a b\nrequire.Test: root: a b\n", string(Get(os.ReadFile(list))(t)))
}

// TestNoOtherSkips: a test that skips by itself could not be required to run.
func TestNoOtherSkips(t *testing.T) {
	skip := regexp.MustCompile(`\.(Skip|Skipf|SkipNow)\(`)
	const root = "../.."
	NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if skip.MatchString(line) && !strings.Contains(line, "require.Skip(") && filepath.Base(filepath.Dir(path)) != "require" {
				t.Errorf("%s:%d skips by itself; require.Skip, Measure and Tool say what is missing", path, i+1)
			}
		}
		return err
	}))
}
