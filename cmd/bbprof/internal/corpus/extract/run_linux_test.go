package extract

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLeftRunning: what a program leaves running, in a session of its own too, ends with it, and with a run that is interrupted.
func TestLeftRunning(t *testing.T) {
	for name, c := range map[string]struct {
		then string // what the program does when the other is running
		want error
		said int
	}{
		"the program ends": {":", nil, 1},
		"interrupted":      {"sleep 60", context.Canceled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					if _, err := os.Stat("started"); err == nil && c.want != nil {
						cancel()
					}
					time.Sleep(time.Millisecond)
				}
			}()
			said := 0
			r := Run{Program: []string{"sh", "-c", "setsid sleep 60 & echo $! > pid; : > started; " + c.then}, Note: func(string) { said++ }}
			if _, err := r.UserTime(ctx); !errors.Is(err, c.want) || said != c.said {
				t.Errorf("error %v, want %v; %d notes, want %d", err, c.want, said, c.said)
			}
			text, _ := os.ReadFile("pid")
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("process %d is still there: %v", pid, err)
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}
