package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	got := NewTable("lr", "name", "a", "µops")
	got.Row("x", "1", "10")
	got.Row("a longer one", "100")
	got.Note("which is a name longer than all cells")
	got.Row("", "", "−1")
	want := `name            a  µops
x               1    10
a longer one  100
              which is a name longer than all cells
                     −1
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	left := NewTable("rl", "n", "text")
	left.Row("10", "last cells are not padded")
	if diff := cmp.Diff(" n  text\n10  last cells are not padded\n", left.String()); diff != "" {
		t.Error(diff)
	}
}
