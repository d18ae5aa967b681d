package capture

import (
	"math"
	"math/rand/v2"
)

// sampler draws k visits from an unknown number by Li's algorithm L (Reservoir-Sampling Algorithms of Time Complexity
// O(n(1 + log(N/n))), ACM TOMS 20(4), 1994), which computes in advance which visit is drawn next. Of N visits it
// draws about k(1 + ln(N/k)) and keeps k.
type sampler struct {
	rng  *rand.Rand
	k    int
	seen uint64
	next uint64 // next visit to draw
	w    float64
}

func newSampler(k int, seed, block uint64) *sampler {
	return &sampler{rng: rand.New(rand.NewPCG(seed, block)), k: k, next: 1, w: 1}
}

func (s *sampler) visit() (slot int, drawn bool) {
	s.seen++
	if s.seen < s.next {
		return 0, false
	}
	slot = int(s.seen) - 1
	if s.seen > uint64(s.k) {
		slot = s.rng.IntN(s.k)
	}
	s.next++
	if s.seen >= uint64(s.k) {
		s.w *= math.Exp(math.Log(s.open()) / float64(s.k))
		// A gap beyond any number of visits means no more draws.
		s.next += uint64(min(math.Floor(math.Log(s.open())/math.Log1p(-s.w)), 1<<62))
	}
	return slot, true
}

func (s *sampler) open() float64 { return (float64(s.rng.Uint64()>>11) + 0.5) / (1 << 53) }
