package dataset

import "testing"

// TestSplitter: near-duplicates in several splits stay in the first of test, validation and train that has one,
// and are omitted from the others.
func TestSplitter(t *testing.T) {
	var blocks []splitBlock
	add := func(application string, n int, key uint64) {
		for range n {
			blocks = append(blocks, splitBlock{application, key})
		}
	}
	add("large", 77, 1) // train
	add("large", 3, 2)
	add("large", 1, 3)
	add("middle", 9, 4) // test
	add("middle", 1, 2)
	add("small", 8, 5) // validation
	add("small", 1, 3)
	add("small", 1, 2)
	s := newSplitter(blocks)
	for _, c := range []struct {
		application string
		key         uint64
		want        string
	}{
		{"large", 1, Train}, {"middle", 4, Test}, {"small", 5, Validation},
		{"large", 2, LeftOut}, {"small", 2, LeftOut}, {"middle", 2, Test},
		{"large", 3, LeftOut}, {"small", 3, Validation},
	} {
		if got := s.of(splitBlock{c.application, c.key}); got != c.want {
			t.Errorf("key %d of %s is in %s, want %s", c.key, c.application, got, c.want)
		}
	}
}
