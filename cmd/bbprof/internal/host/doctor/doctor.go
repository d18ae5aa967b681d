// Package doctor examines a host: what it is, what bbprof can do on it, and remedies for its
// shortcomings.
//
// It tries the profiler itself and infers nothing from settings: it says that bbprof measures here only
// after it has measured a block, with the clock and the evidence of that result. Settings only explain.
// They are read through a [System], so that tests can describe other hosts; the code that turns facts
// into findings is pure.
package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// System supplies an examination's facts and measurements.
type System struct {
	Files   fs.FS // the root directory; /proc and /sys are read
	CPU     host.CPU
	CPUID   host.CPUID
	Allowed func() ([]int, error) // the CPUs that this process may run on
	Ticks   func() uint64         // the time-stamp counter
	Now     func() time.Time
	Counter func(cpu int) (pmu.PMU, error) // the hardware counters of a CPU
	Start   func(context.Context, profiler.Options) (pool.ProfileCloser, error)
}

// ThisMachine is the host that bbprof runs on; cpus are the CPUs to measure on, if chosen.
func ThisMachine(cpus ...int) System {
	cpu := host.Detect(cpus...)
	return System{
		Files:   os.DirFS("/"),
		CPU:     cpu,
		CPUID:   host.AskCPUID,
		Allowed: host.AllowedCPUs,
		Ticks:   host.Ticks,
		Now:     time.Now,
		Counter: func(number int) (pmu.PMU, error) { return probe(cpu, number) },
		Start: func(ctx context.Context, o profiler.Options) (pool.ProfileCloser, error) {
			p, err := profiler.New(ctx, o)
			if err != nil {
				return nil, err // not an interface that holds a nil *profiler.Profiler
			}
			return p, nil
		},
	}
}

// probe asks on the CPU itself: cores of a hybrid CPU have different counters.
func probe(cpu host.CPU, number int) (p pmu.PMU, err error) {
	ptracethread.Run(func() {
		if number >= 0 {
			// If that is refused nothing can be measured, and that failure has the reason.
			_ = host.PinThread(number)
		}
		p, err = pmu.Probe(pmu.Linux{}, pmu.CPU{ID: cpu.ID, Number: number})
	})
	return p, err
}

type Report struct {
	// CanMeasure is what bbprof -hex will do. Where it is false, the first of the Shortcomings
	// says what is missing.
	CanMeasure bool `json:"can_measure"`
	// Busy says that nothing but an idle core was missing: bbprof may measure later, or on another CPU.
	Busy bool `json:"busy,omitempty"`

	Host     Host    `json:"host"`
	OnCPU    int     `json:"on_cpu"` // where it was measured, -1 if nowhere
	Counters pmu.PMU `json:"counters"`
	// Events lists the CPU's events with their counts over blocks of known counts, where there are
	// counters.
	Events []profiler.CounterReport `json:"events,omitempty"`

	Clock    *Clock                `json:"clock,omitempty"`
	Evidence []invariants.Evidence `json:"evidence,omitempty"`
	// SpeculativeStoreBypass is the child's.
	SpeculativeStoreBypass string `json:"speculation_store_bypass,omitempty"`

	Precision    *Precision    `json:"precision,omitempty"`
	Requirements []Requirement `json:"requirements"`
	Shortcomings []Shortcoming `json:"shortcomings"`
}

type Clock struct {
	profiler.ClockReport
	// TSCMegahertz is the time-stamp counter's rate by the system's clock, 0 if unknown.
	TSCMegahertz float64 `json:"tsc_mhz,omitzero"`
	// Ticks per core cycle, the lowest and the highest among all blocks: the core's clock moves.
	RateLow  float64 `json:"ticks_per_cycle_low"`
	RateHigh float64 `json:"ticks_per_cycle_high"`
}

func (c Clock) Drift() float64 {
	if c.RateLow <= 0 {
		return 0
	}
	return c.RateHigh/c.RateLow - 1
}

// budget is the default time limit for one block. On an idle host a block takes some milliseconds.
const budget = 500 * time.Millisecond

// Examine examines the host with opts. The error is ctx's or a failure of bbprof; that the host cannot
// measure is in the report.
func Examine(ctx context.Context, sys System, opts profiler.Options) (Report, error) {
	if opts.Budget == 0 {
		opts.Budget = budget
	}
	opts.Detail = true // for the child's state
	x := &exam{ctx: ctx, sys: sys, opts: opts, began: sys.Now()}
	ticks := sys.Ticks()
	r := Report{Host: readHost(sys), OnCPU: -1}
	blocks, missing, err := x.repeat()
	if err != nil {
		return Report{}, err
	}
	r.OnCPU = x.onCPU(r.Host.CPUsAllowed)
	if r.Counters, err = sys.Counter(r.OnCPU); err != nil {
		return Report{}, err
	}
	r.Requirements = []Requirement{}
	if missing == nil {
		r.CanMeasure = true
		r.SpeculativeStoreBypass = x.last.Host.SpeculativeStoreBypass
		r.Evidence = x.evidence
		if r.Counters.Available {
			r.Events = x.last.Counters
		}
		r.Precision = precisionOf(blocks)
		if r.Requirements, err = x.requirements(r.Counters); err != nil {
			return Report{}, err
		}
		if r.Host.PageZero, err = x.pageZero(); err != nil {
			return Report{}, err
		}
		r.Clock = x.clock(float64(sys.Ticks() - ticks))
	}
	r.Busy = missing != nil && missing.Busy
	r.Shortcomings = shortcomings(r, missing)
	return r, nil
}

type exam struct {
	ctx   context.Context
	sys   System
	opts  profiler.Options
	began time.Time

	last      profiler.Result // the latest that was measured
	evidence  []invariants.Evidence
	rates     []float64 // ticks per cycle of all results
	disturbed int
}

const (
	// patience is the number of tries that may be disturbed before each further block gets a single try, so that a host
	// that is never idle does not take minutes.
	patience = 4
	enough   = 20 * time.Second
)

// measure profiles a block until it is measured or its tries are used up.
func (x *exam) measure(p pool.Profiler, block string) (r profiler.Result, err error) {
	code, err := hex.DecodeString(block)
	if err != nil {
		return r, err
	}
	tries := pool.Tries
	if x.disturbed > patience {
		tries = 1
	}
	r, n, err := pool.UpTo(x.ctx, p, profiler.Block{Code: code}, tries)
	if err == nil && r.Status == profiler.OK {
		n--
		x.last = r
		if r.Pages > 0 && len(x.evidence) == 0 { // a block that touches memory has all kinds of evidence
			x.evidence = r.Evidence
		}
		if r.Clock != nil && r.Clock.TicksPerCycle > 0 {
			x.rates = append(x.rates, r.Clock.TicksPerCycle)
		}
	}
	x.disturbed += n
	return r, err
}

func (x *exam) with(opts profiler.Options, f func(pool.Profiler) error) error {
	if x.sys.Now().Sub(x.began) > enough {
		return &verdict.HostError{Missing: "other work left no time to find it out"}
	}
	p, err := x.sys.Start(x.ctx, opts)
	if err != nil {
		return err
	}
	defer p.Close()
	return f(p)
}

func hostError(err error) (*verdict.HostError, error) {
	if h := (*verdict.HostError)(nil); errors.As(err, &h) {
		return h, nil
	}
	return nil, err
}

// onCPU is the CPU that blocks are, or would be, measured on.
func (x *exam) onCPU(allowed []int) int {
	switch {
	case x.last.Host != nil:
		return x.last.Host.OnCPU
	case len(x.opts.CPUs) > 0:
		return x.opts.CPUs[0]
	case len(allowed) > 0:
		fast := host.FastestKind(allowed)
		return fast[len(fast)-1]
	}
	return -1
}

func (x *exam) clock(ticks float64) *Clock {
	if x.last.Clock == nil {
		return nil
	}
	c := &Clock{ClockReport: *x.last.Clock}
	if took := x.sys.Now().Sub(x.began); took > 0 {
		c.TSCMegahertz = ticks / float64(took.Nanoseconds()) * 1e3
	}
	if len(x.rates) > 0 {
		c.RateLow, c.RateHigh = slices.Min(x.rates), slices.Max(x.rates)
	}
	return c
}
