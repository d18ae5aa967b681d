package extract

import (
	"strconv"
	"strings"
)

// Timed is how long a block took in its program, as the CPU recorded it with branches: core cycles from the retirement of the
// branch before it to that of its own, mispredictions and misses included.
type Timed struct {
	Cycles, Runs uint64
}

// Mean is the cycles of a run, "" if none was timed.
func (t Timed) Mean() string {
	if t.Runs == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(t.Cycles)/float64(t.Runs), 'f', 4, 64)
}

// timedRanges are what ran between two branches, with both ends included.
type timedRanges map[span]Timed

// add takes a run; 0 cycles are of a CPU that records none, or of too many to record.
func (t *timedRanges) add(where span, cycles uint64) {
	if cycles == 0 {
		return
	}
	if *t == nil {
		*t = timedRanges{}
	}
	sum := (*t)[where]
	(*t)[where] = Timed{sum.Cycles + cycles, sum.Runs + 1}
}

// recordedCycles reads what stands behind the addresses of a branch record: M/X/A/CYCLES, and more of newer versions of perf.
func recordedCycles(rest string) uint64 {
	fields := strings.Split(rest, "/")
	if len(fields) < 4 {
		return 0
	}
	n, _ := strconv.ParseUint(fields[3], 10, 64) // "-" and what is no number are 0
	return n
}

// timed is the time of a block that begins at one address and whose branch stands at another: of runs that were nothing else.
func timed(c counts, start, branch uint64) Timed {
	r, ok := c.(*rangeCounts)
	if !ok {
		return Timed{}
	}
	return r.timed[span{start, branch}]
}
