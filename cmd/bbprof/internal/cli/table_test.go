package cli

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
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
	require.Equal(t, "it", want, got.String())
	left := NewTable("rl", "n", "text")
	left.Row("10", "last cells are not padded")
	require.Equal(t, "it", " n  text\n10  last cells are not padded\n", left.String())
}
