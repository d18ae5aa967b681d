package batch

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// A Control is a block that each worker measures between the rows all along. What slows it slows the rows beside it,
// whatever their own windows say.
type Control struct {
	Name   string
	Block  profiler.Block
	Cycles float64 // on an idle core; 0: learnt in the run
	Whole  bool    // a latency, so that what is learnt is rounded
}

const (
	// controlShare is the share of a worker's time that its controls take: a check follows after so much longer than
	// it took, but after longestStretch at the latest.
	controlShare   = 0.02
	longestStretch = time.Minute
	// A control is off if it differs by more than offShare from an idle core's: two measurements on idle cores differ
	// by less than 1 % (docs/method.md), and a busy sibling adds 1 to 4 % to a chain and 40 to 90 % to independent adds.
	offShare = 0.02
	// What is learnt is the fastest mode: the lowest 1 % that holds three readings and a fortieth of all. The fastest reading
	// may be a disturbed clock's, and the most frequent a busy core's.
	agreeing   = 3
	leastShare = 1. / 40
	bucketStep = 1.0025
	modeWidth  = 4 // buckets
	// slowLevel is the share by which a worker's idle level exceeds a later one if its core was busy then
	// (profiler.ClockReport.ProbeIdle).
	slowLevel = 0.04
)

// controls schedules the checks of all workers, and judges the stretches between them. The pool's lock guards it.
type controls struct {
	kinds  []kind
	shifts []shift // by worker
	closed []stretch
	record resultfile.Controls
	began  time.Time
	spent  time.Duration
}

type kind struct {
	Control
	buckets map[int]int // readings by the logarithm of their cycles
	record  resultfile.Control
}

// A shift is where a worker stands between two checks.
type shift struct {
	due   time.Time
	at    int       // the next kind of this check, or noCheck
	began time.Time // of this check
	again bool      // the latest reading was off, and is repeated
	now   []float64 // readings of this check by kind; 0: disturbed
	level float64   // what this worker takes for idle now; 0: unknown
	open  stretch
}

const noCheck = -1

// A stretch is what a worker measured between two checks.
type stretch struct {
	worker   int
	readings []float64 // at both ends, by kind
	level    float64   // the slowest idle level of its results
	jobs     []*job    // while it is open
	rows     []int64   // their first rows
}

func newControls(list []Control, workers int) *controls {
	c := &controls{shifts: make([]shift, workers), began: time.Now()}
	for _, k := range list {
		c.kinds = append(c.kinds, kind{Control: k, buckets: map[int]int{}, record: resultfile.Control{Name: k.Name, Hex: fmt.Sprintf("%x", k.Block.Code)}})
	}
	for i := range c.shifts {
		c.shifts[i].at, c.shifts[i].open.worker = noCheck, i
	}
	return c
}

// next returns a worker's next control, nil if none is due. Without other work a stretch with results is closed.
func (c *controls) next(worker int, idle bool) *job {
	if len(c.kinds) == 0 {
		return nil
	}
	s, now := &c.shifts[worker], time.Now()
	if s.at == noCheck {
		if now.Before(s.due) && !(idle && len(s.open.jobs) > 0) {
			return nil
		}
		s.at, s.began, s.now = 0, now, make([]float64, len(c.kinds))
	}
	k := &c.kinds[s.at]
	return &job{code: k.Block.Code, setup: k.Block.Setup, control: true, last: worker}
}

// measured takes the result of a control. At the end of a check it returns the jobs of the stretch that it closes;
// slowed says what was off, "" if nothing was.
func (c *controls) measured(worker int, r *profiler.Result) (jobs []*job, slowed string, closed bool) {
	s := &c.shifts[worker]
	k := &c.kinds[s.at]
	k.record.Measured++
	if r.Status == profiler.OK {
		s.now[s.at] = r.Cycles
		k.learn(r.Cycles)
	} else {
		k.record.Busy++
	}
	if off := k.isOff(s.now[s.at]); off && !s.again {
		s.again = true
		return nil, "", false
	} else if off {
		k.record.Off++
	}
	if s.again = false; s.at+1 < len(c.kinds) {
		s.at++
		return nil, "", false
	}
	now := time.Now()
	took := now.Sub(s.began)
	c.spent += took
	s.at, s.due = noCheck, now.Add(min(longestStretch, time.Duration(float64(took)*(1/controlShare-1))))
	done := s.open
	done.readings = append(done.readings, s.now...)
	s.open = stretch{worker: worker, readings: s.now}
	if len(done.jobs) == 0 {
		return nil, "", true
	}
	c.record.Stretches++
	jobs, done.jobs = done.jobs, nil
	if slowed = c.slowed(&done); slowed == "" {
		for _, j := range jobs {
			done.rows = append(done.rows, j.rows[0].row.Number)
		}
		c.closed = append(c.closed, done)
	}
	return jobs, slowed, true
}

// holds reports whether a job's row waits for the end of its stretch, which it then belongs to.
func (c *controls) holds(j *job, r *profiler.Result) bool {
	if len(c.kinds) == 0 || r.UnrollLong == 0 || r.Status == profiler.Failed {
		return false
	}
	s := &c.shifts[j.last]
	s.open.jobs = append(s.open.jobs, j)
	if r.Clock != nil {
		s.level = r.Clock.ProbeIdle
		s.open.level = max(s.open.level, s.level)
	}
	return true
}

// slowed says why a stretch is void, by what is known now; "" if it is not.
func (c *controls) slowed(s *stretch) string {
	if level := c.shifts[s.worker].level; level > 0 && s.level > (1+slowLevel)*level {
		return fmt.Sprintf("the core that was taken for idle was busy: the contention probe took %.0f cycles, and %.0f when it was idle", s.level, level)
	}
	var list []string
	for i, cycles := range s.readings {
		if k := &c.kinds[i%len(c.kinds)]; k.isOff(cycles) {
			list = append(list, fmt.Sprintf("%s: %.3f cycles instead of %.3f", k.Name, cycles, k.expected()))
		}
	}
	if list == nil {
		return ""
	}
	return "blocks measured before and after it were off: " + strings.Join(list, "; ")
}

// late returns the rows of stretches that are void by what is known at the end, and why.
func (c *controls) late() map[int64]string {
	void := map[int64]string{}
	for i := range c.closed {
		if why := c.slowed(&c.closed[i]); why != "" {
			for _, row := range c.closed[i].rows {
				void[row] = why
			}
		}
	}
	return void
}

// report completes the record for the run's header; nil without controls.
func (c *controls) report() *resultfile.Controls {
	if len(c.kinds) == 0 {
		return nil
	}
	r := c.record
	r.Share = c.spent.Seconds() / (time.Since(c.began).Seconds() * float64(len(c.shifts)))
	for i := range c.kinds {
		k := &c.kinds[i]
		k.record.Cycles = math.Round(1e4*k.expected()) / 1e4
		r.Blocks = append(r.Blocks, k.record)
	}
	return &r
}

func (k *kind) learn(cycles float64) {
	if cycles > 0 {
		k.buckets[int(math.Floor(math.Log(cycles)/math.Log(bucketStep)))]++
	}
}

// expected is a control's time on an idle core, 0 while too few readings agree.
func (k *kind) expected() float64 {
	if k.Cycles > 0 {
		return k.Cycles
	}
	all := 0
	for _, n := range k.buckets {
		all += n
	}
	for _, at := range slices.Sorted(maps.Keys(k.buckets)) {
		n, sum := 0, 0.0
		for i := at; i < at+modeWidth; i++ {
			n, sum = n+k.buckets[i], sum+float64(k.buckets[i])*math.Pow(bucketStep, float64(i)+0.5)
		}
		if n < agreeing || float64(n) < leastShare*float64(all) {
			continue
		}
		if k.Whole {
			return math.Round(sum / float64(n))
		}
		return sum / float64(n)
	}
	return 0
}

// isOff judges a reading. Nothing makes a control faster than on an idle core but a clock that is off.
func (k *kind) isOff(cycles float64) bool {
	expected := k.expected()
	if cycles == 0 || expected == 0 {
		return false
	}
	return cycles > (1+offShare)*expected || (k.Whole || k.Cycles > 0) && cycles < (1-offShare)*expected
}

// slowedResult is the rejection of a block in a void stretch.
func slowedResult(r profiler.Result, why string) profiler.Result {
	about := ""
	if r.Status == profiler.OK {
		about = fmt.Sprintf("; about %.3f cycles", r.Cycles)
	}
	r.Rejection = &verdict.Rejection{Reason: verdict.BusyCore, Detail: why + about}
	r.Status, r.Reason, r.Impossible = profiler.Rejected, verdict.BusyCore, ""
	return r
}
