package commands

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestUpdateKeeps: -update writes beside the file of -expect, which a full disk would leave as it was: who has it open
// still reads what was expected.
func TestUpdateKeeps(t *testing.T) {
	m := matrixFlags{expect: filepath.Join(t.TempDir(), "expect.csv")}
	if err := os.WriteFile(m.expect, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(m.expect)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := m.write(nil); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(old); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile(m.expect); err != nil || string(text) == "old" || len(text) == 0 {
		t.Errorf("written: %q, %v", text, err)
	}
}
