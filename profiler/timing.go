package profiler

import (
	"fmt"
	"math"
	"time"

	"github.com/bbprof/bbprof/stat"
	"github.com/bbprof/bbprof/verdict"
)

const (
	windowSamples = 8
	windowPolls   = 5_000 // sentinel readings, 0.4 µs each, before the monitor looks what is wrong
	patience      = 3     // windows without a quiet moment, before another CPU is tried
	minWindows    = 8
	maxWindows    = 64
	imageWarm     = 2
	// driftShare is how far the core's clock may be from known within a window: more means
	// that it moved.
	driftShare = 0.01
	// A block bound by throughput settles into one of a few speeds, some percent apart, and
	// keeps it until its code moves or meets the rename groups at another place. Successive
	// windows lay it out at so many places, bytes apart, and as many offsets from a group's
	// start; their mean is what repeats. Never within a window: the branch predictor has to
	// learn each anew, and would do so at the expense of the image that comes first.
	layouts    = 4
	layoutStep = 5 * 64
	// A timing lasts about so many ticks, and so many steps of the clock.
	timingTicks = 3000
	timingSteps = 150
	maxRuns     = 32
)

// time collects clean windows, each with a fresh mapping.
func (r *run) time() error {
	runs, err := r.runsPerSample()
	if err != nil {
		return err
	}
	r.result.RunsPerSample = runs
	deadline := time.Now().Add(r.opts.Budget)
	busy := 0
	for len(r.windows) < maxWindows {
		if len(r.windows) >= minWindows && r.narrow() {
			return nil
		}
		if time.Now().After(deadline) {
			break
		}
		w, err := r.oneWindow(runs, windowSamples, windowPolls, r.quietTicks())
		if err != nil {
			return err
		}
		r.result.SamplesDropped += w.polls - w.samples() // polls that led to no sample
		switch {
		case w.switches > 0:
			r.result.WindowsSwitched++
			continue
		case w.samples() < windowSamples:
			r.result.WindowsUnsteady++
			if busy++; busy%patience == 0 {
				err = r.relocate()
			} else {
				err = r.probeRate()
			}
			if err != nil {
				return err
			}
			continue
		}
		busy = 0
		rate := w.rate(r.clock)
		r.rate = rate.Value
		if rate.Half > driftShare*rate.Value {
			r.result.WindowsDrifted++
			continue
		}
		r.windows = append(r.windows, w)
	}
	if len(r.windows) >= minWindows {
		return nil
	}
	reason, why := verdict.Unstable, "another hardware thread shared the core"
	switch n := max(r.result.WindowsSwitched, r.result.WindowsUnsteady, r.result.WindowsDrifted); n {
	case r.result.WindowsUnsteady:
	case r.result.WindowsSwitched:
		reason, why = verdict.ContextSwitch, "the scheduler took the CPU away"
	case r.result.WindowsDrifted:
		reason, why = verdict.ClockDrift, "the core's clock moved"
	}
	return &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf(
		"%s: within %v only %d of the %d windows needed were undisturbed, %d saw a context switch, %d no quiet core and %d a drift of the core's clock",
		why, r.opts.Budget, len(r.windows), minWindows, r.result.WindowsSwitched, r.result.WindowsUnsteady, r.result.WindowsDrifted)}
}

// oneWindow lays the block out and maps it afresh, and samples it.
func (r *run) oneWindow(runs, samples, polls int, quiet uint64) (window, error) {
	r.plan.Refill(r.child)
	n := len(r.windows)
	if err := r.build(uint64(n%layouts) * layoutStep); err != nil {
		return window{}, err
	}
	plan := r.plannedWindow(runs)
	plan.samples, plan.polls, plan.quiet = samples, polls, quiet
	plan.turns = (n + n/layouts) % layouts
	return r.window(plan)
}

// runsPerSample is how many runs between two readings make them resolvable.
func (r *run) runsPerSample() (int, error) {
	w, err := r.oneWindow(1, 3, 100, math.MaxUint32)
	if err != nil {
		return 0, err
	}
	if w.samples() == 0 {
		return 1, nil
	}
	one := stat.Median(floats(w.columns[len(w.columns)-1]))
	want := math.Max(timingTicks, timingSteps*r.clock.Step())
	return int(math.Min(math.Max(math.Ceil(want/one), 1), maxRuns)), nil
}

// cyclesOf is each window's throughput in cycles per iteration.
func (r *run) cyclesOf() []float64 {
	var c []float64
	for _, w := range r.windows {
		c = append(c, w.throughput(r.factors, r.clock.Step()).Value/w.rate(r.clock).Value)
	}
	return c
}

// estimate is the block's cycles per iteration with the interval in which another run's
// lie. Windows are the units, each with a layout and a mapping of its own, so their scatter
// holds all that differs from one run to the next. The interval is never narrower than one
// step of the clock spread over all timings.
func (r *run) estimate() stat.Estimate {
	e := stat.MidMean(r.cyclesOf()).Prediction()
	if n := len(r.windows); n > 0 {
		w := r.windows[0]
		step := r.clock.Step() / r.rate / float64(w.plan.long.runs*(r.factors.Long-r.factors.Short))
		e.Half = max(e.Half, step/math.Sqrt(float64(n*windowSamples)))
	}
	return e
}

func (r *run) narrow() bool {
	e := r.estimate()
	return e.Half <= r.opts.Precision*math.Max(e.Value, 1)
}
