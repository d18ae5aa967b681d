package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
)

// followed returns Follow's command and notes.
func followed(t *testing.T, name string, words ...string) (Command, string) {
	t.Helper()
	c := require.Get(NewCommand(words))(t)
	c.CleanEnv = true
	c, notes, err := c.Follow(context.Background(), Control{}, name)
	require.Host(t, err)
	require.NoError(t, err)
	return c, strings.Join(notes, "\n")
}

// TestLaunched: each set-up moves a program behind a launcher by the given amount, and nothing else. Nothing of the
// launcher is counted.
func TestLaunched(t *testing.T) {
	direct := compiled(t, "places.c")
	path := direct.Exe.Path
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexec "+path+" \"$@\"\n"), 0o755))
	for name, words := range map[string][]string{
		"env":    {"env", "Q=1", path},
		"sh":     {"sh", "-c", "exec " + path},
		"both":   {"sh", "-c", "exec env Q=1 " + path},
		"script": {script},
		"thread": {compiled(t, "threadexec.c", "-pthread").Exe.Path, path},
	} {
		t.Run(name, func(t *testing.T) {
			c, notes := followed(t, "", words...)
			if c.Exe.Path != path || c.Exe.entry != direct.Exe.entry {
				t.Fatalf("%+v is measured", c.Exe)
			}
			if !strings.Contains(notes, words[0]+" becomes ") || !strings.Contains(notes, path+" by exec: prog alone is set up and measured") {
				t.Errorf("notes: %s", notes)
			}
			base := where(t, c, Setup{})
			for _, s := range []Setup{{EnvBytes: 320}, {StackShift: 640}, {HeapShift: 1088}, {ImageShift: 1<<30 + 4096},
				{EnvBytes: 4096, StackShift: 16, HeapShift: 64}} {
				require.Equal(t, fmt.Sprintf("%+v", s), base.moved(s), where(t, c, s))
			}
			k := &imageKernel{Kernel: pmutest.New(4)}
			require.Get(run(t, newRunner(t, Options{Kernel: k}), c, Setup{}))(t)
			require.Equal(t, "what cycles are counted from", path, k.image)
		})
	}
}

// imageKernel records which stopped program it is asked to count.
type imageKernel struct {
	*pmutest.Kernel
	image string
}

func (k *imageKernel) Open(a pmu.Attr, pid, group int) (int, error) {
	if state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(state), ") t ") {
		k.image, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	}
	return k.Kernel.Open(a, pid, group)
}

// TestFollow: which program is measured, and the notes on those that cannot be.
func TestFollow(t *testing.T) {
	path := compiled(t, "nothing.c").Exe.Path
	for _, c := range []struct {
		name  string
		words []string
		image string
		says  []string // nil: no note
	}{
		{"", []string{path}, path, nil},
		{filepath.Base(path), []string{path}, path, nil},
		{"env", []string{"sh", "-c", "exec env " + path}, "env", []string{"sh becomes ", "env by exec"}},
		{path, []string{"sh", "-c", "exec env " + path}, path, []string{"env and then " + path}},
		{"", []string{"sh", "-c", path + "; :"}, "sh", []string{"starts " + path + " by fork, not by exec", "for sh alone", "exec PROG"}},
		{"", []string{"sh", "-c", path + " & exec env " + path}, path, []string{"sh becomes "}},
		{"", []string{"sh", "-c", "(:) ; (exit 1)"}, "sh", nil},
	} {
		got, notes := followed(t, c.name, c.words...)
		if filepath.Base(got.Exe.Path) != filepath.Base(c.image) {
			t.Errorf("%q: %s", c.words, got.Exe.Path)
		}
		for _, s := range c.says {
			if !strings.Contains(notes, s) {
				t.Errorf("%q: %q lacks %q", c.words, notes, s)
			}
		}
		if c.says == nil && notes != "" {
			t.Errorf("%q: %s", c.words, notes)
		}
	}
	_, _, err := require.Get(NewCommand([]string{"env", path}))(t).Follow(t.Context(), Control{}, "nothing")
	require.FailsAs[*Error](t, err, "env: it never becomes nothing", "env, then "+path)
	_, _, err = require.Get(NewCommand([]string{"sh", "-c", path + "; :"}))(t).Follow(t.Context(), Control{}, filepath.Base(path))
	require.FailsAs[*Error](t, err, "in a process of its own", "exec")
}

// TestLaunchedOtherwise: a launcher that behaves differently in a measured run is an error.
func TestLaunchedOtherwise(t *testing.T) {
	path := compiled(t, "nothing.c").Exe.Path
	r := newRunner(t, Options{})
	once := filepath.Join(t.TempDir(), "once")
	for does, says := range map[string]string{"exec true": "it became ", "exit 3": "it did not become " + path} {
		os.Remove(once)
		c, _ := followed(t, "", "sh", "-c", fmt.Sprintf("test -e %s && %s; : >%[1]s; exec %[3]s", once, does, path))
		_, err := run(t, r, c, Setup{})
		require.FailsAs[*Error](t, err, "sh", says, "this time")
	}
	c, _ := followed(t, "", "env", "-i", path)
	if _, err := run(t, r, c, Setup{HeapShift: 16}); err != nil {
		t.Error(err)
	}
	_, err := run(t, r, c, Setup{EnvBytes: 16})
	require.FailsAs[*Error](t, err, "env", "BBPROF_PAD is missing", "-clean-env")
}
