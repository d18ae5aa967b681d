package launch

import "time"

const (
	chainIterations = 4096 // 65,536 adds: some 20 µs, a thousand times a clock reading
	chainAdds       = 16   // per iteration, as in chain_amd64.s
	chainRuns       = 8    // the fastest counts: sharing the core only slows it
)

// hertz measures the core's present clock by dependent register-to-register adds, which take one cycle each on every
// x86-64 core.
func hertz() float64 {
	fastest := time.Hour
	for range chainRuns {
		start := time.Now()
		chain(chainIterations)
		fastest = min(fastest, time.Since(start))
	}
	return chainIterations * chainAdds / fastest.Seconds()
}
