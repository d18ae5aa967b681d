package words

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"cpus", "cpus", 0}, {"", "cpus", 4}, {"cpu", "cpus", 1}, {"cpus", "cups", 2},
		{"kitten", "sitting", 3}, {"mode", "budget", 4},
	} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d, and %d the other way; want %d", c.a, c.b, got, back, c.want)
		}
	}
}
