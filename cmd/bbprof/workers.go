package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

func workerCPUs(chosen []int, workers int) (host.Layout, error) {
	allowed, err := host.AllowedCPUs()
	if err != nil {
		return host.Layout{}, err
	}
	if err := host.CheckKinds(chosen); err != nil {
		return host.Layout{}, err
	}
	plan, err := host.PlanWorkers(allowed, host.FastestKind(allowed), chosen, host.Siblings, workers, host.Quota())
	if wish := (*host.LayoutError)(nil); errors.As(err, &wish) {
		return plan, cli.BadUsage("%w; taskset -pc $$ lists the CPUs", err)
	}
	return plan, err
}

// sideBySide is how the commands measure that measure many blocks side by side.
type sideBySide struct {
	measuring profiler.Options
	workers   int
	retries   int
}

func (m *sideBySide) declare(f *cli.Flags) {
	f.Section("Workers")
	workersFlag(f, &m.workers)
	f.Number(&m.retries, 0, "retries", "measure a noisy block up to N times more")
	measuringFlags(f, &m.measuring)
}

func workersFlag(f *cli.Flags, workers *int) {
	f.Number(workers, 0, "workers", "measure N blocks at a time").Fallback = "0, which is one a physical core, and no more than the cgroup leaves CPU time for"
}

// workers are profilers, each on CPUs of its own.
type workers []*profiler.Profiler

// startWorkers starts them side by side, once all other threads keep off their CPUs.
func startWorkers(ctx context.Context, opts profiler.Options, cpus host.Layout) (workers, error) {
	if len(cpus.Own) > 0 {
		if err := host.Confine(cpus.Own); err != nil {
			return nil, err
		}
	}
	all := make(workers, len(cpus.Workers))
	errs := make([]error, len(all))
	var starting sync.WaitGroup
	for i, own := range cpus.Workers {
		o := opts
		o.CPUs = own
		starting.Go(func() { all[i], errs[i] = profiler.New(ctx, o) })
	}
	starting.Wait()
	for _, err := range errs {
		if err != nil { // the others say the same of their CPUs
			all.close()
			return nil, err
		}
	}
	return all, nil
}

// someWorkers starts so many on the CPUs of the options, 0 for as many as workerCPUs finds room for.
func someWorkers(ctx context.Context, opts profiler.Options, n int) (workers, error) {
	cpus, err := workerCPUs(opts.CPUs, n)
	if err != nil {
		return nil, err
	}
	return startWorkers(ctx, opts, cpus)
}

func (w workers) close() {
	for _, p := range w {
		if p != nil {
			p.Close()
		}
	}
}

func (w workers) measurers() (list []batch.Measurer) {
	for _, p := range w {
		list = append(list, p)
	}
	return list
}

// profile measures blocks side by side, and up to so many times more those that were rejected for noise.
func (w workers) profile(ctx context.Context, blocks []profiler.Block, retries int) ([]profiler.Result, error) {
	results := make([]profiler.Result, len(blocks))
	todo := make([]int, len(blocks))
	for i := range todo {
		todo[i] = i
	}
	for range 1 + retries {
		if err := w.profileEach(ctx, blocks, todo, results); err != nil {
			return nil, err
		}
		todo = slices.DeleteFunc(todo, func(i int) bool {
			r := results[i].Rejection
			return r == nil || !r.Reason.Noise()
		})
	}
	return results, nil
}

// profileEach measures the blocks of some numbers. An error is ctx's, or that of the first worker that had one; blocks
// that were begun are finished.
func (w workers) profileEach(ctx context.Context, blocks []profiler.Block, todo []int, results []profiler.Result) error {
	going, end := context.WithCancelCause(ctx)
	defer end(nil)
	var (
		begun   atomic.Int64
		working sync.WaitGroup
	)
	for _, p := range w {
		working.Go(func() {
			current := 0
			err := p.ProfileAll(context.Background(), func() (profiler.Block, bool) {
				n := int(begun.Add(1)) - 1
				if going.Err() != nil || n >= len(todo) {
					return profiler.Block{}, false
				}
				current = todo[n]
				return blocks[current], true
			}, func(r profiler.Result, err error) {
				if results[current] = r; err != nil {
					end(err)
				}
			})
			if err != nil {
				end(err)
			}
		})
	}
	working.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Cause(going)
}
