package profiler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// session is a child with its clock. All of it belongs to one goroutine locked to its thread.
type session struct {
	opts  Options
	cpu   host.CPU
	inits []initial.State // to give blocks, in this order
	child *tracee.Tracee
	clock clock.Clock

	kernel pmu.Kernel
	pmu    pmu.PMU     // what the kernel counts
	asked  []pmu.Event // events that the user wants counted
	passes []pass      // none where time is the TSC's
	note   string      // to go with every result

	samplers   map[int]sampler // by the vector width in bits that they keep awake
	bursts     uint64          // entry of the code that times bursts of stores
	pace       uint64          // entry of the code that finds how many runs make a sample
	chains     []timedImage    // the clock's calibration chains
	fresh      uint64          // image that restores everything a block can disturb
	images     uint64          // where the block's images go
	turns      int             // of the sentinel's loop
	calmStores float64         // as quiet, of the sentinel's burst of stores; 0 if that does not tell here
	quiet      float64         // the sentinel's time in cycles on a core that nobody else uses
	report     ClockReport     // of the calibration
	rate       clockRate       // of late
	onCPU      int             // where thread and child run now
	yielded    time.Time       // when last
	past       tracee.Spent    // on children that are gone
}

// timedImage is what one phase of the sampler times.
type timedImage struct {
	entry uint64
	warm  int // runs before those that are timed, at least 1
	runs  int // timed at once; 0 are as many as the stay finds to last long enough
}

// sampler are the entries of the code that waits and that samples.
type sampler struct{ lull, sample uint64 }

func newSession(opts Options) (*session, error) {
	s := &session{opts: opts, cpu: host.Detect(), inits: initial.States(), onCPU: opts.CPUs[0]}
	if opts.Init != "" {
		i := slices.IndexFunc(s.inits, func(i initial.State) bool { return i.Name == opts.Init })
		if i < 0 {
			return nil, fmt.Errorf("no initial state is called %q", opts.Init)
		}
		s.inits = s.inits[i : i+1]
	}
	if opts.NoRescue {
		s.inits = s.inits[:1]
	}
	if err := s.pin(); err != nil {
		return nil, err
	}
	if err := s.chooseClock(); err != nil {
		return nil, err
	}
	if err := s.launch(); err != nil {
		if err = s.fallBack(err); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// pin binds the thread to the current CPU; children started later inherit that.
func (s *session) pin() error {
	err := host.PinThread(s.onCPU)
	if hostError := (*verdict.HostError)(nil); errors.As(err, &hostError) {
		return hostError
	}
	if err != nil {
		return &verdict.HostError{
			Missing: fmt.Sprintf("CPU %d is not ours to run on", s.onCPU),
			Remedy:  "choose one of the allowed CPUs with -cpu (taskset -pc $$ lists them)", Err: err,
		}
	}
	return nil
}

// relocate moves thread and child to the next of the CPUs that may be used, when somebody
// else keeps the current one busy, and asks the clock how fast the core there is.
func (s *session) relocate() error {
	at := slices.Index(s.opts.CPUs, s.onCPU)
	s.onCPU = s.opts.CPUs[(at+1)%len(s.opts.CPUs)]
	if err := s.pin(); err != nil {
		return err
	}
	if err := s.child.Bind(s.onCPU); err != nil {
		return err
	}
	return s.probeRate()
}

// probeRate learns the core's present speed without waiting for a quiet moment. What shares
// the core can only slow the chain, so the fast half of the samples is asked.
func (s *session) probeRate() error {
	chain := s.chains[0]
	got, err := s.stay(stayPlan{scenes: []scene{{nil, chain, chain, oneWindow}}, samples: 32, polls: 64, quiet: math.MaxUint32})
	if err != nil {
		return err
	}
	d := got.windows[0].floats(columnChains, columnChains+len(s.chains)-1)
	if rate := s.clock.FastRate(d); rate > 0 {
		s.rate = clockRate{ticks: rate}
	}
	return nil
}

func (s *session) close() { s.discard() }

// spent is what all children have cost so far.
func (s *session) spent() tracee.Spent {
	all := s.past
	if s.child != nil {
		now := s.child.Spent()
		all.Stops, all.Calls = all.Stops+now.Stops, all.Calls+now.Calls
	}
	return all
}

func (s *session) discard() {
	s.past = s.spent()
	if s.child != nil {
		s.child.Close()
		s.child = nil
	}
}

// launch starts a child and readies its clock.
func (s *session) launch() error {
	if err := s.start(); err != nil {
		return err
	}
	child := s.child
	child.SetWord(layout.SlotMXCSR, uint64(s.inits[0].MXCSR))
	child.SetWord(layout.DryRunMXCSR, uint64(s.inits[0].MXCSR))
	const flags = 0x202 // IF and the bit that is always 1 (SDM vol. 1, 3.4.3)
	child.SetWord(layout.SlotFlags, flags)
	child.SetWord(layout.DryRunFlags, flags)
	switch {
	case s.clock != nil: // a replacement: same machine, same clock
		return s.emit(s.clock)
	case s.counts():
		if err := s.emit(s.passes[0].clock); err != nil {
			return err
		}
		return s.checkCounter()
	}
	return s.calibrate()
}

// emit writes sampler, chains and the fresh image to the start of the code region.
func (s *session) emit(clock clock.Clock) error {
	s.clock = clock
	e := asm.NewEmitter(layout.Code)
	chains := clock.Chains()
	s.samplers = map[int]sampler{}
	for _, bits := range s.cpu.VectorBits() {
		s.samplers[bits] = sampler{
			lull:   harness.WaitIdle(e, clock.Emit, s.turns, bits, calmReadings, s.child.Resume()),
			sample: harness.Sampler(e, clock.Emit, len(chains)+2, s.turns, bits, s.child.Resume()),
		}
	}
	ticks := math.Ceil(math.Max(timingTicks, timingSteps*clock.Step()))
	s.bursts = harness.Bursts(e, clock.Emit, s.child.Resume())
	s.pace = harness.ChooseRuns(e, len(chains)+2, pacedRuns, int(ticks), maxRuns, s.child.Resume())
	for i := range s.passes {
		p := &s.passes[i]
		p.open, p.close = p.clock.Open(e, s.child.Resume()), p.clock.Close(e, s.child.Resume())
	}
	s.chains = s.chains[:0]
	for _, c := range chains {
		s.chains = append(s.chains, timedImage{c.Emit(e, clock.Emit), chainWarm, c.Runs()})
	}
	copy(s.child.Code(), e.Bytes())
	// Not zmm16–31 and the opmasks: no block that uses them can tell, its own prologue clears
	// them, and 512-bit operations slow 256-bit ones down for a millisecond afterwards.
	everything := harness.Reset{Vector: true, X87: true, MMX: true, MXCSR: true, Flags: true}
	fresh, err := unroll.Build(e.PC(), nil, 0, unroll.Harness{Init: s.inits[0], Reset: everything, Features: s.cpu.Features, Clock: clock.Emit})
	if err != nil {
		return err
	}
	copy(s.child.Code()[fresh.At-layout.Code:], fresh.Code)
	s.fresh, s.images = fresh.At, fresh.End()
	return nil
}

const (
	chainWarm          = 1
	calibrationSamples = 200
	calibrationLimit   = 10 * time.Second
	// The sentinel lasts at least so many steps of the clock, so that one step is not the
	// difference between quiet and busy.
	sentinelSteps = 30
	sentinelTurns = 64 // at least: about 1,000 cycles
	// A fenced clock reading takes up to so many cycles: 40 on Skylake, 50 on Zen 5.
	readingCycles = 60
)

// calibrate learns the clock's step, its rate, whether adds take a cycle, and how fast the
// sentinel is on a quiet core.
func (s *session) calibrate() error {
	s.turns = sentinelTurns
	if err := s.emit(clock.TSC{StepTicks: 1}); err != nil {
		return err
	}
	got, err := s.stay(calibrationPlan(s.multiplyChains(), math.MaxUint32))
	if err != nil {
		return err
	}
	began, ticks := time.Now(), s.child.Word(lastRun)
	w := got.windows[0]
	step := clock.StepOf(slices.Concat(w.columns...))
	if turns := s.turns * int(math.Ceil(sentinelSteps*step/stat.Median(floats(w.columns[0])))); turns > s.turns {
		s.turns = turns
	}
	if err := s.emit(clock.TSC{StepTicks: step}); err != nil {
		return err
	}
	if err := s.findQuiet(s.multiplyChains(), step); err != nil {
		return err
	}
	if err := s.findCalmStores(); err != nil {
		return err
	}
	s.report.TicksPerSecond = float64(s.child.Word(lastRun)-ticks) / time.Since(began).Seconds()
	return nil
}

// lastRun is where the clock at the end of the last run stands.
const lastRun = layout.Times + 8

// multiplyChains places the chains of the cross-check where blocks go later.
func (s *session) multiplyChains() [2]timedImage {
	var images [2]timedImage
	e := asm.NewEmitter(s.images)
	for i, c := range clock.MultiplyChains() {
		images[i] = timedImage{c.Emit(e, s.clock.Emit), chainWarm, c.Runs()}
	}
	copy(s.child.Code()[s.images-layout.Code:], e.Bytes())
	return images
}

func calibrationPlan(images [2]timedImage, quiet uint64) stayPlan {
	return stayPlan{scenes: []scene{{nil, images[0], images[1], oneWindow}}, samples: calibrationSamples, polls: 10 * calibrationSamples, quiet: quiet}
}

// findQuiet samples without a gate until the fastest sentinel readings form a mode that the
// core's width explains, and checks the multiply chain among the samples taken in that mode.
func (s *session) findQuiet(mul [2]timedImage, step float64) error {
	deadline := time.Now().Add(calibrationLimit)
	var latency float64
	for {
		got, err := s.stay(calibrationPlan(mul, math.MaxUint32))
		if err != nil {
			return err
		}
		w := got.windows[0]
		rate := got.rate(s.clock).Value
		if got.switches == 0 && !math.IsNaN(rate) {
			if quiet, ok := quietMode(w.columns[0], rate); ok && s.plausible(quiet) {
				s.quiet, s.rate = quiet, clockRate{ticks: rate}
				got, err := s.stay(calibrationPlan(mul, s.quietTicks()))
				if err != nil {
					return err
				}
				gated := got.windows[0]
				if gated.samples() >= calibrationSamples/4 {
					var ok bool
					rate := got.rate(s.clock).Value
					if latency, ok = clock.CheckMultiply(gated.floats(3, 4), rate); ok {
						s.rate = clockRate{ticks: rate}
						s.report = ClockReport{
							Name: s.clock.Name(), Method: s.clock.Describe(), StepTicks: step,
							TicksPerCycle: rate, MultiplyCycles: latency, SentinelQuiet: quiet,
						}
						return nil
					}
				}
			}
		}
		if time.Now().After(deadline) {
			return &verdict.HostError{
				Missing: fmt.Sprintf("CPU %d is not left alone for long enough to calibrate its clock (last multiply latency %.3f cycles, sentinel %.0f cycles)", s.onCPU, latency, s.quiet),
				Remedy:  "choose another CPU with -cpu, or keep other work off this core and its SMT sibling",
				Busy:    true,
			}
		}
		if err := s.relocate(); err != nil {
			return err
		}
	}
}

// quietMode is the fastest mode of the sentinel's readings, in cycles: the lowest value that
// has at least a twentieth of the readings within 2 % above it.
func quietMode(readings []uint64, rate float64) (cycles float64, ok bool) {
	s := slices.Clone(readings)
	slices.Sort(s)
	need := max(len(s)/20, 5)
	for i := 0; i+need <= len(s); i++ {
		if float64(s[i+need-1]) <= 1.02*float64(s[i]) {
			return stat.Median(floats(s[i:i+need])) / rate, true
		}
	}
	return 0, false
}

// findCalmStores learns how fast a burst of stores is on a core of which no other hardware thread is
// awake. Where most readings are not as fast as the fastest, it does not tell.
func (s *session) findCalmStores() error {
	s.calmStores = 0
	stop, err := s.child.Do([]tracee.Op{
		tracee.Put(layout.SlotOut, layout.Samples), tracee.Put(layout.SlotSamples, calibrationSamples), tracee.Run(s.bursts, 0),
	}, stayLimit)
	if err != nil {
		return err
	}
	if !stop.Done {
		return fmt.Errorf("signal %d, code %d at %#x in a burst of stores", stop.Signal, stop.Code, stop.Regs.RIP)
	}
	var readings []uint64
	for i := range uint64(calibrationSamples) {
		readings = append(readings, s.sampled(layout.Samples+8*i))
	}
	mode, ok := quietMode(readings, s.rate.ticks)
	if !ok {
		return nil
	}
	calm := 0
	for _, r := range readings {
		if r <= s.longest(mode) {
			calm++
		}
	}
	if calm >= calibrationSamples*3/4 {
		s.calmStores = mode
	}
	return nil
}

// plausible reports whether a sentinel time can be that of an unshared core: its adds and
// loop control at the full width, and not much more. On a core of unknown width anything
// passes.
func (s *session) plausible(quiet float64) bool {
	if s.cpu.AddsPerCycle == 0 {
		return true
	}
	ideal := float64(s.turns*(harness.ContentionAdds+2)) / s.cpu.AddsPerCycle
	return quiet <= 1.02*ideal+readingCycles
}

// quietTicks is the longest reading that still counts as quiet: 4 % and a step above.
func (s *session) quietTicks() uint64 { return s.longest(s.quiet) }

// calmStoresTicks is the same of the burst of stores, or 0.
func (s *session) calmStoresTicks() uint64 {
	if s.calmStores == 0 {
		return 0
	}
	return s.longest(s.calmStores)
}

func (s *session) longest(cycles float64) uint64 {
	return uint64(cycles*s.rate.ticks*1.04 + s.clock.Step())
}
