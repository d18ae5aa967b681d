package extract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
)

// untilStarted ends once there is a file called started.
func untilStarted(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat("started"); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

// TestInterrupted: Ctrl-C during a tool's run is not blamed on the program, though its status says killed.
func TestInterrupted(t *testing.T) {
	const hangs = ": > started; exec sleep 60"
	for name, c := range map[string]struct {
		tool, script string
		run          func(*Run, context.Context) (*Profile, error)
	}{
		"valgrind":    {"valgrind", hangs, (*Run).Profile},
		"perf record": {"perf", hangs, (*Run).Samples},
		"perf script": {"perf", "test $1 = record || { " + hangs + "; }", (*Run).Samples},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.tool), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			_, err := c.run(&Run{Program: []string{"sh"}}, untilStarted(t))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
}
