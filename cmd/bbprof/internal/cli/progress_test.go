package cli

import (
	"strings"
	"testing"
)

func TestProgress(t *testing.T) {
	var w strings.Builder
	for _, c := range []struct {
		*Counter
		want string
	}{
		{Progress(&w, 0, "runs"), "5 runs done"},
		{Progress(&w, 10, "runs"), "5 of 10 runs, 0s left"},
		{ProgressTo(&w, 10, "instructions"), "5 of at most 10 instructions, at most 0s left"},
	} {
		w.Reset()
		c.Columns = func() int { return 200 }
		c.Step(5)
		if !strings.HasSuffix(w.String(), c.want) {
			t.Errorf("%q, want %q", w.String(), c.want)
		}
	}
	c := Progress(&w, 10, "runs")
	c.Columns = func() int { return 200 }
	c.Step(0)
	if !strings.HasSuffix(w.String(), "0 of 10 runs") {
		t.Errorf("of none: %q", w.String())
	}
}

func TestFit(t *testing.T) {
	for width, want := range map[int]string{20: "12 rows, 3 ok, 1s", 17: "12 rows, 3 ok, 1s", 16: "12 rows, 3 ok",
		13: "12 rows, 3 ok", 12: "12 rows", 6: "", 0: "", -1: ""} {
		if got := fit("12 rows, 3 ok, 1s", width); got != want {
			t.Errorf("in %d columns: %q, want %q", width, got, want)
		}
	}
}
