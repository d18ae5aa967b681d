package measuring

import (
	"context"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/profiler"
)

// profiling has do measure with a profiler of these options until a signal comes.
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
