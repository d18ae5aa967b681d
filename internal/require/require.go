// Package require decides what a test does when it needs something that is not there.
//
// A test names what it needs by a [Need] and skips through this package only. BBPROF_REQUIRE lists needs, separated
// by commas, that this machine is expected to meet: if one of those is missing, the test fails. So a machine that
// should run everything (see .ci/run) cannot pass by skipping.
package require

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bbprof/bbprof/verdict"
)

// env is the environment variable that lists the needs whose absence fails a test.
const env = "BBPROF_REQUIRE"

// A Need is what a test may lack.
type Need string

// The needs of bbprof's tests. Those below CPU are programs.
const (
	Measurement Need = "measure" // a host on which bbprof can measure
	Idle        Need = "idle"    // a core that other work leaves alone while the test measures
	Root        Need = "root"    // the rights to set a host up: namespaces, mounts, limits
	Kernel      Need = "kernel"  // a feature of the kernel: /proc, cgroup2, pidfd, software events
	Corpus      Need = "corpus"  // the development corpus beside the checkout
	Modules     Need = "modules" // the data in golang.org/x/arch's module
	Long        Need = "long"    // the time of a test that runs for minutes, or that -short leaves out
	CPU         Need = "cpu"     // an instruction set, a microarchitecture, a second CPU

	Go         Need = "go"
	GCC        Need = "gcc"
	Binutils   Need = "objdump"
	Gzip       Need = "gzip"
	LLVM       Need = "llvm" // llvm-mca, llvm-mc, lld, llvm-exegesis
	Valgrind   Need = "valgrind"
	Allocators Need = "allocators" // jemalloc, tcmalloc and mimalloc, as libraries
	Chromium   Need = "chromium"
	Node       Need = "node"
	Python     Need = "python"
	Sklearn    Need = "sklearn"
	Torch      Need = "torch"
	DuckDB     Need = "duckdb"
	Protoc     Need = "protoc"
	Shells     Need = "shells" // zsh and fish
	Man        Need = "man"
	Slurm      Need = "slurm"
)

func Needs() []Need {
	return []Need{
		Measurement, Idle, Root, Kernel, Corpus, Modules, Long, CPU,
		Go, GCC, Binutils, Gzip, LLVM, Valgrind, Allocators, Chromium, Node, Python, Sklearn, Torch, DuckDB, Protoc, Shells, Man, Slurm,
	}
}

// Skip ends a test that lacks need: as skipped, or as failed where BBPROF_REQUIRE lists it.
func Skip(t testing.TB, need Need, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf("%s: %s", need, fmt.Sprintf(format, args...))
	required, err := parse(os.Getenv(env))
	switch {
	case err != nil:
		t.Fatal(err)
	case !slices.Contains(Needs(), need):
		t.Fatalf("%s, which is not one of the needs %v", why, Needs())
	case slices.Contains(required, need):
		t.Fatalf("%s (%s lists %s)", why, env, need)
	}
	note(strings.TrimSuffix(filepath.Base(os.Args[0]), ".test") + "." + t.Name() + ": " + why)
	t.Skip(why)
}

// Slow ends a test that takes seconds where -short leaves such out.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		Skip(t, Long, "-short leaves it out")
	}
}

// skippedEnv is the environment variable that names a file for one line a skipped test.
const skippedEnv = "BBPROF_SKIPPED"

// note appends a line to the list of what was skipped, if somebody asked for one.
func note(line string) {
	file, err := os.OpenFile(os.Getenv(skippedEnv), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return
	}
	defer file.Close()
	fmt.Fprintln(file, strings.ReplaceAll(line, "\n", " "))
}

// AtMost runs a check of something measured n times, and fails the test if more than failures of these complain (""
// is no complaint): other work on the machine may spoil one run, and hardly spoils many. It stops as soon as the
// outcome is settled.
func AtMost(t testing.TB, failures, n int, check func() string) {
	t.Helper()
	var complaints []string
	for left := n; left > 0 && len(complaints)+left > failures; left-- {
		complaint := check()
		if complaint == "" {
			continue
		}
		complaints = append(complaints, complaint)
		if len(complaints) > failures {
			t.Errorf("%d of %d runs failed, and %d may:\n%s", len(complaints), n-left+1, failures, strings.Join(complaints, "\n"))
			return
		}
	}
}

// Wait is how long a test waits for an idle core: its tries that other work disturbed, together. WaitOfAll is the
// same of all tests of a package.
const (
	Wait      = 2 * time.Second
	WaitOfAll = 30 * time.Second
)

// Tries counts the time that a test has lost to other work. The zero value has lost none.
type Tries struct {
	disturbed int
	lost      time.Duration
}

var lostByAll atomic.Int64 // nanoseconds

// Disturbed counts a try that other work disturbed, and reports whether the test is to be skipped now. It has two
// tries at least, unless all tests together have lost [WaitOfAll].
func (w *Tries) Disturbed(took time.Duration) (enough bool) {
	w.disturbed++
	w.lost += took
	return w.lost > Wait && w.disturbed > 1 || lostByAll.Add(int64(took)) > int64(WaitOfAll)
}

// Again is Disturbed, and then skips the test.
func (w *Tries) Again(t testing.TB, took time.Duration, why any) {
	t.Helper()
	if w.Disturbed(took) {
		Skip(t, Idle, "other work disturbed %d tries, %v: %v", w.disturbed, w.lost.Round(time.Millisecond), why)
	}
}

var began = time.Now()

// Patience ends a test that is about to measure, if its time is over: on a machine that is seldom idle each command may
// wait for a minute, and a package whose time is up has failed.
func Patience(t testing.TB) {
	t.Helper()
	if end, ok := patience(t); ok && time.Now().After(end) {
		Skip(t, Idle, "other work has drawn it out: the tests of this package run for %v", time.Since(began).Round(time.Second))
	}
}

// Context is what a test measures in, as a study of many blocks may by itself take all the time there is: it ends
// with [Patience], and [Measure] skips for its error.
func Context(t testing.TB) context.Context {
	t.Helper()
	Patience(t)
	end, ok := patience(t)
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), end)
	t.Cleanup(cancel)
	return ctx
}

// All tests of a package measure for at most 1/ofPackage of the time that go test gives it (-timeout), and each for
// 1/ofTest of it, several times what the longest takes on an idle core, so that one that waits leaves time to the others.
const (
	ofPackage = 2
	ofTest    = 20
)

var firstAsked sync.Map // a test's name -> when it first had patience

// patience is when a test's time to measure is over; a benchmark has no such time.
func patience(t testing.TB) (time.Time, bool) {
	timed, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	deadline, ok := timed.Deadline()
	all := deadline.Sub(began)
	first, _ := firstAsked.LoadOrStore(t.Name(), time.Now())
	end := first.(time.Time).Add(all / ofTest)
	if last := began.Add(all / ofPackage); end.After(last) {
		end = last
	}
	return end, ok
}

// Measure ends a test if err is one of the documented reasons for having no measurement: a host that cannot measure,
// other work on the core, or the end of [Context]. Any other error fails the test; nil lets it go on.
func Measure(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	need, ok := missing(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		need = Idle
	case !ok:
		t.Fatal(err)
	}
	Skip(t, need, "%v", err)
}

// Host ends a test if err says that the host cannot measure, and leaves any other error to the test.
func Host(t testing.TB, err error) {
	t.Helper()
	if need, ok := missing(err); ok {
		Skip(t, need, "%v", err)
	}
}

// missing is the need that an error of bbprof's says is not met, if it says so.
func missing(err error) (Need, bool) {
	var host *verdict.HostError
	var block *verdict.Rejection
	switch {
	case errors.As(err, &host) && host.Busy:
		return Idle, true
	case errors.As(err, &host):
		return Measurement, true
	case errors.As(err, &block) && block.Reason.Noise():
		return Idle, true
	}
	return "", false
}

// Tool finds the first of some programs on the PATH, or ends the test.
func Tool(t testing.TB, need Need, programs ...string) string {
	t.Helper()
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
	}
	Skip(t, need, "%s is not installed", strings.Join(programs, " or "))
	return ""
}

// Compiled is the program that gcc makes of a C file.
func Compiled(t testing.TB, source string, flags ...string) string {
	t.Helper()
	gcc, path := Tool(t, GCC, "gcc"), filepath.Join(t.TempDir(), "prog")
	if out, err := exec.Command(gcc, append(flags, "-o", path, source)...).CombinedOutput(); err != nil {
		Skip(t, GCC, "%s does not compile here: %v: %s", source, err, out)
	}
	return path
}

// parse reads a list of needs. An unknown one is an error, or a misspelt list would require nothing.
func parse(list string) ([]Need, error) {
	var needs []Need
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains(Needs(), Need(word)) {
			return nil, fmt.Errorf("%s names %q: the needs are %v", env, word, Needs())
		}
		needs = append(needs, Need(word))
	}
	return needs, nil
}
