package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bbprof": main, "under": under})
}

// mostSpoiled is how many of the scripts that measure (about thirty) other work on the machine may spoil: these
// run a second time, and then count.
const mostSpoiled = 3

// TestScripts runs bbprof as its users do. Scripts that measure begin with
//
//	[!measures] skip $WHY_NOT
//
// and any skip gives the need that is not met (see package require) and why: skip 'gcc: not installed'.
// These run one by one, since they would measure each other; all others run beside each other.
func TestScripts(t *testing.T) {
	whyNot := ""
	if testing.Short() {
		whyNot = string(require.Long) + ": -short leaves out what measures"
	} else if err := tryOnce(); errors.As(err, new(*verdict.HostError)) {
		whyNot = string(require.Measurement) + ": " + err.Error()
	} else {
		require.NoError(t, err)
	}
	params := testscript.Params{
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("WHY_NOT", whyNot)
			if cpus, err := host.AllowedCPUs(); err == nil {
				env.Setenv("CPU", strconv.Itoa(cpus[0]))
			}
			examples, err := filepath.Abs("../../examples")
			if err != nil {
				return err
			}
			env.Setenv("EXAMPLES", examples)
			a := env.T().(*attempt)
			env.Values[theTest{}] = a
			given := files(env.WorkDir)
			env.Defer(func() { a.noise = noiseInFiles(env.WorkDir, given) })
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "measures":
				return whyNot == "", nil
			case "two-speeds":
				return hasTwoSpeeds()
			case "pmu": // and user mode may read it
				p, err := pmu.Probe(pmu.Linux{}, pmu.CPU{})
				return p.Available && p.UserRDPMC, err
			case "software-events":
				_, err := pmu.Try(pmu.Linux{}, []pmu.Attr{{Type: pmu.TypeSoftware, Config: 1}})
				return err == nil, nil
			case "sklearn", "torch": // packages of Debian's Python
				return exec.Command("/usr/bin/python3", "-c", "import "+name).Run() == nil, nil
			}
			return false, errors.New("unknown condition " + name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"until":  until,
			"field":  field,
			"column": column,
		},
	}
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	spoiled := 0
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			text := require.Get(os.ReadFile(script))(t)
			params := params
			params.Files = []string{script}
			measures := bytes.Contains(text, []byte("[!measures] skip"))
			ctx := t.Context()
			if !measures {
				t.Parallel()
			}
			if measures {
				ctx = require.Context(t)
			}
			began := time.Now()
			a := runScript(ctx, params)
			again := 1 // times to try a script that failed without a word of other work
			for waited := (require.Tries{}); a.failed && measures && (a.noise != "" || again > 0 && spoiled < mostSpoiled); a = runScript(ctx, params) {
				if a.noise != "" {
					t.Logf("disturbed:\n%s", a.log.String())
					waited.Again(t, time.Since(began), a.noise)
				} else {
					t.Logf("failed, and runs once more:\n%s", a.log.String())
					again--
					spoiled++
				}
				began = time.Now()
			}
			if a.skipped != "" {
				need, why, _ := strings.Cut(a.skipped, ": ")
				require.Skip(t, require.Need(need), "%s", why)
			}
			if a.failed {
				t.Fatal(a.log.String())
			}
			t.Log(a.log.String())
		})
	}
}

// attempt is one run of a script, with how it ended.
type attempt struct {
	ctx     context.Context
	log     strings.Builder
	skipped string // the need that is not met, a colon, and why
	failed  bool
	noise   string // what one of its measurements says of other work on the core
}

// noise is what bbprof says when other work on the core left it without a number.
var noise = regexp.MustCompile(`(shared the core|took the CPU away): of [0-9]+ windows|(rejected \(|not measured: )(busy_core|context_switch|clock_drift)|` +
	`no CPU is left alone|keep other work off this core and its SMT sibling|no measurement of the core's clock rate|left out: the core was busy`)

var noisyRow = regexp.MustCompile(`,rejected,(busy_core|context_switch|clock_drift),`)

// noiseInFiles looks for noise in what a script has written beside the files that it was given.
func noiseInFiles(dir string, given []string) (found string) {
	for _, path := range files(dir) {
		if text, err := os.ReadFile(path); err == nil && !slices.Contains(given, path) {
			found = cmp.Or(found, noise.FindString(string(text)), noisyRow.FindString(string(text)))
		}
	}
	return found
}

func files(dir string) (list []string) {
	filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// runScript runs the one script that params names, in a goroutine that the script may end.
func runScript(ctx context.Context, params testscript.Params) *attempt {
	a := &attempt{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		testscript.RunT(a, params)
	}()
	<-done
	a.noise = cmp.Or(noise.FindString(a.log.String()), a.noise)
	return a
}

func (a *attempt) Run(_ string, f func(testscript.T)) { f(a) }
func (a *attempt) Parallel()                          {}
func (a *attempt) Verbose() bool                      { return testing.Verbose() }
func (a *attempt) Log(args ...any)                    { fmt.Fprintln(&a.log, args...) }

func (a *attempt) Fatal(args ...any) {
	a.Log(args...)
	a.FailNow()
}

func (a *attempt) FailNow() {
	a.failed = true
	runtime.Goexit()
}

// Skip takes what a script says: the need that is not met, a colon, and why.
func (a *attempt) Skip(args ...any) { a.lacks(fmt.Sprint(args...)) }

func (a *attempt) lacks(need string) {
	a.skipped = need
	runtime.Goexit()
}

// mustMeasure ends a test where bbprof cannot measure, or not for now.
func mustMeasure(t testing.TB) {
	t.Helper()
	require.Patience(t)
	require.Measure(t, tryOnce())
}

var tryOnce = sync.OnceValue(func() error {
	p, err := profiler.New(context.Background(), profiler.Options{})
	if err == nil {
		p.Close()
	}
	return err
})

// hasTwoSpeeds reports whether add ebx, 1; cmp eax, ebx depends on the layout here, as on Redwood Cove:
// by far enough that every run finds it.
var hasTwoSpeeds = sync.OnceValues(func() (bool, error) {
	p, err := profiler.New(context.Background(), profiler.Options{})
	if err != nil {
		return false, err
	}
	defer p.Close()
	r, err := p.Profile(context.Background(), profiler.Block{Code: []byte{0x83, 0xc3, 0x01, 0x39, 0xd8}})
	if err != nil || r.Status != profiler.OK {
		return false, err
	}
	return r.Speeds[len(r.Speeds)-1].Cycles > 1.04*r.Speeds[0].Cycles, nil
})

// exits runs a program and demands its exit code:
//
//	exits CODE PROGRAM [ARG...] [< FILE]
//
// stdout and stderr then look at its output. A measurement that something else on the
// machine disturbed is tried again, for as long as a test waits for an idle core: it says nothing about bbprof. So is one that
// may have been, which counts in the end.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...] [< FILE]")
	}
	want, program, rest := args[0], args[1], args[2:]
	var input string
	if n := len(rest); n >= 2 && rest[n-2] == "<" {
		input, rest = ts.ReadFile(rest[n-1]), rest[:n-2]
	}
	a := ts.Value(theTest{}).(*attempt)
	const tries = 4 // of what may be the block's doing
	var waited require.Tries
	for try := 1; ; try++ {
		if at := slices.Index(rest, "-o") + 1; try > 1 && at > 0 && at < len(rest) && !slices.Contains(rest, "-resume") {
			os.RemoveAll(ts.MkAbs(rest[at])) // of the try before
		}
		began := time.Now()
		var stdout, stderr strings.Builder
		cmd := exec.CommandContext(a.ctx, program, rest...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
		err := cmd.Run()
		said := stdout.String() + stderr.String()
		switch {
		case a.ctx.Err() != nil:
			ts.Logf("stopped:\n%s", said)
			a.lacks(string(require.Idle) + ": other work has drawn the scripts out to half of go test's time")
		case err != nil && cmd.ProcessState == nil:
			ts.Fatalf("%v", err)
		}
		got := strconv.Itoa(cmd.ProcessState.ExitCode())
		if disturbed(said) {
			ts.Logf("disturbed:\n%s", said)
			if neverIdle(said) || waited.Disturbed(time.Since(began)) {
				a.lacks(string(require.Idle) + ": nothing can be said of what needs a measurement")
			}
			continue
		}
		if suspect(said) && try < tries {
			ts.Logf("suspect:\n%s", said)
			continue
		}
		io.WriteString(ts.Stdout(), stdout.String())
		io.WriteString(ts.Stderr(), stderr.String())
		if got != want {
			ts.Fatalf("exit code %s, want %s", got, want)
		}
		return
	}
}

// until is exits, but runs the program again while its output does not match a pattern, four times at
// most: one disturbed window can hide the modes of a block.
//
//	until PATTERN CODE PROGRAM [ARG...]
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: until PATTERN CODE PROGRAM [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for range 3 {
		cmd := exec.CommandContext(ts.Value(theTest{}).(*attempt).ctx, args[2], args[3:]...)
		out, _ := cmd.Output() // the code says whether it failed
		if pattern.Match(out) && strconv.Itoa(cmd.ProcessState.ExitCode()) == args[1] {
			ts.Stdout().Write(out)
			return
		}
		ts.Logf("no %s in:\n%s", pattern, out)
	}
	exits(ts, false, args[1:])
}

// theTest is the key under which a script finds its test.
type theTest struct{}

// disturbed reports whether an output tells of other work on the core: in a report or JSON,
// in a row of CSV, among counts of reasons, in a selftest's table, or in the message of a calibration
// that failed. What -strict rejects is the block's doing.
func disturbed(output string) bool {
	return !strings.Contains(output, "its time depends on the layout") &&
		regexp.MustCompile(rejectedFor+`(busy_core|unstable|context_switch|clock_drift)|[ "](busy_core|unstable|context_switch|clock_drift)(":| )[1-9]|`+
			`(is not|was|CPU is) left alone|was measured twice|no quiet moment|(?m:^[a-zA-Z0-9][a-zA-Z0-9 ]+ unclear )`).MatchString(output) ||
		noise.MatchString(output)
}

// neverIdle reports whether an output tells of a command that waited for an idle CPU as long as it does.
func neverIdle(output string) bool { return strings.Contains(output, "no CPU is left alone") }

const rejectedFor = `(rejected: (-\w+: )?|rejected there: |disturbed: |the loop was not measured: |"why":"|"reason":"|,rejected,)`

// suspect reports whether an output tells of what may be the block's doing, or that of a machine that
// stood still or gave the CPU to others.
func suspect(output string) bool {
	return regexp.MustCompile(rejectedFor + `(timeout|nonlinear)| FAIL: |[0-9] FAIL`).MatchString(output)
}

// field demands that a field of the one JSON object in a file matches a pattern:
//
//	field FILE PATH PATTERN
//
// PATH is names and indices joined by dots.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] field FILE PATH PATTERN")
	}
	var value any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	d.UseNumber()
	ts.Check(d.Decode(&value))
	if d.More() {
		ts.Fatalf("more than one JSON value")
	}
	for _, name := range strings.Split(args[1], ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			ts.Check(err)
			value = nil
			if i < len(v) {
				value = v[i]
			}
		default:
			value = nil
		}
	}
	match(ts, neg, args[1], args[2], fmt.Sprint(value))
}

// column demands that a column of a row of CSV matches a pattern:
//
//	column FILE ROW NAME PATTERN
//
// Row 1 is the first below the header.
func column(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: [!] column FILE ROW NAME PATTERN")
	}
	rows, err := csv.NewReader(strings.NewReader(ts.ReadFile(args[0]))).ReadAll()
	ts.Check(err)
	row, err := strconv.Atoi(args[1])
	ts.Check(err)
	if row >= len(rows) {
		ts.Fatalf("%d rows, no row %d", len(rows)-1, row)
	}
	i := slices.Index(rows[0], args[2])
	if i < 0 {
		ts.Fatalf("no column %s in %v", args[2], rows[0])
	}
	match(ts, neg, args[2], args[3], rows[row][i])
}

func match(ts *testscript.TestScript, neg bool, what, pattern, value string) {
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	ts.Check(err)
	if re.MatchString(value) == neg {
		ts.Fatalf("%s is %q, pattern %s, negated %v", what, value, pattern, neg)
	}
}

// TestDisturbed: what a busy host makes commands say, as they said it, is told from what a block does.
func TestDisturbed(t *testing.T) {
	for output, want := range map[string]bool{
		"bbprof: this host cannot measure: no CPU is left alone for long enough to calibrate its clock; in 1m0s of " +
			"waiting 129 tries saw a context switch and 2639 a busy core": true,
		"missing      none of 8 blocks was measured twice, the first since: unstable: 12 windows give 1.000 ± 0.100 " +
			"cycles": true,
		"rejected: unstable\n":                                      true,
		"4801c0,rejected,context_switch,":                           true,
		`{"reasons":{"unstable":1}}`:                                true,
		"rejected: unstable\ndetail its time depends on the layout": false,
		"rejected: nonlinear\n":                                     false,
		"1.002 cycles per iteration":                                false,
		`{"reasons":{"unstable":0}}`:                                false,
	} {
		require.Equal(t, output, want, disturbed(output))
	}
}
