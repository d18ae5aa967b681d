package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestExitCodeOfLostResult: a write error that no command reported changes the exit code.
func TestExitCodeOfLostResult(t *testing.T) {
	for _, c := range []struct {
		err        error
		code, want int
		says       bool
	}{
		{nil, ExitRejected, ExitRejected, false},
		{syscall.ENOSPC, ExitOK, ExitInternal, true},
		{syscall.ENOSPC, ExitRejected, ExitInternal, true},
		{syscall.ENOSPC, ExitUsage, ExitInternal, false},
		{syscall.ENOSPC, ExitInterrupted, ExitInterrupted, false},
		{syscall.EPIPE, ExitOK, ExitPipe, false},
	} {
		var stderr bytes.Buffer
		if got := (&Lossless{err: c.err}).exitCode(c.code, &stderr); got != c.want || stderr.Len() > 0 != c.says {
			t.Errorf("%v after exit code %d: exit code %d, want %d; says %q", c.err, c.code, got, c.want, stderr.String())
		}
	}
}

// TestEnded: of two errors neither is lost, but a signal's is not worth a word beside another.
func TestEnded(t *testing.T) {
	kept, lost := errors.New("keeping what was measured"), errors.New("writing the result")
	for _, c := range []struct {
		err  error
		some bool
		lost error
		want string
	}{
		{nil, false, nil, "<nil>"},
		{nil, true, lost, lost.Error()},
		{kept, false, lost, kept.Error()},
		{kept, true, nil, kept.Error()},
		{kept, true, lost, "keeping what was measured; writing the result"},
		{context.Canceled, true, nil, context.Canceled.Error()},
		{context.Canceled, true, lost, lost.Error()},
	} {
		require.Equal(t, fmt.Sprint(c), c.want, fmt.Sprint(Ended(c.err, c.some, func() error { return c.lost })))
	}
}

func TestProgress(t *testing.T) {
	var w strings.Builder
	for _, c := range []struct {
		*Counter
		done int
		want string
	}{
		{Progress(&w, 0, "runs"), 5, "5 runs done"},
		{Progress(&w, 10, "runs"), 5, "5 of 10 runs, 0s left"},
		{Progress(&w, 10, "runs"), 0, "0 of 10 runs"},
		{ProgressTo(&w, 10, "instructions"), 5, "5 of at most 10 instructions, at most 0s left"},
	} {
		w.Reset()
		c.Columns = func() int { return 200 }
		c.Step(c.done)
		if !strings.HasSuffix(w.String(), c.want) {
			t.Errorf("%q, want %q", w.String(), c.want)
		}
	}
}

func TestFit(t *testing.T) {
	for width, want := range map[int]string{20: "12 rows, 3 ok, 1s", 17: "12 rows, 3 ok, 1s", 16: "12 rows, 3 ok",
		13: "12 rows, 3 ok", 12: "12 rows", 6: "", 0: "", -1: ""} {
		require.Equal(t, width, want, fit("12 rows, 3 ok, 1s", width))
	}
}

func TestTable(t *testing.T) {
	got := NewTable("lr", "name", "a", "µops")
	got.Row("x", "1", "10")
	got.Row("a longer one", "100")
	got.Note("which is a name longer than all cells")
	got.Row("", "", "−1")
	want := `name            a  µops
x               1    10
a longer one  100
              which is a name longer than all cells
                     −1
`
	require.Equal(t, "it", want, got.String())
	left := NewTable("rl", "n", "text")
	left.Row("10", "last cells are not padded")
	require.Equal(t, "it", " n  text\n10  last cells are not padded\n", left.String())
}
