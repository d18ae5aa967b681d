package batch

import (
	"math/rand/v2"
	"testing"
)

// TestIndex finds what was added, all of it where hashes are equal, and nothing else.
func TestIndex(t *testing.T) {
	var x index
	want := map[uint64][]int64{}
	for i := range int64(50_000) {
		hash := rand.Uint64()
		if i%1000 == 0 {
			hash = 7<<56 | 5 // one that comes fifty times
		}
		at := i
		if i%3 == 0 {
			at += 1<<40 - 60_000 // the farthest are near a terabyte
		}
		x.add(hash, at)
		want[hash] = append(want[hash], at)
	}
	for hash, rows := range want {
		found := map[int64]bool{}
		x.each(hash, func(at int64) bool { found[at] = true; return true })
		for _, at := range rows {
			if !found[at] {
				t.Fatalf("hash %#x: %d is not found", hash, at)
			}
		}
		x.each(hash^1<<20, func(at int64) bool {
			if want[hash^1<<20] == nil && found[at] {
				t.Fatalf("%d is found by another hash", at)
			}
			return true
		})
	}
	n := 0
	x.each(7<<56|5, func(int64) bool { n++; return n < 3 })
	if n != 3 {
		t.Errorf("%d rows were given, of which 3 were wanted", n)
	}
	var none index
	none.each(1, func(int64) bool { t.Error("an empty index has a row"); return true })
}
