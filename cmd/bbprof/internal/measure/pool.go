package measure

import (
	"context"
	"sync"

	"github.com/bbprof/bbprof/profiler"
)

// Measurer measures the blocks that next gives until it gives none, and hands each result to
// done, on one goroutine. A *profiler.Profiler is one.
type Measurer interface {
	ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error
}

// A Pool is workers that measure jobs side by side. When one is done with a block, the thread that measured it takes the next,
// under the pool's lock; no other thread is woken for that, since on a machine where every core measures it would take one from
// its block.
type Pool struct {
	sync.Mutex       // guards what follows, and the jobs
	Failed     error // why the work ends before its end
	Waiting    int   // workers without a job
	changed    sync.Cond
}

// Wake has workers without a job look again.
func (p *Pool) Wake() {
	if p.Waiting > 0 {
		p.changed.Broadcast()
	}
}

// End has workers stop after their present blocks. The first reason is kept.
func (p *Pool) End(why error) {
	if p.Failed == nil {
		p.Failed = why
	}
	p.Wake()
}

// Jobs are what a pool measures. Its lock is held during the calls.
type Jobs[J any] struct {
	// Take is a job for a worker; nil if there is none now, and more if one may come once another is done.
	Take  func(worker int) (job *J, more bool, err error)
	Block func(*J) profiler.Block
	Done  func(*J, profiler.Result, error) error
}

// Run measures jobs until there is none or Failed is set. A block that was begun is finished, whatever happens meanwhile.
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

// next waits until there is a job; nil is the end.
func next[J any](p *Pool, worker int, jobs Jobs[J]) *J {
	for p.Failed == nil {
		job, more, err := jobs.Take(worker)
		switch {
		case err != nil:
			p.End(err)
		case job != nil:
			return job
		case !more:
			p.Wake() // the others may be waiting for that
			return nil
		default:
			p.Waiting++
			p.changed.Wait()
			p.Waiting--
		}
	}
	return nil
}

// All measures blocks side by side, and up to so many times more those that were rejected for noise, when the rest is done. An
// error is ctx's, or that of the first worker that had one; blocks that were begun are finished.
func All(ctx context.Context, workers []Measurer, blocks []profiler.Block, retries int) ([]profiler.Result, error) {
	type job struct{ block, tries int }
	var (
		pool    Pool
		results = make([]profiler.Result, len(blocks))
		queue   []*job
		flying  int
	)
	for i := range blocks {
		queue = append(queue, &job{block: i})
	}
	err := Run(&pool, workers, Jobs[job]{
		Take: func(int) (*job, bool, error) {
			if len(queue) == 0 || ctx.Err() != nil {
				return nil, flying > 0, ctx.Err()
			}
			j := queue[0]
			queue = queue[1:]
			j.tries++
			flying++
			return j, true, nil
		},
		Block: func(j *job) profiler.Block { return blocks[j.block] },
		Done: func(j *job, r profiler.Result, err error) error {
			flying--
			if results[j.block] = r; err == nil && r.Noisy() && j.tries <= retries {
				queue = append(queue, j)
			}
			pool.Wake()
			return err
		},
	})
	return results, err
}
