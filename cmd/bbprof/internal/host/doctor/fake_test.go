package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"testing/fstest"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// fake is a host whose blocks take what it says, and whose clock moves a millisecond a block.
type fake struct {
	now     time.Time
	started []profiler.Options
	open    int // profilers not closed
	// starts is what the nth start answers, nil beyond its end.
	starts []error
	// profile answers for a block; nil measures all, at 2 cycles.
	profile func(opts profiler.Options, block string) (profiler.Result, error)
}

func (f *fake) system(files map[string]string) System {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return System{
		Files:   root,
		CPU:     host.CPU{Vendor: "GenuineIntel", Microarchitecture: cpu.Skylake, Core: invariants.Core{L1DWays: 8}},
		CPUID:   func(leaf, _ uint32) (a, b, c, d uint32) { return 0x8000_0007, 0, 0, 1 << 8 },
		Allowed: func() ([]int, error) { return []int{0, 1, 2, 3}, nil },
		Ticks:   func() uint64 { return uint64(f.now.UnixNano()) * 3 },
		Now:     func() time.Time { return f.now },
		Counter: func(int) (pmu.PMU, error) {
			return pmu.PMU{Reason: "no counters", Remedy: "get some", Paranoid: pmu.UnknownLevel, RDPMC: pmu.UnknownLevel}, nil
		},
		Start: f.start,
	}
}

func (f *fake) start(_ context.Context, o profiler.Options) (pool.ProfileCloser, error) {
	n := len(f.started)
	f.started = append(f.started, o)
	if n < len(f.starts) && f.starts[n] != nil {
		return nil, f.starts[n]
	}
	f.open++
	return &fakeProfiler{f, o}, nil
}

type fakeProfiler struct {
	*fake
	opts profiler.Options
}

func (p *fakeProfiler) Close() { p.open-- }

func (p *fakeProfiler) Profile(ctx context.Context, b profiler.Block) (profiler.Result, error) {
	if err := ctx.Err(); err != nil {
		return profiler.Result{}, err
	}
	p.now = p.now.Add(time.Millisecond)
	if p.profile == nil {
		return measured(2), nil
	}
	return p.profile(p.opts, hex.EncodeToString(b.Code))
}

// measured is a result of so many cycles, give or take a hundredth.
func measured(cycles float64) profiler.Result {
	return profiler.Result{
		Status: profiler.OK, Cycles: cycles, CILow: cycles * 0.99, CIHigh: cycles * 1.01, Ran: profiler.Ran{Pages: 1},
		Clock:    &profiler.ClockReport{Name: "tsc", TicksPerCycle: 0.75},
		Host:     &profiler.HostReport{OnCPU: 3, SpeculativeStoreBypass: "vulnerable"},
		Evidence: []invariants.Evidence{{Invariant: verdict.L1DMiss, Kind: invariants.Inferred}, {Invariant: verdict.L1IMiss, Kind: invariants.Inferred}},
	}
}

func rejected(reason verdict.Reason) profiler.Result {
	return profiler.Result{Status: profiler.Rejected, Reason: reason, Rejection: &verdict.Rejection{Reason: reason, Detail: "so"}}
}

var errHost = &verdict.HostError{Missing: "ptrace is off", Remedy: "switch it on", Err: errors.New("EPERM")}
