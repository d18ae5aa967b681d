package corpus

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestDamagedStates: a damaged file of states is bad input, which ends the run; a state that it lacks fails one row.
func TestDamagedStates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s")
	f := require.Get(states.Create(name, states.About{}))(t)
	require.NoError(t, f.Add(&states.Visit{Entry: states.Entry{Hex: "90"}}))
	require.NoError(t, f.Close())
	start := func(visit string) error {
		r := require.Get(states.Open(name))(t)
		defer r.Close()
		return startFrom(r, &profiler.Block{Code: []byte{0x90}, Setup: profiler.Setup{Visit: visit}})
	}
	reading := (*input.ReadError)(nil)
	require.NoError(t, start("s#1"))
	if err := start("s#2"); err == nil || errors.As(err, &reading) {
		t.Errorf("a state that is not there: %v", err)
	}
	content := require.Get(os.ReadFile(name))(t)
	content[200] ^= 1 // within the visit: the description before it takes less, and the index after it more
	require.NoError(t, os.WriteFile(name, content, 0o600))
	if err := start("s#1"); !errors.As(err, &reading) {
		t.Errorf("a damaged file: %v", err)
	}
}
