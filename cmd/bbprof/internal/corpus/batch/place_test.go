//go:build unix

package batch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// TestDisplaced moves, replaces, deletes and truncates a result while a run writes it. The run stops early,
// reports what happened, leaves the other file alone, and every row that it counts is where it says.
func TestDisplaced(t *testing.T) {
	const others, elsewhere = "other\n", "was moved, deleted or replaced"
	for _, c := range []struct {
		name   string
		change func(path string) error
		says   string
	}{
		{"moved", func(p string) error { return os.Rename(p, p+".old") }, elsewhere},
		{"deleted", os.Remove, elsewhere},
		{"replaced", func(p string) error {
			return errors.Join(os.WriteFile(p+".new", []byte(others), 0o666), os.Rename(p+".new", p))
		}, elsewhere},
		{"cut", func(p string) error { return os.Truncate(p, 3000) }, "was cut from"},
		{"written to", func(p string) error {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("x")
			return errors.Join(err, f.Close())
		}, "was written to by another program"},
	} {
		synctest.Test(t, func(t *testing.T) {
			path := file(t)
			out, _ := require.Get2(Resume(path, resultfile.CSV, schema, here()))(t)
			defer out.Close()
			l := &lab{delay: func(hex string, _ int) time.Duration {
				if hex == block(100) { // while the other worker continues
					if err := c.change(path); err != nil {
						t.Error(err)
					}
				}
				return 20 * time.Millisecond
			}}
			in := stream(t, func(i int) string {
				if i == 10_000 { // minutes later: the awaited event did not happen
					return ""
				}
				return fmt.Sprintf("%s,%d\n", block(i), i)
			})
			tally, err := Run(t.Context(), in, out, Options{Workers: l.workers(2), Run: here()})
			if err == nil {
				t.Fatalf("%s: the run goes on to the end of the input", c.name)
			}
			err = out.Flush()
			var displaced *DisplacedError
			var writing *WriteError
			if !errors.As(err, &displaced) || !errors.As(err, &writing) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%s: %v, want it to say %q", c.name, err, c.says)
			}
			stays := c.says != elsewhere
			if filepath.Dir(displaced.Rows) != filepath.Dir(path) || stays != (displaced.Rows == path) {
				t.Fatalf("%s: rows are in %q", c.name, displaced.Rows)
			}
			if got := strings.Count(readFile(t, displaced.Rows), "\n") - 1; int64(got) != tally.Rows && c.name != "cut" {
				t.Errorf("%s: %d rows in %s, counted are %d", c.name, got, displaced.Rows, tally.Rows)
			}
			if err := out.Sort(); err == nil && !stays {
				t.Errorf("%s: it was put in order at its old name", c.name)
			}
			switch c.name {
			case "replaced":
				require.Equal(t, "the other file", others, readFile(t, path))
			case "cut": // the remaining rows can be resumed
				out.Close()
				again, _ := require.Get2(Resume(path, resultfile.CSV, schema, here()))(t)
				defer again.Close()
				if again.Earlier() == 0 {
					t.Error("no row is left")
				}
			}
		})
	}
}

// TestLinksBeside: a stranger's links beside a result, under any name that bbprof used or uses, are neither
// followed nor replaced.
func TestLinksBeside(t *testing.T) {
	dir := t.TempDir()
	path, secret := filepath.Join(dir, "result.csv"), filepath.Join(dir, "secret")
	writeFile(t, secret, "precious")
	for _, ending := range []string{".sorting", ".writing"} {
		require.NoError(t, os.Symlink(secret, path+ending))
	}
	corpus := text(100)
	require.Get(batched(t, &lab{delay: jitter}, path, corpus, Options{}))(t)
	holds(t, rows(t, path), corpus)
	for _, name := range []string{secret, path + ".sorting", path + ".writing"} {
		require.Equal(t, name, "precious", readFile(t, name))
	}
	// Nor is a link in the result's own place: it is resolved and reported before.
	link := filepath.Join(dir, "link.csv")
	os.Symlink(secret, link)
	if _, err := Create(link, resultfile.CSV, schema, true); err == nil {
		t.Error("a link is followed")
	}
	if _, _, err := Resume(link, resultfile.CSV, schema, here()); err == nil {
		t.Error("a link is followed on resume")
	}
	require.Equal(t, "the secret", "precious", readFile(t, secret))
}

// TestRowFrom: a reread row has no line end, even if the file was saved with CRLF.
func TestRowFrom(t *testing.T) {
	lines := require.Get(resultfile.NewLines(resultfile.CSV, resultfile.SchemaOf([]string{"hex", "status"})))(t)
	for _, text := range []string{"x90,ok\nc3,ok\n", "x90,ok\r\nc3,ok\r\n"} {
		require.Equal(t, text, []string{"90", "ok"}, require.Get(rowFrom(strings.NewReader(text), 1, lines))(t))
	}
	if got, err := rowFrom(strings.NewReader("90,ok"), 0, lines); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a torn line is %q", got)
	}
}
