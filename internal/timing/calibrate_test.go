package timing

import "testing"

// What stood in the way of calibrating is told by what was seen, and a latency only if there is one.
func TestSighting(t *testing.T) {
	for _, c := range []struct {
		seen sighting
		want string
	}{
		{sighting{switched: 3}, "3 tries saw a context switch and 0 a busy core"},
		{sighting{busy: 2, latency: 3.5}, "0 tries saw a context switch and 2 a busy core (an imul seemed to take 3.500 cycles)"},
	} {
		if got := c.seen.String(); got != c.want {
			t.Errorf("%+v: %s", c.seen, got)
		}
	}
}
