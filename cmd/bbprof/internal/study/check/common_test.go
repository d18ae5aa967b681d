package check

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func pieces(keys ...int) (all []*Piece) {
	for _, k := range keys {
		all = append(all, &Piece{Code: &Code{key: fmt.Sprint(k)}})
	}
	return all
}

func values(all []*Piece) (some []Piece) {
	for _, p := range all {
		some = append(some, *p)
	}
	return some
}

// longest is the length of a longest common subsequence.
func longest(a, b []*Piece) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return 0
	case a[0].key == b[0].key:
		return 1 + longest(a[1:], b[1:])
	}
	return max(longest(a[1:], b), longest(a, b[1:]))
}

func TestCommon(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var keys [2][]int
		for side := range keys {
			for range random.IntN(10) {
				keys[side] = append(keys[side], random.IntN(5))
			}
		}
		a, b := pieces(keys[0]...), pieces(keys[1]...)
		pairs, last := common(a, b), [2]int{-1, -1}
		require.Equal(t, fmt.Sprintf("pairs of %v", keys), longest(a, b), len(pairs))
		for _, p := range pairs {
			if p[0] <= last[0] || p[1] <= last[1] || a[p[0]].key != b[p[1]].key {
				t.Fatalf("%v: %v are not a common subsequence", keys, pairs)
			}
			last = p
		}
	}
}

// TestManyPieces: a function of any size is matched in a moment.
func TestManyPieces(t *testing.T) {
	many := make([]int, 100_000)
	for i := range many {
		many[i] = i % 1000
	}
	a, b := pieces(many...), pieces(many...)
	a[7].key, b[len(b)-7].key = "only here", "only there"
	functions, equal := Match(values(a), values(b))
	if equal != 0 || len(functions) != 1 || functions[0].Equal < len(many)-10 {
		t.Errorf("%d equal functions, of %d others the first has %d equal pieces", equal, len(functions), functions[0].Equal)
	}
}
