package program

import "time"

const (
	chainIterations = 4096 // 65,536 adds: some 20 µs, a thousand times what a clock reading takes
	chainAdds       = 16   // in an iteration, as chain_amd64.s has it
	chainRuns       = 8    // the fastest counts: whatever shares the core only slows it
)

// hertz is the core's present clock: dependent register-to-register adds take a cycle each on
// every x86-64 core.
func hertz() float64 {
	fastest := time.Hour
	for range chainRuns {
		start := time.Now()
		chain(chainIterations)
		fastest = min(fastest, time.Since(start))
	}
	return chainIterations * chainAdds / fastest.Seconds()
}
