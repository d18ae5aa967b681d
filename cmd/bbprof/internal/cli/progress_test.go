package cli

import (
	"testing"
)

func TestFit(t *testing.T) {
	for width, want := range map[int]string{20: "12 rows, 3 ok, 1s", 17: "12 rows, 3 ok, 1s", 16: "12 rows, 3 ok", 13: "12 rows, 3 ok", 12: "12 rows", 6: "", 0: "", -1: ""} {
		if got := fit("12 rows, 3 ok, 1s", width); got != want {
			t.Errorf("in %d columns: %q, want %q", width, got, want)
		}
	}
}
