package blockflags

import (
	"context"
	"errors"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
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
	m.Retries = pool.Tries - 1
	f.Number(&m.Retries, 0, "retries", "measure a noisy block up to N times more")
	Flags(f, &m.Measuring)
}

// Workers are profilers, each with its own CPUs.
type Workers []Worker

// A Worker asks the command's journal before it measures, as a Measurer and as a Profiler of the lists below.
type Worker struct {
	*profiler.Profiler
	kept pool.Kept
}

// StartWorkers starts them in parallel, once all other threads are off their CPUs.
func StartWorkers(ctx context.Context, std cli.Streams, opts profiler.Options, cpus host.Layout) (Workers, error) {
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
		all[i].kept = pool.Kept{Journal: std.Kept, Options: opts}
		starting.Go(func() { all[i].Profiler, errs[i] = profiler.New(ctx, o) })
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
func SomeWorkers(ctx context.Context, std cli.Streams, opts profiler.Options, n int) (Workers, error) {
	cpus, err := WorkerCPUs(opts.CPUs, n)
	if err != nil {
		return nil, err
	}
	return StartWorkers(ctx, std, opts, cpus)
}

func (w Workers) Close() {
	for _, p := range w {
		if p.Profiler != nil {
			p.Close()
		}
	}
}

func (w Workers) Measurers() (list []pool.Measurer) {
	for _, p := range w {
		list = append(list, p.kept.Measurer(p.Profiler))
	}
	return list
}

func (w Workers) Profilers() (list []pool.Profiler) {
	for _, p := range w {
		list = append(list, pool.NewPatient(p.kept.ProfileCloser(p.Profiler)))
	}
	return list
}

// Profile is pool.All with the time for retries that a batch has.
func (w Workers) Profile(ctx context.Context, blocks []profiler.Block, retries int, done func(n int)) ([]profiler.Result, error) {
	return pool.All(ctx, w.Measurers(), blocks, retries, pool.LeastRetries, done)
}

// Open starts a profiler that asks the command's journal before it measures, and waits for idle moments.
func Open(ctx context.Context, std cli.Streams, opts profiler.Options) (*pool.Patient, error) {
	p, err := profiler.New(ctx, opts)
	if err != nil {
		return nil, err
	}
	return pool.NewPatient(pool.Kept{Journal: std.Kept, Options: opts}.ProfileCloser(p)), nil
}

// WithProfiler calls do with a profiler of these options, until a signal comes.
func WithProfiler(std cli.Streams, opts profiler.Options, do func(context.Context, *pool.Patient) error) error {
	ctx, stop := cli.UntilSignal()
	defer stop()
	p, err := Open(ctx, std, opts)
	if err != nil {
		return err
	}
	defer p.Close()
	return do(ctx, p)
}
