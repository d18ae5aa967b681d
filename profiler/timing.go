package profiler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/verdict"
)

// A block is timed in looks. A look lays it out in a way of its own, maps it anew and times it
// in lookWindows windows, with 0, 1, … turns more of the loop before the first copy. The number
// of turns decides where the copies meet the dispatch groups and so what the block's start and
// end cost, and for blocks bound by throughput their speed, by some percent for as long as they
// run; a look has each number once, so that all looks have the same share of each, and so do
// two runs of bbprof. Turns never change within a window: the branch predictor has to learn each
// number anew.
const (
	lookWindows = 6 // macro-operations that most cores dispatch in a cycle
	layouts     = 4
	layoutStep  = 5 * 64

	windowSamples = 2
	// windowPolls are the sentinel readings that a window's samples stand between; none may
	// find the core busy. Where one does, other work comes and goes faster than the sentinel
	// sees it: of windows with three or more busy readings two thirds were slow by up to 40 %,
	// of those with none one in a thousand (docs/precision.md).
	windowPolls = windowSamples + 1
	// A stay waits for quiet moments for so many busy readings, some 0.5 ms.
	waitPolls = 1000
	// calmReadings are the quiet readings in a row that end a wait.
	calmReadings = 8
	patience     = 8 // stays without a quiet window, before another CPU is tried
	imageWarm    = 2
	// driftShare is how far the core's clock may be from known within a stay: more means
	// that it moved.
	driftShare = 0.01

	// A timing lasts about so many ticks, and so many steps of the clock: the more, the narrower the
	// interval, until what the clock's steps leave open is less than what looks differ by.
	timingTicks = 4500
	timingSteps = 600
	maxRuns     = 64
	pacedRuns   = 4 // that say how long one takes: the fastest of the last three

	// stayLooks are the most looks that one stay takes: all that the first decision needs.
	stayLooks = 2
)

// checkedLooks are the numbers of looks after which the interval is asked whether it is
// narrow enough: few, because an interval that is asked often is once narrow by chance.
var checkedLooks = []int{2, 3, 4, 6, 8, 12, 16}

// What a block gets that will not be narrow after all looks.
const (
	fewLooks    = 4 // if it will not be steady after enoughLooks either, by far
	unitLooks   = 6 // if it is steady: the fewest looks whose mean has an interval of its own, since less than half of six are trimmed away
	enoughLooks = 8 // else
)

// time looks at the block until the interval is narrow enough.
func (r *run) time() error {
	if r.counts() {
		return r.timeCounted()
	}
	r.result.RunsPerSample = 0 // for the first stay to find out
	deadline := time.Now().Add(r.opts.Budget)
	r.third = nil
	for n, next := 0, 0; next < len(checkedLooks); {
		looks, complete, err := r.look(n, min(checkedLooks[next]-n, stayLooks), deadline)
		if err != nil {
			return err
		}
		if !complete {
			break
		}
		if n += looks; n < checkedLooks[next] {
			continue
		}
		if r.narrow() || r.hopeless(n) {
			break
		}
		next++
	}
	if least := checkedLooks[0] * lookWindows; len(r.cycles) < least {
		return r.disturbed(least)
	}
	return nil
}

// disturbed is the rejection of a block that was not left alone for long enough.
func (r *run) disturbed(least int) error {
	reason, why := verdict.Unstable, "another hardware thread shared the core"
	switch max(r.result.WindowsSwitched, r.result.WindowsUnsteady, r.result.WindowsDrifted) {
	case r.result.WindowsUnsteady:
	case r.result.WindowsSwitched:
		reason, why = verdict.ContextSwitch, "the scheduler took the CPU away"
	case r.result.WindowsDrifted:
		reason, why = verdict.ClockDrift, "the core's clock moved"
	}
	return &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf(
		"%s: within %v only %d of the %d windows needed were undisturbed, %d saw a context switch, %d no quiet core and %d a drift of the core's clock",
		why, r.opts.Budget, len(r.cycles), least, r.result.WindowsSwitched, r.result.WindowsUnsteady, r.result.WindowsDrifted)}
}

// look takes the next looks, most of them or fewer if there is no room, all in one stay, and then
// again those of their windows that were disturbed. They are not complete if the time was up before.
func (r *run) look(first, most int, deadline time.Time) (looks int, complete bool, err error) {
	views, err := r.layViews(first, most)
	if err != nil {
		return 0, false, err
	}
	looks = len(views)
	if first == 0 {
		if third, ok, err := r.viewThird(); err != nil {
			return 0, false, err
		} else if ok {
			views = append(views, third)
		}
	}
	views[0].mapped = first == 0
	r.plan.Refill(r.child)
	complete, err = r.takeWindows(views, looks, deadline)
	for _, v := range views[looks:] {
		r.third = v.cycles
	}
	r.take(views[:looks])
	return looks, complete, err
}

// take adds what looks came to. What the time was up for comes last: whoever takes the looks apart
// knows where they begin. Of two such looks one is enough then, or together they would pass for a whole one.
func (r *run) take(looks []view) {
	slices.SortStableFunc(looks, func(a, b view) int { return cmp.Compare(len(a.missing), len(b.missing)) })
	for i, v := range looks {
		if i > 0 && len(looks[i-1].missing) > 0 && len(r.cycles) >= unitLooks*lookWindows {
			break
		}
		r.cycles = append(r.cycles, v.cycles...)
		r.result.SamplesKept += windowSamples * len(v.cycles)
	}
}

// takeWindows times views until the looks among them, which come first, lack no window.
func (r *run) takeWindows(views []view, looks int, deadline time.Time) (complete bool, err error) {
	together, busy := math.MaxInt, 0 // windows in a stay
	for {
		if time.Now().After(deadline) {
			return false, nil
		}
		plan, of := r.planStay(views, together)
		got, err := r.stay(plan)
		if err != nil {
			return false, err
		}
		if got.runs > 0 {
			r.result.RunsPerSample = got.runs
		}
		kept := r.keep(got)
		for _, w := range kept {
			v := of[w.scene]
			v.cycles = append(v.cycles, w.cycles(v.factors, r.clock, r.rate))
			v.missing = slices.DeleteFunc(v.missing, func(t int) bool { return t == w.turns })
		}
		views = views[:looks] // one try is enough for the others
		if !slices.ContainsFunc(views, func(v view) bool { return len(v.missing) > 0 }) {
			return true, nil
		}
		if len(kept) > 0 {
			busy = 0
			continue
		}
		together = (min(together, len(got.windows)) + 1) / 2 // what disturbs is less likely to fall into a short stay
		if busy++; busy%patience == 0 {
			if err := r.relocate(); err != nil { // which asks for the rate, in case that is what changed
				return false, err
			}
		}
	}
}

// lookTurns are the numbers of extra turns of a look's windows.
func lookTurns() (turns []int) {
	for t := range lookWindows {
		turns = append(turns, t)
	}
	return turns
}

// keep gives a stay's undisturbed windows and notes them and the others.
func (r *run) keep(got stay) (kept []window) {
	for _, w := range got.windows {
		r.result.SamplesDropped += w.polls - w.samples() // polls that led to no sample
	}
	if got.switches > 0 {
		r.result.WindowsSwitched += len(got.windows)
		return nil
	}
	switch known, drifts := r.learnRate(got); {
	case !known:
		r.result.WindowsUnsteady += len(got.windows)
		return nil
	case drifts:
		r.result.WindowsDrifted += len(got.windows)
		return nil
	}
	for _, w := range got.windows {
		if !w.complete {
			r.result.WindowsUnsteady++
			continue
		}
		kept = append(kept, w)
		r.result.TimedSeconds += w.ticks() / r.report.TicksPerSecond
	}
	return kept
}

// learnRate takes in what a stay says of the clock's rate. It is not known from less than a
// window; of few samples the interval is as wide as that of one step among them, which is no drift.
func (r *run) learnRate(got stay) (known, drifts bool) {
	rate := got.rate(r.clock)
	switch {
	case math.IsNaN(rate.Value) || rate.N < windowSamples:
		return false, false
	case rate.Half > driftShare*rate.Value+2*r.clock.RateResolution(rate.N):
		return true, true
	}
	r.rate.add(rate, r.clock)
	return true, false
}

// estimate is the block's cycles per iteration with the interval in which another run's
// lie. The interval is never narrower than the clock's steps make it, in which both the block's
// time and the rate move: the one of the block's samples, the other of the looks before, too.
func (r *run) estimate() stat.Estimate {
	e := stat.MidMean(r.units())
	n := len(r.cycles) * windowSamples
	block := r.clock.Resolution(n, float64(r.result.RunsPerSample*(r.factors.Long-r.factors.Short))) / r.rate.ticks
	rate := e.Value * r.clock.RateResolution(max(r.rate.samples, n)) / r.rate.ticks
	e.Half = math.Hypot(max(e.Half, block), rate)
	return e.Prediction()
}

// units are what the estimate is the mean of. Windows, while looks are few: their scatter holds what
// differs from one mapping and layout to the next, and the effect of the turns besides, which is
// the same in every run. From unitLooks on it is the looks, without that effect.
func (r *run) units() []float64 {
	if len(r.cycles) < unitLooks*lookWindows {
		return r.cycles
	}
	var looks []float64
	for look := range slices.Chunk(r.cycles, lookWindows) {
		if len(look) == lookWindows { // the time may have been up in the last
			looks = append(looks, stat.Mean(look))
		}
	}
	return looks
}

// scatter is the mean of the windows with the interval that all their differences make.
func (r *run) scatter() stat.Estimate { return stat.MidMean(r.cycles).Prediction() }

// wider is the estimate or the scatter, whichever is the less certain: windows of one slow look
// are outweighed by those of others, its mean among few is not.
func (r *run) wider() stat.Estimate {
	e, s := r.estimate(), r.scatter()
	if e.Half > s.Half {
		return e
	}
	return s
}

func (r *run) narrow() bool { return r.narrowEnough(r.estimate()) }

func (r *run) narrowEnough(e stat.Estimate) bool {
	return e.Half <= r.opts.Precision*math.Max(e.Value, 1)
}

// hopeless reports whether there is no use in looking on after n looks. The width of an interval
// falls as the root of their number.
func (r *run) hopeless(n int) bool {
	after := func(e stat.Estimate, looks int) stat.Estimate {
		e.Half *= math.Sqrt(float64(n) / float64(looks))
		return e
	}
	switch {
	case n < fewLooks || r.narrowEnough(after(r.estimate(), slices.Max(checkedLooks))):
		return false
	case n < unitLooks:
		const far = math.Sqrt2 // some windows of four looks are only noise
		e := after(r.scatter(), enoughLooks)
		return e.Half > far*unstableLimit(e)
	}
	return n >= enoughLooks || steady(r.wider())
}
