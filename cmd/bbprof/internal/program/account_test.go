package program

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/account"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/internal/require"
)

// TestBuiltAgain: what was kept of a program is not taken for another build of it at the same path, which is to run instead.
func TestBuiltAgain(t *testing.T) {
	path, file := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "journal")
	a := accountCmd{program: []string{path}}
	build := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o777)) }
	build("#!/bin/sh\n")
	j := require.Get(journal.Open(file, "me", false))(t)
	require.NoError(t, j.Keep(a.key("user seconds"), 1.5))
	require.NoError(t, j.Keep(a.key("misses"), map[account.Place]account.Missed{{}: {L1: 2}}))
	require.NoError(t, j.Close())
	ended, end := context.WithCancel(t.Context())
	end() // a program that runs ends with an error
	for _, other := range []bool{true, false} {
		build("#!/bin/sh\n")
		if other {
			build("#!/bin/sh\n:\n")
		}
		j := require.Get(journal.Open(file, "me", true))(t)
		std := cli.Streams{Kept: j, Err: io.Discard}
		seconds, err1 := a.userSeconds(ended, std, io.Discard)
		misses, err2 := a.missed(ended, std)
		if kept := seconds == 1.5 && len(misses) == 1; kept == other || (err1 != nil) != other || (err2 != nil) != other {
			t.Errorf("another build: %v: %v %v, %v %v", other, seconds, err1, misses, err2)
		}
		require.NoError(t, j.Close())
	}
}
