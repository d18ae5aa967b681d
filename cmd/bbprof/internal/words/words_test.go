package words

import "testing"

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
