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

func TestPlural(t *testing.T) {
	for _, c := range []struct {
		n           int
		thing, want string
	}{
		{1, "copy", "1 copy"}, {2, "copy", "2 copies"}, {0, "block", "0 blocks"}, {2, "class", "2 classes"}, {1, "class", "1 class"},
	} {
		if got := Plural(c.n, c.thing); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
