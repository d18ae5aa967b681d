package instructions

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Measurer measures the blocks that next gives until it gives none. A *profiler.Profiler is one.
type Measurer interface {
	ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error
}

// ErrInterrupted ends a measurement whose context ended.
var ErrInterrupted = errors.New("interrupted")

// Measure measures the probes of plans and the bridges that they use, and gives a row for each plan.
// progress is told after each block how many are done, and of how many.
func Measure(ctx context.Context, workers []Measurer, plans []Plan, retries int, progress func(done, of int)) ([]Row, error) {
	q := &queue{ctx: ctx, retries: retries, absent: map[int]bool{}, progress: progress}
	q.changed.L = &q.mu
	bridges := map[bridge]int{} // to their probe in jobs
	var need func(Probe)
	need = func(p Probe) {
		for _, b := range p.Bridges {
			if _, planned := bridges[b]; !planned {
				probe := bridgeProbe(b)
				need(probe) // first, for its value is needed first
				bridges[b] = len(q.jobs)
				q.jobs = append(q.jobs, &job{plan: -1, probe: probe})
			}
		}
	}
	for i := range plans {
		for _, probe := range plans[i].Probes {
			need(probe)
		}
	}
	ofPlan := make([][]*job, len(plans))
	for i := range plans {
		for _, probe := range plans[i].Probes {
			j := &job{plan: i, probe: probe}
			q.jobs, ofPlan[i] = append(q.jobs, j), append(ofPlan[i], j)
		}
	}
	var working sync.WaitGroup
	for _, w := range workers {
		working.Go(func() { q.work(w) })
	}
	working.Wait()
	if q.failed != nil {
		return nil, q.failed
	}
	known := map[bridge]Value{}
	order := slices.Collect(maps.Keys(bridges))
	sort.Slice(order, func(i, j int) bool { return bridges[order[i]] < bridges[order[j]] })
	for _, b := range order {
		if j := q.jobs[bridges[b]]; j.result.Status == profiler.OK {
			known[b] = j.value(known)
		}
	}
	rows := make([]Row, len(plans))
	for i := range plans {
		rows[i] = newRow(&plans[i], ofPlan[i], known)
	}
	return rows, nil
}

// job is a probe and what came of it.
type job struct {
	plan     int // -1 of a bridge
	probe    Probe
	tries    int
	why      string // it was rejected for what is then tolerated
	rejected verdict.Reason
	result   profiler.Result
}

// tolerated are the reasons that some instructions have for good: a processor that does away with adds of
// constants can do so for a while alone. Their mean is given with the reason beside it.
var tolerated = []verdict.Reason{verdict.Nonlinear, verdict.Unstable}

// tolerate are those of a job that was rejected for one.
func (j *job) tolerate() []verdict.Reason {
	if j.why == "" {
		return nil
	}
	return tolerated
}

// queue hands jobs to workers.
type queue struct {
	ctx      context.Context
	retries  int
	progress func(done, of int)

	mu      sync.Mutex
	changed sync.Cond
	jobs    []*job
	aside   []*job // rejected for noise
	next    int
	done    int
	flying  int
	absent  map[int]bool // plans whose instruction this CPU does not have
	failed  error
}

func (q *queue) work(w Measurer) {
	var j *job
	err := w.ProfileAll(context.Background(), func() (profiler.Block, bool) {
		if j = q.take(); j == nil {
			return profiler.Block{}, false
		}
		return profiler.Block{Code: j.probe.Code, Setup: profiler.Setup{Tolerate: j.tolerate()}}, true
	}, func(r profiler.Result, err error) { q.finish(j, r, err) })
	if err != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.fail(err)
	}
}

// take is the next job, nil at the end.
func (q *queue) take() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.failed == nil {
		if q.ctx.Err() != nil {
			q.failed = ErrInterrupted
			break
		}
		var j *job
		switch {
		case q.next < len(q.jobs):
			j = q.jobs[q.next]
			q.next++
		case len(q.aside) > 0:
			j = q.aside[0]
			q.aside = q.aside[1:]
		case q.flying == 0:
			return nil
		default:
			q.changed.Wait()
			continue
		}
		if q.absent[j.plan] {
			j.result = profiler.Result{Status: profiler.Rejected, Reason: verdict.SIGILL, Rejection: &verdict.Rejection{Reason: verdict.SIGILL, Detail: notHere}}
			q.report()
			continue
		}
		j.tries++
		q.flying++
		return j
	}
	q.changed.Broadcast()
	return nil
}

// notHere is why a form is not measured.
const notHere = "this CPU does not have the instruction"

func (q *queue) finish(j *job, r profiler.Result, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.changed.Broadcast()
	q.flying--
	if err != nil {
		q.fail(err)
		return
	}
	j.result = r
	if r.Rejection != nil && r.Rejection.Reason.Noise() && j.tries <= q.retries {
		q.aside = append(q.aside, j)
		return
	}
	if r.Rejection != nil && j.why == "" && slices.Contains(tolerated, r.Rejection.Reason) {
		j.why, j.rejected = r.Rejection.Detail, r.Rejection.Reason
		q.aside = append(q.aside, j)
		return
	}
	if r.Rejection != nil && r.Rejection.Reason == verdict.SIGILL && j.plan >= 0 && len(j.probe.Bridges) == 0 {
		q.absent[j.plan] = true
	}
	q.report()
}

// fail ends the work after the blocks in progress. The first reason is kept.
func (q *queue) fail(err error) {
	if q.failed == nil {
		q.failed = err
	}
	q.changed.Broadcast()
}

func (q *queue) report() {
	q.done++
	if q.progress != nil {
		q.progress(q.done, len(q.jobs))
	}
}
