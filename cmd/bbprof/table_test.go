package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	got := newTable("lr", "name", "a", "µops")
	got.row("x", "1", "10")
	got.row("a longer one", "100")
	got.note("which is a name longer than all cells")
	got.row("", "", "−1")
	want := `name            a  µops
x               1    10
a longer one  100
              which is a name longer than all cells
                     −1
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	left := newTable("rl", "n", "text")
	left.row("10", "last cells are not padded")
	if diff := cmp.Diff(" n  text\n10  last cells are not padded\n", left.String()); diff != "" {
		t.Error(diff)
	}
}
