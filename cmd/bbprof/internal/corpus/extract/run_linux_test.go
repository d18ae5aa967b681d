package extract

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
)

// TestLeftRunning: processes that a program leaves running, even in their own session, end with it, and with an
// interrupt or timeout.
func TestLeftRunning(t *testing.T) {
	for name, c := range map[string]struct {
		then      string // what the program does once the other process runs
		interrupt bool
		timeout   time.Duration
		want      string
		said      int
	}{
		"the program ends": {then: ":", said: 1},
		"interrupted":      {then: "sleep 60", interrupt: true, want: "context canceled"},
		"too long": {then: "sleep 60", timeout: time.Second, want: "sh: it did not end within 1s and was " +
			"killed; give it longer with -timeout, or less to do"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			ctx := t.Context()
			if c.interrupt {
				ctx = untilStarted(t)
			}
			said := 0
			r := Run{Timeout: c.timeout, Program: []string{"sh", "-c", "setsid sleep 60 & echo $! > pid; : > started; " +
				c.then}, Note: func(string) { said++ }}
			text := ""
			if _, err := r.UserTime(ctx); err != nil {
				text = err.Error()
			}
			require.Equal(t, "error", c.want, text)
			require.Equal(t, "notes", c.said, said)
			number, _ := os.ReadFile("pid")
			pid := require.Get(strconv.Atoi(strings.TrimSpace(string(number))))(t)
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("process %d is still there: %v", pid, err)
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}
