package program

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestUpdateKeeps: -update replaces the file of -expect atomically: a full disk leaves it unchanged, and open readers
// still see the old one.
func TestUpdateKeeps(t *testing.T) {
	m := matrixFlags{expect: filepath.Join(t.TempDir(), "expect.csv")}
	require.NoError(t, os.WriteFile(m.expect, []byte("old"), 0o666))
	old := require.Get(os.Open(m.expect))(t)
	defer old.Close()
	require.NoError(t, m.write(nil))
	if text, err := io.ReadAll(old); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile(m.expect); err != nil || string(text) == "old" || len(text) == 0 {
		t.Errorf("written: %q, %v", text, err)
	}
}
