//go:build unix

package batch

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
)

// killedEnv makes TestKilled run as the victim, in the directory that it names. killsEnv has the block in whose
// measurement the victim dies; it lives to the end where there is none.
const killedEnv, killsEnv = "BBPROF_TEST_KILLED", "BBPROF_TEST_KILLS"

// victim is the run to be killed, with a diary of the blocks that it measures.
func victim(t *testing.T, dir, corpus string) {
	diary := require.Get(os.OpenFile(filepath.Join(dir, "diary"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666))(t)
	l := &lab{noisy: map[string]int{block(2): 1, block(300): 1}}
	var measured atomic.Int64
	l.delay = func(hex string, _ int) time.Duration {
		fmt.Fprintln(diary, hex)
		if fmt.Sprint(measured.Add(1)) == os.Getenv(killsEnv) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return jitter(hex, 0)
	}
	require.Get(batched(t, l, filepath.Join(dir, "result.csv"), corpus, Options{Workers: l.workers(2), Retries: 1}))(t)
}

// TestKilled kills a run six times, at random blocks while its other worker writes, and resumes it each time. Finally
// every row is there once, and no block was measured twice whose row was written.
func TestKilled(t *testing.T) {
	const kills = 6
	corpus := text(1000)
	if dir := os.Getenv(killedEnv); dir != "" {
		victim(t, dir, corpus)
		return
	}
	dir := t.TempDir()
	result, diary := filepath.Join(dir, "result.csv"), filepath.Join(dir, "diary")
	for kill := range kills + 1 {
		had, noted := wholeRows(t, readOr(result)), len(readOr(diary))
		cmd := exec.Command(require.Get(os.Executable())(t), "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		if kill < kills {
			cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", killsEnv, 1+rand.IntN(100)))
		}
		if says, err := cmd.CombinedOutput(); (err == nil) != (kill == kills) || cmd.ProcessState.ExitCode() > 0 {
			t.Fatalf("run %d: %v, %s", kill+1, err, says)
		}
		for _, hex := range strings.Fields(readOr(diary)[noted:]) {
			if had[hex] {
				t.Errorf("after %d kills %s is measured again", kill, hex)
			}
		}
	}
	holds(t, rows(t, result), corpus)
}

func readOr(path string) string {
	content, _ := os.ReadFile(path)
	return string(content)
}
