package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestExitCodes covers the endings that no script can bring about.
func TestExitCodes(t *testing.T) {
	host := fmt.Errorf("starting a child: %w", &verdict.HostError{Missing: "ptrace", Remedy: "be root"})
	other := errors.New("it broke")
	for _, c := range []struct {
		name string
		end  func(streams) error
		want int
		says string
	}{
		{"one: a failed result", func(s streams) error {
			return outcome(profiler.Result{Status: profiler.Failed, Failure: "child died"})
		}, exitInternal, "bbprof: internal failure: child died\n"},
		{"one: a host that cannot", func(s streams) error { return host }, exitHost,
			"bbprof: starting a child: this host cannot measure: ptrace; be root\n"},
		{"one: another error", func(s streams) error { return other }, exitInternal, "bbprof: it broke\n"},
		{"one: interrupted", func(s streams) error { return fmt.Errorf("waiting: %w", context.Canceled) }, exitInterrupted, "bbprof: interrupted\n"},
		{"one: a reader that has had enough", func(s streams) error { return fmt.Errorf("writing: %w", syscall.EPIPE) }, exitPipe, ""},
		{"batch: a host that cannot, after a row", func(s streams) error {
			return (&batchEnd{flags: &batchFlags{}, tally: batch.Tally{Rows: 1}, std: s}).why(host)
		}, exitHost,
			"bbprof: starting a child: this host cannot measure: ptrace; be root, with 1 row done and written in full\n"},
		{"batch: the input breaks", func(s streams) error {
			return (&batchEnd{flags: &batchFlags{}, tally: batch.Tally{Rows: 3}, held: 1, std: s}).why(&input.ReadError{Err: other})
		}, exitUsage, "bbprof: reading the input: it broke, with 2 rows done and written in full\n"},
		{"batch: another error", func(s streams) error { return (&batchEnd{flags: &batchFlags{}, std: s}).why(other) }, exitInternal,
			"bbprof: it broke, with 0 rows done and written in full\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			std := streams{strings.NewReader(""), &stdout, &stderr}
			if got := finish("", c.end(std), explainError, std); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
			if stderr.String() != c.says || stdout.String() != "" {
				t.Errorf("says %q and prints %q, want %q and nothing", stderr.String(), stdout.String(), c.says)
			}
		})
	}
}

// TestBatchOfRealBlocks: of compilers' blocks each is a row, and bbprof fails on none.
func TestBatchOfRealBlocks(t *testing.T) {
	blocks, err := os.ReadFile("../../../shared/corpus/blocks-1k.csv")
	if err != nil {
		require.Skip(t, require.Corpus, "no corpus beside the project: %v", err)
	}
	mustMeasure(t)
	const n = 100
	lines := strings.SplitAfterN(string(blocks), "\n", n+1)[:n]
	var stdout, stderr strings.Builder
	if code := run([]string{"batch", "-"}, strings.NewReader(strings.Join(lines, "")), &stdout, &stderr); code == exitHost && disturbed(stderr.String()) {
		require.Skip(t, require.Idle, "%s", &stderr)
	} else if code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	r := csv.NewReader(strings.NewReader(stdout.String()))
	if _, err := r.Read(); err != nil { // the header
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		row, err := r.Read()
		if err == io.EOF {
			if i != n {
				t.Errorf("%d rows, want %d", i, n)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		hex, status := row[0], row[1]
		if want, _, _ := strings.Cut(lines[i], ","); hex != want {
			t.Errorf("row %d is of %s, want %s", i+1, hex, want)
		}
		if status != "ok" && status != "rejected" {
			t.Errorf("row %d: %q", i+1, row)
		}
	}
}

// TestGoOn: the command that goes on with a run is the one that began it, and -resume.
func TestGoOn(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "r.csv", "b.csv"}, "bbprof batch -resume -o r.csv b.csv"},
		{[]string{"--overwrite", "-o", "a b", "-resume", "it's"}, `bbprof batch -resume -o 'a b' 'it'\''s'`},
		{[]string{"-overwrite=true", "-cpus", "0-3,8", ""}, "bbprof batch -resume -cpus 0-3,8 ''"},
		{[]string{"-overwrite", "true", "-resume=false", "-o", "r.csv", "b.csv", "true"}, "bbprof batch -resume -o r.csv b.csv true"},
		{[]string{"-o", "r.csv", "--", "-resume"}, "bbprof batch -resume -o r.csv -- -resume"},
		{[]string{"resume", "$x"}, "bbprof batch -resume resume '$x'"},
		{[]string{"-o", "-overwrite", "b.csv"}, "bbprof batch -resume -o -overwrite b.csv"}, // a file of that name
	} {
		f := newFlags("bbprof batch")
		(&batchFlags{flags: f}).declare(f)
		if err := f.parse(c.args); err != nil {
			t.Fatal(err)
		}
		if got := resumeCommand("bbprof", f); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
}

// TestOutputThatCannotBe: a result that cannot be written where it was to go is the user's mistake.
func TestOutputThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, dir + "/none/out.csv"} {
		err := writeWhole(name, nil, func(io.Writer) error { return nil })
		if code := exitOf(err); code != exitUsage {
			t.Errorf("%s: exit code %d: %v", name, code, err)
		}
	}
}

// TestInterruptedWhileStarting: Ctrl-C reaches a child that has not left bbprof's process group yet, too, which is no failure.
func TestInterruptedWhileStarting(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitInterrupted, syscall.SIGKILL: exitInternal} {
		if code := exitOf(fmt.Errorf("starting: %w", &tracee.DeadError{Signal: int(signal)})); code != want {
			t.Errorf("%v: exit code %d, want %d", signal, code, want)
		}
	}
}
