package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
)

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

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

// TestStreamErrors: only write errors are reported as such.
func TestStreamErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		out   io.Writer
		write error
		want  string
	}{
		{io.Discard, nil, "<nil>"},
		{io.Discard, broken, "broken"},
		{failing{syscall.ENOSPC}, nil, "writing the result: no space left on device"},
		{failing{syscall.ENOSPC}, broken, "writing the result: no space left on device"},
	} {
		err := new(Output).Stream(Streams{Out: c.out}, func(w io.Writer) error {
			io.WriteString(w, "result")
			return c.write
		})
		if fmt.Sprint(err) != c.want {
			t.Errorf("%v where %v is returned: %v, want %s", c.out, c.write, err, c.want)
		}
	}
}
