package main

import (
	"runtime/debug"
	"runtime/metrics"

	"github.com/bbprof/bbprof/internal/host"
)

// heapGoal is how large the heap may grow before it is collected. A collection runs on every
// CPU, also where a block is being measured, and a few megabytes are soon full.
const heapGoal = 96 << 20

// limitShare is the part of a cgroup's memory that Go may take, as one in so many: the rest is
// for the program itself, the children, and pages of files that are on their way to the disk.
// The heap may grow to half of that without being collected.
const limitShare = 2

// collector keeps Go's garbage collector from running more often than memory demands while
// blocks are measured: not before heapGoal, and where more is in use, as with an index of many
// blocks, not before that has grown by a quarter.
type collector struct {
	goal    int64
	percent int
	live    []metrics.Sample
}

func newCollector() *collector {
	c := &collector{goal: heapGoal, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	if limit := host.MemoryLimit(); limit > 0 {
		c.goal = min(heapGoal, limit/limitShare/2)
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), limit/limitShare)) // GOMEMLIMIT may say less
	}
	c.rest() // nothing is measured yet
	return c
}

// rest is for when nothing is measured: a heap that then grows, as for putting rows in order,
// would grow by the many times that suit a small one.
func (c *collector) rest() {
	c.percent = leastPercent
	debug.SetGCPercent(leastPercent)
}

// leastPercent is little because nearly all of a large heap is an index without pointers, in
// which a collection has nothing to scan.
const leastPercent = 25

func (c *collector) adjust() {
	metrics.Read(c.live)
	var live uint64
	if v := c.live[0].Value; v.Kind() == metrics.KindUint64 {
		live = v.Uint64()
	}
	percent := gcPercent(c.goal, live)
	if d := percent - c.percent; d*d > c.percent*c.percent/16 { // setting it stops all threads
		debug.SetGCPercent(percent)
		c.percent = percent
	}
}

func gcPercent(goal int64, live uint64) int {
	const least = 4 << 20 // what Go takes for less
	return max(100*int(goal)/int(max(live, least))-100, leastPercent)
}
