package hostile

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Long is whether, and in how many parts, a test does all that it is meant to do: BBPROF_LONG=1 is all at once,
// BBPROF_LONG=20 one part of 20, each time another (make fuzz).
func Long() (parts int, ok bool) {
	parts, err := strconv.Atoi(os.Getenv("BBPROF_LONG"))
	return parts, err == nil && parts > 0
}

// Scaled is full, or one part of it, in a long run and short in any other.
func Scaled(short, full int) int {
	if parts, ok := Long(); ok {
		return (full + parts - 1) / parts
	}
	return short
}

// Seeded is another sequence in each long run, and the same in each short one.
func Seeded(t testing.TB) *rand.Rand {
	seed := uint64(1)
	if _, ok := Long(); ok {
		seed = rand.Uint64()
	}
	if v, err := strconv.ParseUint(os.Getenv("BBPROF_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("BBPROF_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
