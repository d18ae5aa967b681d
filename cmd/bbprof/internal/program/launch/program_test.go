package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode fs.FileMode, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o644))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	good := tinyelf.File([]byte(tinyelf.Exit(0)))
	patched := func(at int, b ...byte) []byte {
		f := bytes.Clone(good)
		copy(f[at:], b)
		return f
	}
	const machine, class, kind, entry = 18, 4, 16, 24 // offsets in Elf64_Ehdr
	for _, c := range []struct {
		name string
		path string
		want []string // nil: it can be run
	}{
		{"a program", write("good", 0o755, good), nil},
		{"not there", filepath.Join(dir, "nothing"), []string{"no such program", "path"}},
		{"not on PATH", "no-such-program-anywhere", []string{"no such program", "PATH"}},
		{"a variable", "LD_PRELOAD=./libx.so", []string{"no shell runs the program", "LD_PRELOAD=./libx.so bbprof"}},
		{"a directory", dir, []string{"it is a directory", "name a program"}},
		{"not executable", write("plain", 0o644, good), []string{"cannot be executed", "chmod +x"}},
		{"text", write("text", 0o755, []byte("hello\n")), []string{"not an ELF"}},
		{"empty", write("empty", 0o755, nil), []string{"not an ELF"}},
		{"cut short", write("short", 0o755, good[:40]), []string{"not an ELF"}},
		{"another machine", write("arm", 0o755, patched(machine, 183)), []string{"EM_AARCH64", "x86-64"}},
		{"an object file", write("object", 0o755, patched(kind, 1)), []string{"ET_REL", "no program"}},
		{"setuid", write("setuid", 0o755|fs.ModeSetuid, good), []string{"setuid", "cp"}},
		{"setgid", write("setgid", 0o755|fs.ModeSetgid, good), []string{"setgid", "cp"}},
		{"a library", write("library", 0o755, patched(entry, 0, 0, 0, 0)), []string{"no program"}},
	} {
		e, err := open(c.path)
		if c.want == nil && (err != nil || e.Path != c.path || e.IsGo) {
			t.Errorf("%s: %+v, %v", c.name, e, err)
		}
		require.FailsAs[*Error](t, err, c.want...)
	}
	_, err := NewCommand(nil)
	require.FailsAs[*Error](t, err, "none is named")
}

func TestFind(t *testing.T) {
	defined := []Function{{Name: "main", Addr: 0x1000}, {Name: "sum", Addr: 0x1010}, {Name: "sum", Addr: 0x1020}, {Name: "total.constprop.0", Addr: 0x1030},
		{Name: "main.total", Addr: 0x1040}, {Name: "Fibonacci", Addr: 0x1050}, {Name: "_ZNK3app3Sum4overEm", Addr: 0x1060},
		{Name: "_ZN3app5twiceIiEET_S1_", Addr: 0x1070}, {Name: "_ZN3app5twiceIlEET_S1_", Addr: 0x1080},
		{Name: "_ZN4sums8triangle17h0123456789abcdefE", Addr: 0x1090}, {Name: "_RNvCs1234_4sums7product", Addr: 0x10a0},
		{Name: "_ZN3app4meanEi.constprop.0.isra.0", Addr: 0x10b0}, {Name: "split.isra.0", Addr: 0x10c0}, {Name: "split.constprop.0", Addr: 0x10d0},
		{Name: "split.part.0", Addr: 0x10e0}, {Name: "half.part.0", Addr: 0x10f0}}
	for _, row := range require.Table(t, "find.txt") {
		name, want, says := row[0], require.Get(strconv.ParseUint(row[1], 0, 64))(t), row[2:]
		f, err := find("prog", name, defined, []string{"qsort"})
		if (err == nil) != (len(says) == 0) || f.Addr != want {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if err != nil {
			require.FailsAs[*Error](t, err, append(says, "prog")...)
		}
	}
	_, err := find("prog", "main", nil, nil)
	require.FailsAs[*Error](t, err, "names no function")
	for _, own := range [][]Function{defined, nil} {
		if f, err := find("prog", "qsort", own, []string{"qsort"}); err != nil || f != (Function{Name: "qsort", Shared: true}) {
			t.Errorf("%+v, %v", f, err)
		}
	}
}

func TestFunction(t *testing.T) {
	e := require.Get(open(tinyelf.Write(t, []byte(tinyelf.Exit(0)), tinyelf.Symbol{Name: "f", Offset: 5},
		tinyelf.Symbol{Name: "g", Offset: 10}, tinyelf.Symbol{Name: "f", Offset: 5})))(t)
	if f, err := e.Function("f"); err != nil || f.Addr != tinyelf.Base+5 {
		t.Errorf("%+v, %v", f, err)
	}
	if s := e.slide(tinyelf.Base + 0x555000); s != 0x555000 {
		t.Errorf("slide %#x", s)
	}
	stripped := require.Get(open(tinyelf.Write(t, []byte(tinyelf.Exit(0)))))(t)
	_, err := stripped.Function("f")
	require.FailsAs[*Error](t, err, "no symbol table", "-s")
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string // nil: refused
	}{
		{" ./prog  'a b' \"c d\" e\\ f ''", []string{"./prog", "a b", "c d", "e f", ""}},
		{"./prog 'a", nil},
		{"./prog > out", nil},
		{"./a; ./b", nil},
		{"./prog '>' '|'", []string{"./prog", ">", "|"}},
	} {
		got, err := Words(c.line)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.line, got, err)
		}
	}
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		words []string
		set   string
		want  []string
	}{
		{[]string{"p", "{}"}, "10", []string{"p", "10"}},
		{[]string{"p", "{}", "x"}, "1 2", []string{"p", "1", "2", "x"}},
		{[]string{"p", "{}", "x"}, "", []string{"p", "x"}},
		{[]string{"p", "--n={}"}, "1 2", []string{"p", "--n=1 2"}},
		{[]string{"p", "{}{}"}, "1", []string{"p", "11"}},
		{[]string{"p", "x"}, "'1 2' 3", []string{"p", "x", "1 2", "3"}},
	} {
		if got, err := Fill(c.words, c.set); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q with %q: %q, %v", c.words, c.set, got, err)
		}
	}
	if _, err := Fill([]string{"p"}, "'"); err == nil {
		t.Error("an open quote is taken")
	}
}

func TestParseRange(t *testing.T) {
	for _, c := range []struct {
		s    string
		want []int // nil: refused
	}{
		{"0:64:16", []int{0, 16, 32, 48, 64}},
		{"0:63:16", []int{0, 16, 32, 48}},
		{"5:5:1", []int{5}},
		{"3:5", []int{3, 4, 5}},
		{"9223372036854775800:9223372036854775807:4", []int{math.MaxInt - 7, math.MaxInt - 3}},
		{"5:4:1", nil}, {"0:64:0", nil}, {"0:64:-1", nil}, {"-1:64:1", nil}, {"64", nil}, {"0:1:2:3", nil}, {"a:b:c", nil}, {"", nil}, {"0:8:", nil},
	} {
		r, err := ParseRange(c.s)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(r.Values(), c.want) {
			t.Errorf("%q: %v, %v", c.s, r.Values(), err)
		}
	}
}

func TestSetup(t *testing.T) {
	for _, c := range []struct {
		s  Setup
		ok bool
	}{
		{Setup{}, true}, {Setup{EnvBytes: maxEnvBytes, StackShift: 1 << 20}, true},
		{Setup{HeapShift: 1 << 20}, true}, {Setup{HeapShift: 1<<20 + 1}, false}, {Setup{HeapShift: -16}, false},
		{Setup{EnvBytes: -1}, false}, {Setup{EnvBytes: maxEnvBytes + 1}, false},
		{Setup{StackShift: 8}, false}, {Setup{StackShift: -16}, false}, {Setup{StackShift: 1<<20 + 16}, false},
	} {
		if err := c.s.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
	env := Setup{EnvBytes: 3}.environ([]string{"A=1", "BBPROF_PAD=old", "B=2"})
	if !slices.Equal(env, []string{"A=1", "B=2", "BBPROF_PAD=xxx"}) {
		t.Errorf("%q", env)
	}
}

// newRunner starts a Runner, skipping the test if this host cannot.
func newRunner(t *testing.T, o Options) *Runner {
	t.Helper()
	r, err := NewRunner(o)
	require.Measure(t, err)
	return r
}

func tiny(t *testing.T, code ...string) Command {
	t.Helper()
	return require.Get(NewCommand([]string{tinyelf.Write(t, tinyelf.Asm(code...))}))(t)
}

// run is Run, skipping the test if this host cannot.
func run(t *testing.T, r *Runner, c Command, s Setup) (float64, error) {
	t.Helper()
	sample, err := r.Run(context.Background(), c, s)
	require.Host(t, err)
	return sample, err
}

// spin is a chain of dependent adds, 16 per iteration, followed by exit.
func spin(iterations uint32) string {
	n := string([]byte{byte(iterations), byte(iterations >> 8), byte(iterations >> 16), byte(iterations >> 24)})
	return "\xb9" + n + strings.Repeat("\x48\x01\xc0", 16) + "\xff\xc9\x75\xcc" + tinyelf.Exit(0)
}

// TestRunMeasures: a chain of adds takes a cycle each, and the fixed cost of a process does not grow with it. On a busy
// machine some runs are slow, and not alike.
func TestRunMeasures(t *testing.T) {
	r := newRunner(t, Options{})
	short, long := tiny(t, spin(1<<16)), tiny(t, spin(3<<16))
	const adds, tries = 2 << 16 * 16, 3
	var all []float64
	require.AtMost(t, tries-1, tries, func() string {
		best := [2]float64{math.Inf(1), math.Inf(1)}
		for range 15 {
			for i, c := range []Command{short, long} {
				best[i] = min(best[i], require.Get(run(t, r, c, Setup{}))(t))
			}
		}
		each := (best[1] - best[0]) / adds
		if best[0] > 0 && math.Abs(each-1) < 0.05 {
			return ""
		}
		if all = append(all, each); len(all) == tries && slices.Max(all)-slices.Min(all) > 0.05 {
			require.Skip(t, require.Idle, "the core is not left alone: an add takes %.3v cycles", all)
		}
		return fmt.Sprintf("an add takes %.3f cycles", each)
	})
}

func TestRunFails(t *testing.T) {
	by := func(c Control) *Runner { return newRunner(t, Options{Control: c}) }
	r, hasty := by(Control{}), by(Control{Timeout: 100 * time.Millisecond})
	const hang = "\xeb\xfe"
	for _, c := range []struct {
		code string
		by   *Runner
		want []string
	}{
		{tinyelf.Exit(3), r, []string{"exit status 3", "-any-status"}},
		{"\x0f\x0b", r, []string{"crashed", "illegal instruction"}},
		{hang, hasty, []string{"did not end within 100ms", "-timeout"}},
		{"\xb8\x22\x00\x00\x00\x0f\x05", hasty, []string{"did not end"}}, // pause()
		{tinyelf.Exit(0), by(Control{Stdin: "no-such-file"}), []string{"no-such-file", "standard input"}},
		{tinyelf.Exit(0), by(Control{Stdin: "/"}), []string{"/: it is a directory", "standard input"}},
		{hang, by(Control{Timeout: time.Nanosecond}), []string{"did not end within 1ns"}},
	} {
		_, err := run(t, c.by, tiny(t, c.code), Setup{StackShift: 16})
		require.FailsAs[*Error](t, err, c.want...)
	}
	require.Get(run(t, newRunner(t, Options{AnyStatus: true}), tiny(t, tinyelf.Exit(3)), Setup{}))(t)
	tcg := func(leaf, _ uint32) (a, b, c, d uint32) { return 0, 0x54474354, 0x43544743, 0x47435447 }
	if _, err := NewRunner(Options{CPUID: tcg}); !strings.Contains(fmt.Sprint(err), "emulated in software") {
		t.Errorf("on an emulated machine: %v", err)
	}
	if _, err := NewRunner(Options{Control: Control{CPUs: []int{5000}}}); err == nil {
		t.Error("CPU 5000 is there")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Run(ctx, tiny(t, "\xeb\xfe"), Setup{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	require.NoChildren(t)
}

// passedOn is what bbprof passes on of a shell's standard error.
func passedOn(t *testing.T, script string, clean bool, s Setup) string {
	t.Helper()
	var out bytes.Buffer
	r := newRunner(t, Options{Control: Control{Stderr: &out}})
	c := require.Get(NewCommand([]string{"sh", "-c", script}))(t)
	c.CleanEnv = clean
	require.NoError(t, r.WarmUp(context.Background(), c, s))
	return out.String()
}

// TestCleanEnv: the program gets only the padding.
func TestCleanEnv(t *testing.T) {
	t.Setenv("BBPROF_TEST_ENV", "x")
	for _, clean := range []bool{false, true} {
		if got := passedOn(t, "cat /proc/$$/environ >&2", clean, Setup{EnvBytes: 2}); !clean && !strings.Contains(got, "BBPROF_TEST_ENV=x\x00") ||
			!strings.Contains(got, "BBPROF_PAD=xx\x00") || clean && len(got) != len("BBPROF_PAD=xx\x00") {
			t.Errorf("clean %v: %q", clean, got)
		}
	}
}

// TestOutputIsBounded: the first MaxOutput bytes are passed on, with a note.
func TestOutputIsBounded(t *testing.T) {
	for bytes, more := range map[int]string{maxOutput - 1: "", maxOutput: "", maxOutput + 1: " 1 bytes more, "} {
		got := passedOn(t, fmt.Sprintf("head -c %d /dev/zero >&2", bytes), false, Setup{})
		note := strings.TrimLeft(got, "\x00")
		if passed := len(got) - len(note); passed != min(bytes, maxOutput) || (note == "") != (more == "") || !strings.Contains(note, more) {
			t.Errorf("%d bytes written: %d passed on, then %q", bytes, passed, note)
		}
	}
}

// fakeRunner records what it was asked to run.
type fakeRunner struct {
	log  []string
	fail int // the run that fails
}

func (f *fakeRunner) Run(_ context.Context, c Command, s Setup) (float64, error) {
	f.log = append(f.log, c.Name+strconv.Itoa(s.EnvBytes))
	if len(f.log) == f.fail {
		return 0, errors.New("failed")
	}
	return float64(len(c.Name)*1000 + s.EnvBytes), nil
}

func (f *fakeRunner) WarmUp(_ context.Context, c Command, s Setup) error {
	f.log = append(f.log, "warm "+c.Name)
	return nil
}

// TestSweep: the program is warmed up, and each run's result belongs to its set-up.
func TestSweep(t *testing.T) {
	f := &fakeRunner{}
	places := In(Command{Name: "p"}, []Setup{{EnvBytes: 0}, {EnvBytes: 1}, {EnvBytes: 2}})
	points, err := Sweep(context.Background(), f, places, experiment.Plan{Rounds: 5, Seed: 1})
	if err != nil || len(points) != 3 || len(f.log) != 16 || f.log[0] != "warm p" {
		t.Fatalf("%+v, %v: %v", points, err, f.log)
	}
	for i, runs := range points {
		if len(runs) != 5 || runs[4] != float64(1000+i) {
			t.Errorf("%d: %v", i, runs)
		}
	}
	if _, err := Sweep(context.Background(), &fakeRunner{fail: 4}, places, experiment.Plan{Rounds: 5}); err == nil {
		t.Error("a failed run is passed over")
	}
}

// TestWithoutPreemption: what the user has set stays, and counts.
func TestWithoutPreemption(t *testing.T) {
	for _, c := range []struct{ env, want []string }{
		{nil, []string{"GODEBUG=asyncpreemptoff=1"}},
		{[]string{"A=1"}, []string{"A=1", "GODEBUG=asyncpreemptoff=1"}},
		{[]string{"GODEBUG=gctrace=1,asyncpreemptoff=0", "A=1"}, []string{"GODEBUG=asyncpreemptoff=1,gctrace=1,asyncpreemptoff=0", "A=1"}},
	} {
		require.Equal(t, "environment", c.want, withoutPreemption(c.env))
	}
}
