package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestResumable: what a command kept when it was ended is there when it is started again with -resume and the same flags on the
// same core, is not lost to any other start, and nothing is left when it is complete.
func TestResumable(t *testing.T) {
	const asCore = "BBPROF_AS_CORE"
	t.Setenv(asCore, "Zen 4")
	out := filepath.Join(t.TempDir(), "out")
	run := func(ends error, args ...string) (found int, says string, err error) {
		var stderr strings.Builder
		f, o, seed := NewFlags("bbprof x"), Output{}, uint64(1)
		o.AddFile(f)
		f.Seed(&seed, "s")
		do := o.Resumable(f, func(std Streams) error {
			for range 3 {
				if _, ok := std.Kept.Take("k"); ok {
					found++
				}
				require.NoError(t, std.Kept.Keep("k", 1))
			}
			return ends
		})
		require.NoError(t, f.Parse(args))
		err = do(Streams{Err: &stderr})
		return found, stderr.String(), err
	}
	if _, says, err := run(context.Canceled, "-o", out); !errors.Is(err, context.Canceled) || !strings.HasSuffix(says, " x -resume -o "+out+"\n") {
		t.Errorf("%v, %s", err, says)
	}
	_, _, err := run(nil, "-resume", "-seed", "2", "-o", out)
	require.Fails(t, "another seed", err, "left by another run")
	_, _, err = run(nil, "-o", out)
	require.Fails(t, "repeated without -resume", err, "-resume continues it, removing it starts again")
	t.Setenv(asCore, "Golden Cove")
	_, _, err = run(nil, "-resume", "-o", out)
	require.FailsAs[*UsageError](t, err, `must not mix: ["Zen 4 (`, `here ["Golden Cove (`, "remove it to start again")
	t.Setenv(asCore, "Zen 4")
	found, says, err := run(ErrRejected, "-resume", "-o", out)
	if found != 3 || !strings.Contains(says, "continuing with 3 measurements") || !errors.Is(err, ErrRejected) {
		t.Errorf("resumed: %d found, %v, %s", found, err, says)
	}
	if _, err := os.Stat(out + ".journal"); err == nil {
		t.Error("the journal is still there")
	}
	if found, _, err := run(nil, "-o", out); found != 0 || err != nil {
		t.Errorf("not resumed: %d found, %v", found, err)
	}
	_, _, err = run(nil, "-resume")
	require.Fails(t, "without a file", err, "name the file with -o")
}
