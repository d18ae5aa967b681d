package study

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/profiler"
)

const blockRuns = 3

// framesEach gives each page a frame, up to the most ways of any L1D.
const framesEach = 16

func (s *sweepCmd) sweepBlock(ctx context.Context, std cli.Streams) (got sweep.Sweep, err error) {
	block, err := s.Block.Read(std)
	if err != nil {
		return got, err
	}
	if err := measuring.OneMode(s.Opts); err != nil {
		return got, err
	}
	base := s.setup.Setup(&s.Opts)
	base.Address, base.Tolerate = block.Setup.Address, measuring.TolerateAll()
	if s.Opts.Frames == profiler.AutoFrames {
		base.Frames = framesEach
	}
	factor, err := sweep.Of(s.factor, base, s.regs, s.values)
	if err != nil {
		return got, cli.BadUsage("-%s: %w", s.factor, err)
	}
	s.Opts.Detail = true // includes the predictions
	s.events, s.Opts.Events = s.Opts.Events, nil
	s.subject = measuring.BlockSubject(fmt.Sprintf("%x", block.Code))
	results, events, err := s.measure(ctx, block.Code, factor, std)
	if results == nil {
		return got, err
	}
	return sweep.OfBlock(factor, results, events), err
}

func (s *sweepCmd) measure(ctx context.Context, code []byte, f sweep.Factor, std cli.Streams) ([]profiler.Result, []sweep.Column, error) {
	p, err := profiler.New(ctx, s.Opts)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	events, err := s.selected(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	plan := experiment.Plan{Rounds: cmp.Or(s.runs, blockRuns), Seed: s.seed}
	done := cli.Progress(s.Out.Notes(std), len(f.Values)*plan.Rounds, "measurements")
	plan.Done = done.Step
	results, err := sweep.Run(ctx, p, code, f, plan)
	done.End()
	if err != nil || len(events) == 0 {
		return results, nil, err
	}
	done = cli.Progress(s.Out.Notes(std), len(events), "events")
	defer done.End()
	plan.Done = done.Step
	columns, err := sweep.Screen(ctx, s.counting(ctx), code, f, events, plan)
	return results, columns, err
}

// selected returns the events to screen. An event named by the user that cannot be counted is an error.
func (s *sweepCmd) selected(ctx context.Context, p *profiler.Profiler) (events []profiler.Event, err error) {
	if slices.Contains(s.events, "all") {
		if events, err = p.AllEvents(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range s.events {
		if name == "all" {
			continue
		}
		if err := p.CanCount(ctx, name); err != nil {
			return nil, err
		}
		events = append(events, profiler.Event{Name: name, By: name})
	}
	return events, nil
}

func (s *sweepCmd) counting(ctx context.Context) sweep.Open {
	return func(events []profiler.Event) (measure.ProfileCloser, error) {
		opts := s.Opts
		for _, e := range events {
			opts.Events = append(opts.Events, e.By)
		}
		return profiler.New(ctx, opts)
	}
}
