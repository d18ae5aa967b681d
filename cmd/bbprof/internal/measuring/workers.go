package measuring

import (
	"context"
	"errors"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

func WorkerCPUs(chosen []int, workers int) (host.Layout, error) {
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

// SideBySide holds the flags of commands that measure blocks in parallel.
type SideBySide struct {
	Measuring profiler.Options
	Workers   int
	Retries   int
}

func (m *SideBySide) Declare(f *cli.Flags) {
	f.Section("Workers")
	f.Number(&m.Workers, 0, "workers", "measure N blocks at a time").Fallback = "0, which is one a physical core, and " +
		"no more than the cgroup leaves CPU time for"
	m.Retries = measure.Tries - 1
	f.Number(&m.Retries, 0, "retries", "measure a noisy block up to N times more")
	Flags(f, &m.Measuring)
}

// Workers are profilers, each with its own CPUs.
type Workers []*profiler.Profiler

// StartWorkers starts them in parallel, once all other threads are off their CPUs.
func StartWorkers(ctx context.Context, opts profiler.Options, cpus host.Layout) (Workers, error) {
	if len(cpus.Own) > 0 {
		if err := host.Confine(cpus.Own); err != nil {
			return nil, err
		}
	}
	all := make(Workers, len(cpus.Workers))
	errs := make([]error, len(all))
	var starting sync.WaitGroup
	for i, own := range cpus.Workers {
		o := opts
		o.CPUs = own
		starting.Go(func() { all[i], errs[i] = profiler.New(ctx, o) })
	}
	starting.Wait()
	for _, err := range errs {
		if err != nil { // the others report the same about their CPUs
			all.Close()
			return nil, err
		}
	}
	return all, nil
}

// SomeWorkers starts n workers on the CPUs of the options; 0 means as many as WorkerCPUs allows.
func SomeWorkers(ctx context.Context, opts profiler.Options, n int) (Workers, error) {
	cpus, err := WorkerCPUs(opts.CPUs, n)
	if err != nil {
		return nil, err
	}
	return StartWorkers(ctx, opts, cpus)
}

func (w Workers) Close() {
	for _, p := range w {
		if p != nil {
			p.Close()
		}
	}
}

func (w Workers) Measurers() (list []measure.Measurer) {
	for _, p := range w {
		list = append(list, p)
	}
	return list
}

// Profile is measure.All.
func (w Workers) Profile(ctx context.Context, blocks []profiler.Block, retries int) ([]profiler.Result, error) {
	return measure.All(ctx, w.Measurers(), blocks, retries)
}

// WithProfiler calls do with a profiler of these options, until a signal comes.
func WithProfiler(opts profiler.Options, do func(context.Context, *profiler.Profiler) error) error {
	ctx, stop := cli.UntilSignal()
	defer stop()
	p, err := profiler.New(ctx, opts)
	if err != nil {
		return err
	}
	defer p.Close()
	return do(ctx, p)
}
