//go:build unix

package batch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// killedEnv makes the test binary run as the victim of TestKilled.
const killedEnv = "BBPROF_TEST_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedEnv); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// diary is a measurer that logs each measured block.
type diary struct {
	worker
	file *os.File
}

func (d diary) ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	for b, ok := next(); ok; b, ok = next() {
		r, err := d.worker.Profile(ctx, b)
		if err == nil {
			_, err = fmt.Fprintf(d.file, "%x\n", b.Code)
		}
		done(r, err)
	}
	return nil
}

// victim is the run to be killed.
func victim(dir string) error {
	notes, err := os.OpenFile(filepath.Join(dir, "diary"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	in, err := input.Open([]string{filepath.Join(dir, "corpus.csv")}, nil, "", resultfile.Reserved())
	if err != nil {
		return err
	}
	out, _, err := Resume(filepath.Join(dir, "result.csv"), resultfile.CSV, schema, here())
	if err != nil {
		return err
	}
	l := &lab{delay: jitter, noisy: map[string]int{block(2): 1, block(300): 1}}
	var workers []measure.Measurer
	for i := range 2 {
		workers = append(workers, diary{worker{l, i}, notes})
	}
	if _, err := Run(context.Background(), in, out, Options{Workers: workers, Run: here(), Retries: 1}); err != nil {
		return err
	}
	defer out.Close()
	if err := out.Flush(); err != nil {
		return err
	}
	return out.Sort()
}

// TestKilled kills a run twenty times at random moments and resumes it each time. Finally every row is there once,
// and no block was measured twice whose row was written.
func TestKilled(t *testing.T) {
	require.Slow(t)
	const n, wanted = 6000, 20
	dir := t.TempDir()
	corpus, result := text(n), filepath.Join(dir, "result.csv")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "corpus.csv"), []byte(corpus), 0o666))
	exe := require.Get(os.Executable())(t)
	written := func() map[string]bool {
		had := map[string]bool{}
		content := readOr(result)
		if end := strings.LastIndexByte(content, '\n'); end >= 0 {
			for _, row := range parse(t, content[:end+1]) {
				had[row["hex"]] = true
			}
		}
		return had
	}
	diaryEnd := 0
	// A run that ends before it is killed starts again: if this test gets no CPU, that may be often.
	kills := 0
	for try := 0; ; try++ {
		if try > 20*wanted {
			require.Skip(t, require.Idle, "only %d of %d runs were killed before their end", kills, try)
		}
		had := written()
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		var says strings.Builder
		cmd.Stderr = &says
		require.NoError(t, cmd.Start())
		last := kills >= wanted
		if !last {
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			cmd.Process.Signal(syscall.SIGKILL)
		}
		cmd.Wait()
		if cmd.ProcessState.ExitCode() > 0 {
			t.Fatalf("a run failed: %s", says.String())
		}
		notes := readOr(filepath.Join(dir, "diary"))
		for _, hex := range strings.Fields(notes[diaryEnd:]) {
			if had[hex] {
				t.Errorf("after %d kills %s is measured again", kills, hex)
			}
		}
		diaryEnd = len(notes)
		if !cmd.ProcessState.Success() {
			kills++
			continue
		}
		holds(t, rows(t, result), corpus)
		if last {
			return
		}
		require.NoError(t, os.Remove(result))
	}
}
