package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/internal/require"
)

// TestResumed: whatever takes long keeps what it measured beside its output when it is interrupted, says how to go on, goes on
// from there, and leaves nothing but its output when it is complete.
func TestResumed(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	dir := t.TempDir()
	in := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
		return path
	}
	many := strings.SplitAfter(manyBlocks(func(hex string) string { return hex + "\n" }), "\n")
	more := in("more.csv", strings.Join(many[:30], ""))
	some := in("some.csv", strings.Join(many[:2], ""))
	baseline := in("baseline.csv", "hex,status,reason,cycles,ci_low,ci_high\n"+
		strings.Join(strings.SplitAfter(manyBlocks(func(hex string) string { return hex + ",ok,,9,8.9,9.1\n" }), "\n")[:400], ""))
	slow := in("model.sh", "while read b; do sleep 0.002; echo $b,1; done\n")
	functions := func(hex string) string { // as many as there are steps in between
		text := "hex,function\n"
		for i := range 4 {
			text += fmt.Sprintf("%s,f%d\n", hex, i)
		}
		return text
	}
	ran := in("ran.csv", "hex,status,cycles,file,function,count\n4801c0,ok,1,f,main,2\n")
	const most = 10 * time.Second
	for _, c := range [][]string{
		{"instructions", "-match", "^imul.*"},
		{"bounds", "-budget", "500ms", some},
		{"ablate", more},
		{"compare", "-budget", "500ms", "-layouts", "6", "-a", "4801c0", "-b", "480fafc0"},
		{"compare", "-layouts", "20", "-trials", "2", "-a", "true", "-b", "true"},
		{"explain", "-budget", "500ms", "-rounds", "8", "-frames", "1", "-hex", "48890b488b17"},
		{"sweep", "-code", "0:31", "-runs", "5", "-hex", "4801c0"},
		{"sweep", "-env", "0:160:16", "-runs", "5", "--", "true"},
		{"account", "-runs", "6", ran, "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"},
		{"check", "-budget", "500ms", "-layouts", "6", in("base.csv", functions("4801c0")), in("head.csv", functions("480fafc0"))},
		{"hunt", "-core", "Zen 4", "-model", "lower-bound", "-generate", "2"},
		{"score", "-core", "Zen 4", "-model", "slow=exec:sh " + slow, baseline},
	} {
		t.Run(strings.Join(c[:2], " "), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			args := append([]string{c[0], "-o", out}, c[1:]...)
			again := append([]string{c[0], "-resume", "-o", out}, c[1:]...)
			var waited require.Tries
			for ended := false; !ended; {
				began := time.Now()
				os.Remove(out + ".journal") // of the try before
				code, stdout, stderr := interruptedWith(t, args, out+".journal", most)
				switch said := stdout + stderr; {
				case disturbed(said):
					waited.Again(t, time.Since(began), said)
				case code == cli.ExitOK, code == cli.ExitRejected, code == -1: // as it ended, the signal took its default action
					waited.Again(t, time.Since(began), "it ended before this process had a CPU to interrupt it")
				case code != cli.ExitInterrupted:
					t.Fatalf("exit code %d: %s", code, stderr)
				default:
					_, err := os.Stat(out + ".journal")
					ended = err == nil
					if ended && !strings.Contains(stderr, "kept in "+out+".journal; to go on: bbprof "+c[0]+" -resume ") {
						t.Errorf("it says %s", stderr)
					}
				}
			}
			if code, _, stderr := interrupted(t, append([]string{c[0], "-resume", "-o", out, "-precision", "7%"}, c[1:]...), time.Minute); code != cli.ExitUsage {
				t.Errorf("other flags: exit code %d: %s", code, stderr)
			}
			for {
				began := time.Now()
				code, stdout, stderr := interrupted(t, again, most)
				whole := code == cli.ExitOK || code == cli.ExitRejected
				if said := stdout + stderr; !whole && (disturbed(said) || code == cli.ExitInterrupted) { // beside other work it takes longer than that
					waited.Again(t, time.Since(began), said)
					continue
				}
				if !whole || !regexp.MustCompile(`continuing with \d+ measurements? in `).MatchString(stderr) {
					t.Errorf("exit code %d: %s", code, stderr)
				}
				break
			}
			if info, err := os.Stat(out); err != nil || info.Size() == 0 {
				t.Errorf("the output: %v", err)
			}
			if _, err := os.Stat(out + ".journal"); err == nil {
				t.Error("the journal is still there")
			}
		})
	}
}

// TestJournalFillsDisk: where what was measured fills the disk, or leaves the result no room, that is said, and nothing of a result that is
// not there.
func TestJournalFillsDisk(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		require.Skip(t, require.Root, "mounting a small disk: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	out := filepath.Join(dir, "i.csv")
	var waited require.Tries
	for {
		began := time.Now()
		cmd := exec.Command("bbprof", "instructions", "-match", "^imul", "-o", out)
		text, _ := cmd.CombinedOutput()
		says, code := string(text), cmd.ProcessState.ExitCode()
		if code != cli.ExitInternal && (disturbed(says) || code == cli.ExitOK) { // nothing of a busy core is kept
			os.Remove(out)
			os.Remove(out + ".journal")
			waited.Again(t, time.Since(began), says)
			continue
		}
		if code != cli.ExitInternal || !strings.Contains(says, "no space left on device") || strings.Contains(says, out+" has ") {
			t.Errorf("exit code %d: %s", code, says)
		}
		return
	}
}
