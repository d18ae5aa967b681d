package require

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// NoError ends a test at an error that it does not expect.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get gives what a function returns beside an error, which ends the test: v := require.Get(f())(t).
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// Get2 is Get of a function that returns two values beside the error.
func Get2[T, U any](v T, u U, err error) func(testing.TB) (T, U) {
	return func(t testing.TB) (T, U) {
		t.Helper()
		NoError(t, err)
		return v, u
	}
}

func Equal(t testing.TB, what, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%v (-want +got):\n%s", what, diff)
	}
}

// Fails checks that an error is there, and what it says.
func Fails(t testing.TB, what any, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%v: error %v, want it to say %q", what, err, says)
	}
}

// FailsAs checks that an error is an E, and all that it says. Without words any error will do, and none.
func FailsAs[E error](t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if _, ok := errors.AsType[E](err); !ok || !strings.Contains(err.Error(), w) {
			t.Errorf("%v (%T), want a %T that says %q", err, err, *new(E), w)
		}
	}
}

// NoChildren fails a test that leaves children of this process.
func NoChildren(t testing.TB) {
	t.Helper()
	for _, list := range Get(filepath.Glob("/proc/self/task/*/children"))(t) { // a child is listed with the thread that forked it
		if children, _ := os.ReadFile(list); len(children) > 0 {
			t.Errorf("left behind: %s", children)
		}
	}
}

// Hex is the bytes that digits say, with or without blanks between them.
func Hex(t testing.TB, digits string) []byte {
	t.Helper()
	return Get(hex.DecodeString(strings.ReplaceAll(digits, " ", "")))(t)
}

// File writes a file in a folder of its own.
func File[T string | []byte](t testing.TB, name string, content T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// Table reads a table of testdata: a line is a row of cells, with bars between them, and what follows a # is a comment.
func Table(t testing.TB, name string) (rows [][]string) {
	t.Helper()
	for line := range strings.Lines(string(Get(os.ReadFile("testdata/" + name))(t))) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 {
		t.Fatalf("testdata/%s has no row", name)
	}
	return rows
}

// CorpusSample is every stride-th block of the development corpus beside the checkout, for a package at the top; none
// on a machine without it.
func CorpusSample(t testing.TB, stride int) (blocks [][]byte) {
	t.Helper()
	text, err := os.ReadFile("../../shared/corpus/blocks.csv")
	if err != nil {
		t.Log(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; n%stride == 0 {
			code, _, _ := strings.Cut(strings.TrimSpace(line), ",")
			blocks = append(blocks, Hex(t, code))
		}
	}
	return blocks
}
