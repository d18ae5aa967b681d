//go:build unix

package batch

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
)

// killedEnv makes TestKilled run as the victim, in the directory that it names.
const killedEnv = "BBPROF_TEST_KILLED"

// victim is the run to be killed, with a diary of the blocks that it measures.
func victim(t *testing.T, dir, corpus string) {
	diary := require.Get(os.OpenFile(filepath.Join(dir, "diary"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666))(t)
	l := &lab{noisy: map[string]int{block(2): 1, block(300): 1}}
	l.delay = func(hex string, _ int) time.Duration {
		fmt.Fprintln(diary, hex)
		return jitter(hex, 0)
	}
	require.Get(batched(t, l, filepath.Join(dir, "result.csv"), corpus, Options{Workers: l.workers(2), Retries: 1}))(t)
}

// TestKilled kills a run six times at random moments and resumes it each time. Finally every row is there once,
// and no block was measured twice whose row was written.
func TestKilled(t *testing.T) {
	corpus := text(3000)
	if dir := os.Getenv(killedEnv); dir != "" {
		victim(t, dir, corpus)
		return
	}
	require.Slow(t)
	const wanted = 6
	dir := t.TempDir()
	result := filepath.Join(dir, "result.csv")
	exe := require.Get(os.Executable())(t)
	diaryEnd := 0
	// A run that ends before it is killed starts again: if this test gets no CPU, that may be often.
	kills := 0
	for try := 0; ; try++ {
		if try > 20*wanted {
			require.Skip(t, require.Idle, "only %d of %d runs were killed before their end", kills, try)
		}
		had := wholeRows(t, readOr(result))
		cmd := exec.Command(exe, "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		var says strings.Builder
		cmd.Stdout, cmd.Stderr = &says, &says
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

func readOr(path string) string {
	content, _ := os.ReadFile(path)
	return string(content)
}
