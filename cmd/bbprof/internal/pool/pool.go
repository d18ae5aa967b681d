package pool

import (
	"context"
	"sync"
	"time"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Measurer measures the blocks that next returns until there are none, and passes each result to done, on one
// goroutine. *profiler.Profiler implements it.
type Measurer interface {
	ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error
}

// A Pool runs workers that measure jobs in parallel. The thread that finishes a block takes the next one itself, under
// the pool's lock: where every core measures, waking another thread would disturb one of the blocks.
type Pool struct {
	sync.Mutex       // guards the fields below and the jobs
	Failed     error // why the work ends early
	Waiting    int   // workers without a job
	changed    sync.Cond
}

// Wake makes idle workers look for a job again.
func (p *Pool) Wake() {
	if p.Waiting > 0 {
		p.changed.Broadcast()
	}
}

// End stops the workers after their current blocks. Only the first reason is kept.
func (p *Pool) End(why error) {
	if p.Failed == nil {
		p.Failed = why
	}
	p.Wake()
}

// Jobs supplies a pool's work. The pool's lock is held during the calls.
type Jobs[J any] struct {
	// Take returns a job for a worker; nil if there is none now. more: one may come when another is done.
	Take  func(worker int) (job *J, more bool, err error)
	Block func(*J) profiler.Block
	Done  func(*J, profiler.Result, error) error
}

// Run measures jobs until there are none or Failed is set. A block that has begun is always finished.
func Run[J any](p *Pool, workers []Measurer, jobs Jobs[J]) error {
	p.changed.L = &p.Mutex
	var working sync.WaitGroup
	for worker, m := range workers {
		working.Go(func() {
			var job *J
			err := m.ProfileAll(context.Background(), func() (b profiler.Block, ok bool) {
				p.Lock()
				defer p.Unlock()
				if job = next(p, worker, jobs); job == nil {
					return b, false
				}
				return jobs.Block(job), true
			}, func(r profiler.Result, err error) {
				p.Lock()
				defer p.Unlock()
				if err := jobs.Done(job, r, err); err != nil {
					p.End(err)
				}
			})
			if err != nil {
				p.Lock()
				defer p.Unlock()
				p.End(err)
			}
		})
	}
	working.Wait()
	return p.Failed
}

// next waits for a job; nil means the end.
func next[J any](p *Pool, worker int, jobs Jobs[J]) *J {
	for p.Failed == nil {
		job, more, err := jobs.Take(worker)
		switch {
		case err != nil:
			p.End(err)
		case job != nil:
			return job
		case !more:
			p.Wake() // the others may be waiting for this
			return nil
		default:
			p.Waiting++
			p.changed.Wait()
			p.Waiting--
		}
	}
	return nil
}

// A Queue is work that may grow: Done may append jobs, such as one to be measured again.
type Queue[J any] struct {
	Jobs  []*J // that wait, the next first
	Block func(*J) profiler.Block
	Done  func(*J, profiler.Result)

	pool   Pool
	flying int
}

// Run measures until no job is left. The error is ctx's or the first worker's; blocks that have begun are finished.
func (q *Queue[J]) Run(ctx context.Context, workers []Measurer) error {
	return Run(&q.pool, workers, Jobs[J]{
		Take: func(int) (*J, bool, error) {
			if len(q.Jobs) == 0 || ctx.Err() != nil {
				return nil, q.flying > 0, ctx.Err()
			}
			j := q.Jobs[0]
			q.Jobs = q.Jobs[1:]
			q.flying++
			return j, true, nil
		},
		Block: q.Block,
		Done: func(j *J, r profiler.Result, err error) error {
			if q.flying--; err == nil {
				q.Done(j, r)
			}
			q.pool.Wake()
			return err
		},
	})
}

// LeastRetries is how long retries may take at least, and otherwise as long as everything before them: on a core that is never idle
// each takes its whole budget, and a batch of seconds took nine minutes.
const LeastRetries = patience

// Again reports whether a block is to be measured once more that was tried this many times: if noise rejects it, up to
// retries times and, at the end, as long as other work on the core does.
func Again(times, retries int, r *profiler.Result, atEnd bool) bool {
	return r.Noisy() && (times <= retries || atEnd && otherWork(r.Reason) && retries > 0)
}

// otherWork reports whether the machine alone is to blame for a rejection.
func otherWork(reason verdict.Reason) bool {
	return reason == verdict.BusyCore || reason == verdict.ContextSwitch
}

// All measures blocks in parallel. At the end it repeats blocks that were rejected for noise, up to retries times, and for as long as
// the others took, or least if that is more. done is told how many have a result; it may be nil.
func All(ctx context.Context, workers []Measurer, blocks []profiler.Block, retries int, least time.Duration, done func(n int)) ([]profiler.Result, error) {
	type job struct{ block, tries int }
	results := make([]profiler.Result, len(blocks))
	began, first, measured := time.Now(), time.Duration(0), 0
	q := Queue[job]{Block: func(j *job) profiler.Block { return blocks[j.block] }}
	q.Done = func(j *job, r profiler.Result) {
		results[j.block] = r
		if measured++; measured == len(blocks) {
			first = time.Since(began)
		}
		if done != nil {
			done(min(measured, len(blocks)))
		}
		late := measured >= len(blocks) && time.Since(began) > first+max(first, least)
		if j.tries++; Again(j.tries, retries, &r, measured >= len(blocks)) && !late {
			q.Jobs = append(q.Jobs, j)
		}
	}
	for i := range blocks {
		q.Jobs = append(q.Jobs, &job{block: i})
	}
	return results, q.Run(ctx, workers)
}
