package commands

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestUpdateKeeps: -update writes beside the file of -expect, which a full disk would leave as it was: who has it open
// still reads what was expected.
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
