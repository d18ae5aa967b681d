package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// A repository's commits, by what each does to the one before, and what check must say of the function.
var commits = []struct {
	message, from, to string
	code              int
	says              string
}{
	{"nothing but a comment", "// poly", "// a polynomial", 0, "0 functions changed"},
	{"a division more", "s * 31 + a[i]", "s * 31 + a[i] / 7", 1, "poly"},
}

const firstCommit = `// poly
long poly(const long *a, unsigned long n) {
	long s = 1;
	for (unsigned long i = 0; i < n; i++)
		s = s * 31 + a[i];
	return s;
}
`

// TestCheckCommits does to the commits of a small repository what action.yml does on a runner: the steps are the same
// script.
func TestCheckCommits(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	require.Tool(t, require.GCC, "gcc")
	git := require.Tool(t, require.Go, "git")
	dir, script := t.TempDir(), require.Get(filepath.Abs("../../.ci/check-commits"))(t)
	do := func(args ...string) {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	file, text := filepath.Join(dir, "f.c"), firstCommit
	do("init", "--quiet")
	commit := func(message string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
		do("add", ".")
		do("commit", "--quiet", "-m", message)
	}
	commit("first")
	for _, c := range commits {
		if !strings.Contains(text, c.from) {
			t.Fatalf("%s: no %q", c.message, c.from)
		}
		text = strings.Replace(text, c.from, c.to, 1)
		commit(c.message)
		require.AtMost(t, 1, 3, func() string {
			summary := filepath.Join(t.TempDir(), "summary.md")
			check := inContext(t, "bash", script, "HEAD~1", "HEAD")
			check.Dir = dir
			check.Env = append(os.Environ(), "BUILD=gcc -O2 -g -c f.c", "FILE=f.o", "ARGS=-layouts 6 -budget 500ms", "GITHUB_STEP_SUMMARY="+summary)
			out, err := check.CombinedOutput()
			require.Patience(t)
			code := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else {
				require.NoError(t, err)
			}
			said := string(require.Get(os.ReadFile(summary))(t))
			if strings.Contains(said, "nothing was measured") || strings.Contains(said, "not measured") {
				require.Skip(t, require.Idle, "%s", said)
			}
			if code != c.code || !strings.Contains(string(out), c.says) || !strings.Contains(said, "### Cycles: ") {
				return fmt.Sprintf("%s: exit code %d, want %d and %q:\n%s\n%s", c.message, code, c.code, c.says, out, said)
			}
			return ""
		})
	}
}

// TestBenchstatReads: benchstat reads the format and agrees on each verdict.
func TestBenchstatReads(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	tool := require.Tool(t, require.Go, "go")
	dir := t.TempDir()
	base, head, result := filepath.Join(dir, "base.csv"), filepath.Join(dir, "head.csv"), filepath.Join(dir, "result.txt")
	require.NoError(t, errors.Join(os.WriteFile(base, []byte("hex,function\n4801c0,slow\n480fafc0,fast\n4801c0,same\n"), 0o666),
		os.WriteFile(head, []byte("hex,function\n480fafc0,slow\n4801c0,fast\n48f7d8,same\n"), 0o666)))
	out, err := inContext(t, "bbprof", "check", "-layouts", "6", "-budget", "500ms", "-fail-on", "none", "-format", "benchstat", "-o", result, base, head).CombinedOutput()
	if err != nil {
		require.Skip(t, require.Idle, "%v\n%s", err, out)
	}
	read := exec.Command(tool, "tool", "benchstat", "-col", "build", "-format", "csv", result)
	got, err := read.Output()
	require.NoError(t, err)
	t.Logf("%s", got)
	percent := regexp.MustCompile(`(?m)^(slow|fast)/1,.*,([-+][0-9.]+)%,`)
	found := map[string]float64{}
	for _, m := range percent.FindAllStringSubmatch(string(got), -1) {
		found[m[1]] = require.Get(strconv.ParseFloat(m[2], 64))(t)
	}
	if math.Abs(found["slow"]-200) > 10 || math.Abs(found["fast"]+66.7) > 2 {
		t.Errorf("benchstat says %v; want three times and a third", found)
	}
}
