package unroll

import (
	"slices"
	"testing"
)

// Of a block with advancing addresses the shorter loop has at least half of the iterations of the longer: its first ones are not steady.
func TestShortOwnLoops(t *testing.T) {
	many := []Factors{{8192, 16384}, {4096, 8192}, {256, 512}, {64, 128}}
	for _, c := range []struct {
		copies int
		known  Factors
		want   []Factors
	}{
		{1, Factors{64, 256}, []Factors{{4096, 8192}, {256, 512}, {128, 256}}},
		{3, Factors{64, 256}, []Factors{{256, 512}, {64, 128}, {42, 85}}},
		{1, Factors{100, 150}, []Factors{{4096, 8192}, {256, 512}, {100, 150}}},
	} {
		got := ShortOwnLoops(many, c.copies, c.known)
		if len(got) < len(c.want) || !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%d copies, %v known: %v, want first %v", c.copies, c.known, got, c.want)
		}
		for _, l := range got {
			v := VariedBy(l)
			if l.Long > 2*l.Short+1 || l.Short-max(v-1, 0) < 3*l.Short/4 || v > mostVaried || (v == 0) != (l.Long < fewestVaried) {
				t.Errorf("%d copies, %v known: %v, varied by %d", c.copies, c.known, l, v)
			}
		}
	}
}
