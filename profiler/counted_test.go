package profiler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Blocks timed by a simulated PMU: a scripted kernel offers events, the child runs the counting
// code with rdtsc instead of rdpmc, and a script supplies the counts.

// script simulates a CPU on which each iteration takes a number of cycles and no other event
// occurs; also may change the counts.
func script(cycles uint64, also func(events pmu.Pass, iterations int, t *timing.Readings)) *timing.Script {
	return &timing.Script{
		Block: func(events pmu.Pass, iterations int, t *timing.Readings) {
			t.Say(137 + uint64(iterations)*cycles)
			if also != nil {
				also(events, iterations, t)
			}
		},
		Chain: timing.Chains(1),
	}
}

// counts sets each sample of an event to f of the image's iterations and the sample's number.
func counts(f func(e pmu.Event, iterations, sample int) uint64) func(pmu.Pass, int, *timing.Readings) {
	return func(events pmu.Pass, iterations int, r *timing.Readings) {
		for k, e := range events {
			for j := range r.Counts[k] {
				r.Counts[k][j] += f(e, iterations, j)
			}
		}
	}
}

// add is add rax, rax.
var add = []byte{0x48, 0x01, 0xc0}

var scriptedCPU = pmu.CPU{ID: cpu.ID{Vendor: "GenuineIntel", Family: 6, Model: 0x55}}

// scriptedOptions returns the options of a profiler on a scripted machine.
type scriptedOptions struct {
	Options
	machine simulated.Machine
}

func scripted(k *pmutest.Kernel, s *timing.Script) scriptedOptions {
	return scriptedOptions{Options{Clock: PerfClock}, simulated.Machine{Kernel: k, CPU: &scriptedCPU, Script: s}}
}

func (o scriptedOptions) open() (*Profiler, error) {
	return newProfiler(context.Background(), o.Options, o.machine)
}

func profileScripted(t *testing.T, o scriptedOptions, block string) Result {
	t.Helper()
	return profileScriptedOn(t, o, func(*session) {}, Block{Code: unhex(t, block)})
}

// profileScriptedOn is profileScripted on a modified core.
func profileScriptedOn(t *testing.T, o scriptedOptions, set func(*session), block Block) Result {
	t.Helper()
	p, err := o.open()
	var host *verdict.HostError
	if errors.As(err, &host) && strings.Contains(host.Missing, "CPU") {
		require.Measure(t, err)
	}
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.onThread(t.Context(), set))
	for try := 0; ; try++ {
		r := require.Get(p.Profile(context.Background(), block))(t)
		if r.Reason != verdict.Timeout || try == 5 { // the machine may have stood still
			return r
		}
	}
}

func evidenceOf(t *testing.T, r Result, reason verdict.Reason) invariants.Evidence {
	t.Helper()
	for _, e := range r.Evidence {
		if e.Invariant == reason {
			return e
		}
	}
	t.Fatalf("no evidence of %s in %+v", reason, r.Evidence)
	return invariants.Evidence{}
}

const loadAndStore = "488b03488907" // mov rax, [rbx]; mov [rdi], rax

func TestSimulatedSuccess(t *testing.T) {
	k := pmutest.New(8)
	r := profileScripted(t, scripted(k, script(1, nil)), "4801c0")
	if r.Status != OK || r.Cycles != 1 || r.CIHigh-r.CILow > 0.02 || r.Clock == nil || r.Clock.Name != "perf" {
		t.Fatalf("%+v", r)
	}
	for _, reason := range []verdict.Reason{verdict.L1DMiss, verdict.L1IMiss, verdict.Misaligned, verdict.Alias4K, verdict.ContextSwitch} {
		if e := evidenceOf(t, r, reason); e.Kind != invariants.Counted {
			t.Errorf("%+v", e)
		}
	}
	if len(r.Counters) != len(pmu.Roles())-1 || r.Core != "skylake" {
		t.Errorf("%q, %+v", r.Core, r.Counters)
	}
	for _, c := range r.Counters {
		if c.Kind != invariants.Counted || c.PerIteration == nil || *c.PerIteration != 0 || c.Reader != "rdpmc" || c.Why != "" {
			t.Errorf("%+v", c)
		}
	}
}

func TestSimulatedTooFewCountersTakePasses(t *testing.T) {
	seen := map[string]int{}
	o := scripted(pmutest.New(3), script(1, func(events pmu.Pass, _ int, _ *timing.Readings) {
		if len(events) > 4 {
			t.Errorf("%v at a time", events)
		}
		for _, e := range events {
			seen[string(e.Role)]++
		}
	}))
	r := profileScripted(t, o, "4801c0")
	if r.Status != OK || r.Cycles != 1 || r.WindowsKept != timing.Layouts/2 {
		t.Fatalf("%+v", r) // each window's cycles are taken once, whatever the number of passes
	}
	for _, role := range pmu.Roles() {
		if seen[string(role)] == 0 {
			t.Errorf("%s was never counted", role)
		}
	}
	for _, c := range r.Counters {
		if c.Kind != invariants.Counted {
			t.Errorf("%+v", c)
		}
	}
}

// A missing event is unchecked in the result and in its JSON, never zero, and does not upgrade
// evidence.
func TestSimulatedMissingEventIsUnchecked(t *testing.T) {
	k := pmutest.New(8)
	k.Opens = func(a pmu.Attr) error {
		if a.Config == 0xe224 { // L2_RQSTS.ALL_RFO
			return syscall.ENOENT
		}
		return nil
	}
	r := profileScripted(t, scripted(k, script(1, nil)), loadAndStore)
	if r.Status != OK {
		t.Fatalf("%+v", r)
	}
	text := require.Get(json.Marshal(r))(t)
	var parsed struct{ Counters []map[string]any }
	require.NoError(t, json.Unmarshal(text, &parsed))
	for _, c := range parsed.Counters {
		_, counted := c["per_iteration"]
		if missing := c["role"] == "l1d_write_miss"; missing == counted || missing != (c["kind"] == "unchecked") || missing != (c["why"] != nil) {
			t.Errorf("%v", c)
		}
	}
	if e := evidenceOf(t, r, verdict.L1DMiss); e.Kind != invariants.Inferred || !strings.Contains(e.Detail, "l1d_write_miss unchecked") {
		t.Errorf("%+v", e)
	}
	if e := evidenceOf(t, r, verdict.L1IMiss); e.Kind != invariants.Counted {
		t.Errorf("%+v", e)
	}
}

// Misses in some timings: 8 clean timings suffice, 7 do not. A tolerated reason is also tolerated if the CPU counts it.
func TestSimulatedMissesInSomeTimings(t *testing.T) {
	const all = timing.PaperTimings
	for _, c := range []struct {
		role  pmu.Role
		dirty int // samples that have two misses, which take time; all: one an iteration
		least int
		want  verdict.Reason
	}{
		{pmu.L1DReadMiss, 8, 0, ""},
		{pmu.L1DReadMiss, 9, 0, verdict.L1DMiss},
		{pmu.L1DReadMiss, 9, 7, ""},
		{pmu.L1DReadMiss, 10, 7, verdict.L1DMiss},
		{pmu.L1IMiss, 8, 0, ""},
		{pmu.L1IMiss, 9, 0, verdict.L1IMiss},
		{pmu.SplitLoad, 9, 0, verdict.Misaligned},
		{pmu.SplitStore, 9, 0, verdict.Misaligned},
		{pmu.L1DWriteMiss, all, 0, ""}, // of Skylake's event more is no proof
		{pmu.AddressAlias, all, 0, ""}, // the trace is the judge
	} {
		o := scripted(pmutest.New(8), script(1, counts(func(e pmu.Event, iterations, j int) uint64 {
			switch {
			case c.dirty == all && e.Role == c.role:
				return uint64(iterations)
			case c.dirty == all || j >= c.dirty:
				return 0
			case e.Role == c.role:
				return 2
			case e.Role == pmu.Cycles:
				return uint64(j)
			}
			return 0
		})))
		o.Identical = c.least
		r := profileScripted(t, o, "4801c0")
		if r.Reason != c.want || (c.want == "") != (r.Status == OK) {
			t.Errorf("%s in %d timings, %d needed: %s %q, want %q", c.role, c.dirty, c.least, r.Status, r.Reason, c.want)
		}
		for reason, rs := range requiredRoles {
			if c.dirty == all && slices.Contains(rs, c.role) {
				if e := evidenceOf(t, r, reason); e.Kind != invariants.Inferred || !strings.Contains(e.Detail, "1 per iteration") {
					t.Errorf("%s: %+v", c.role, e)
				}
			}
		}
	}
	splits := script(1, counts(func(e pmu.Event, iterations, _ int) uint64 {
		if e.Role == pmu.SplitLoad {
			return uint64(iterations)
		}
		return 0
	}))
	paper := initial.Paper()
	for tolerated, want := range map[verdict.Reason]verdict.Reason{verdict.Misaligned: "", verdict.L1DMiss: verdict.Misaligned} {
		block := Block{unhex(t, "488b433c"), Setup{Init: &paper, Tolerate: []verdict.Reason{tolerated}}} // mov rax, [rbx+0x3c]
		r := profileScriptedOn(t, scripted(pmutest.New(8), splits), func(*session) {}, block)
		at := slices.IndexFunc(r.Counters, func(c CounterReport) bool { return c.Role == string(pmu.SplitLoad) })
		if r.Reason != want || want == "" && (at < 0 || r.Counters[at].PerIteration == nil || *r.Counters[at].PerIteration != 1) {
			t.Errorf("%s tolerated: %q, want %q; %+v", tolerated, r.Reason, want, r.Counters)
		}
	}
}

func TestSimulatedContextSwitches(t *testing.T) {
	// Some child runs see one and are repeated.
	n := 0
	r := profileScripted(t, scripted(pmutest.New(8), script(1, func(_ pmu.Pass, _ int, t *timing.Readings) {
		if n++; n%3 == 0 {
			t.Switches, t.Lost = 1, 2
			for j := range t.Counts[0] {
				t.Counts[0][j] = 1 << 50 // the counters were another's meanwhile
			}
		}
	})), "4801c0")
	if r.Status != OK || r.Cycles != 1 || r.WindowsSwitched == 0 {
		t.Errorf("%+v", r)
	}
	// All of them do.
	o := scripted(pmutest.New(8), script(1, func(_ pmu.Pass, _ int, t *timing.Readings) { t.Switches = 1 }))
	o.Budget = 50_000_000
	if r := profileScripted(t, o, "4801c0"); r.Reason != verdict.ContextSwitch {
		t.Errorf("%q: %+v", r.Reason, r.Rejection)
	}
}

// After repeated context switches the timer moves to the next CPU.
func TestSimulatedBusyCPU(t *testing.T) {
	all, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		require.Skip(t, require.CPU, "there is one CPU")
	}
	var p *Profiler
	o := scripted(pmutest.New(8), script(1, func(_ pmu.Pass, _ int, t *timing.Readings) {
		if p != nil && p.session.cpus.Current() == all[0] {
			t.Switches = 1
		}
	}))
	o.CPUs, o.Detail = all[:2], true
	if p, err = o.open(); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Profile(context.Background(), Block{Code: add})
	if err != nil || r.Status != OK || r.WindowsSwitched == 0 || r.Host.OnCPU != all[1] {
		t.Errorf("%v, %+v", err, r)
	}
}

// A temporary disturbance does not fail the check of the cycle counter: it passes on another CPU, or a little later.
func TestSimulatedDisturbedCheck(t *testing.T) {
	all := require.Get(host.AllowedCPUs())(t)
	chains := len(clock.Chains(false)) + len(clock.Chains(true))
	tried, began := 0, time.Time{}
	for _, c := range []struct {
		name      string
		cpus      int
		disturbed func() bool
	}{
		{"two CPUs", 2, func() bool { return tried <= chains }}, // in the first try
		{"one CPU", 1, func() bool { return time.Since(began) < 15*time.Millisecond }},
	} {
		if len(all) < c.cpus {
			continue
		}
		s := script(1, nil)
		s.Chain = func(chain clock.Chain, r *timing.Readings) {
			if tried++; tried == 1 {
				began = time.Now()
			}
			timing.Chains(1)(chain, r)
			if c.disturbed() {
				timing.Chains(3)(chain, r)
			}
		}
		o := scripted(pmutest.New(8), s)
		o.CPUs = all[:c.cpus]
		tried = 0
		p, err := o.open()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		require.Equal(t, c.name, all[c.cpus-1], p.session.cpus.Current())
		p.Close()
	}
}

// Counters that another user takes, or events without a counter, are not the block's fault and end the run, since every other block would fail
// too. With the TSC as clock, a block's cycles do not depend on them.
func TestSimulatedTakenCounters(t *testing.T) {
	for _, c := range []struct {
		clock ClockChoice
		lost  uint64  // events on no counter
		share float64 // of the time on a counter
	}{{PerfClock, 1, 1}, {PerfClock, 0, 0.5}, {TSCClock, 0, 0.5}} {
		k := pmutest.New(8)
		measuring := false
		o := scripted(k, script(1, func(_ pmu.Pass, _ int, r *timing.Readings) {
			if measuring {
				r.Lost = c.lost
			}
		}))
		o.Clock = c.clock
		p, err := o.open()
		require.Measure(t, err)
		measuring, k.Share = true, func(int) float64 { return c.share }
		r, err := p.Profile(require.Context(t), Block{Code: add})
		p.Close()
		if c.clock == PerfClock {
			if host, ok := errors.AsType[*verdict.HostError](err); !ok || !strings.Contains(host.Missing, "lost their counters") || host.Remedy == "" {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || r.Status == Rejected {
			require.Measure(t, cmp.Or(err, error(r.Rejection)))
		}
		if e := evidenceOf(t, r, verdict.L1DMiss); r.Status != OK || e.Kind != invariants.Inferred ||
			!strings.Contains(e.Detail, "somebody else had the counters") {
			t.Errorf("%+v: %+v, %+v", c, r, e)
		}
	}
}

// A clock that is not available: an error if the user chose it, else the TSC.
func TestSimulatedClockChoice(t *testing.T) {
	for name, c := range map[string]struct {
		kernel *pmutest.Kernel
		cycles *timing.Script
		clue   string
	}{
		"perf_event_paranoid 3": {pmutest.New(8).Paranoid(3), script(1, nil), "perf_event_paranoid is 3"},
		"no PMU":                {&pmutest.Kernel{Refuse: syscall.ENOENT}, script(1, nil), "offers no hardware counters"},
		"rdpmc forbidden": {func() *pmutest.Kernel {
			k := pmutest.New(8)
			k.RDPMC = false
			return k
		}(), script(1, nil), "may not read"},
		"watchdog on the only counter": {pmutest.New(0).Watchdog(), script(1, nil), "watchdog"},
		"garbage":                      {pmutest.New(8), &timing.Script{Chain: timing.Chains(2)}, "does not count those"},
	} {
		o := scripted(c.kernel, c.cycles)
		p, err := o.open()
		if err == nil {
			p.Close()
		}
		var host *verdict.HostError
		if !errors.As(err, &host) || !strings.Contains(err.Error(), c.clue) || host.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
		o.Clock = AutoClock
		p, err = o.open()
		require.Host(t, err) // this core is never idle
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, err := p.Profile(context.Background(), Block{Code: add})
		p.Close()
		if err != nil || r.Status == OK && r.Clock.Name != "tsc" {
			t.Errorf("%s: %v, %+v", name, err, r.Clock)
		}
		if noted := strings.Contains(fmt.Sprint(r.Warnings), "does not count those"); r.Status == OK && noted != (name == "garbage") {
			t.Errorf("%s: warnings %q", name, r.Warnings)
		}
	}
}

// The loop, the check of the midpoint and blocks that access memory use counters like unrolled
// copies.
func TestSimulatedLoop(t *testing.T) {
	o := scripted(pmutest.New(4), script(2, nil))
	o.Mode = Both
	r := profileScripted(t, o, loadAndStore)
	if r.Status != OK || r.Cycles != 2 || r.LoopCycles != 2 {
		t.Errorf("%+v", r)
	}
}

// TestSimulatedLoopIfFed: a loop is measured beside copies in a row where stores feed loads; the result names what a loop in a program takes, and
// keeps the row of a block whose loop fails.
func TestSimulatedLoopIfFed(t *testing.T) {
	const stores = "488903488b4b08" // and loads something else
	row := unroll.Factors{Short: 64, Long: 128}
	for _, c := range []struct {
		name, block string
		asks, mode  Mode
		loop        uint64 // cycles in a loop, where there are more iterations than copies in a row
		fails       bool
		cycles      float64 // in a loop
		take        string
	}{
		{"a faster loop", loadAndStore, "", Both, 2, false, 2, LoopColumn},
		{"a slower loop", loadAndStore, "", Both, 8, false, 8, LoopColumn},
		{"no other loop", loadAndStore, "", Both, 6, false, 6, CyclesColumn},
		{"no load is fed", stores, "", Unroll, 2, false, 0, CyclesColumn},
		{"nor if both are asked for", stores, Both, Both, 2, false, 2, CyclesColumn},
		{"only a loop is asked for", loadAndStore, Loop, Loop, 2, false, 0, CyclesColumn},
		{"the loop fails", loadAndStore, "", Unroll, 2, true, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := scripted(pmutest.New(4), script(6, func(_ pmu.Pass, iterations int, t *timing.Readings) {
				switch n := uint64(iterations); {
				case iterations <= row.Long:
				case c.fails:
					t.Say(n * n)
				default:
					t.Say(137 + n*c.loop)
				}
			}))
			o.Mode, o.LoopIfFed, o.Unroll = c.asks, c.asks == "", &row
			r := profileScripted(t, o, c.block)
			why := strings.Contains(fmt.Sprint(r.Warnings), "the loop was not measured: nonlinear")
			if r.Status != OK || r.Cycles != 6 || r.LoopCycles != c.cycles || r.LoopsTake != c.take || r.Mode != c.mode || why != c.fails {
				t.Errorf("%v: %g cycles, in a loop %g; mode %s, loops take %q; %q", r.Err(), r.Cycles, r.LoopCycles, r.Mode, r.LoopsTake, r.Warnings)
			}
		})
	}
	o := scripted(pmutest.New(4), script(6, nil))
	if r := profileScripted(t, o, loadAndStore); r.LoopsTake != "" || r.LoopCycles != 0 || r.Mode != Unroll {
		t.Errorf("only a row is asked for: loops take %q, %+v", r.LoopsTake, r)
	}
}

// The child runs the counting code with rdtsc: no reading stands still, and the longer image takes longer, for 192 and 768 cycles of copies and
// as much for either what is around them.
func TestCountedCodeRunsHere(t *testing.T) {
	ticks := map[int]uint64{} // the least of a run, by iterations
	o := scripted(pmutest.New(8), script(1, nil))
	o.machine.Script.Block = func(_ pmu.Pass, iterations int, r *timing.Readings) {
		if r.Switches == 0 {
			if r.Lost != 0 || slices.ContainsFunc(r.Counts, func(column []uint64) bool { return slices.Contains(column, 0) }) {
				t.Errorf("a counter stood still, or an event was lost: %+v", r)
			}
			ticks[iterations] = min(cmp.Or(ticks[iterations], math.MaxUint64), slices.Min(r.Counts[0]))
		}
		r.Say(100 + uint64(iterations))
	}
	o.Unroll = &unroll.Factors{Short: 64, Long: 256}
	r := profileScripted(t, o, "480fafc0") // imul rax, rax
	if short, long := float64(ticks[64]), float64(ticks[256]); r.Status != OK || short == 0 || long < 1.3*short {
		t.Errorf("%s, %g ticks for the shorter image and %g for the longer", r.Status, short, long)
	}
}

// If user mode may not execute rdpmc, the TSC is the clock, and the monitor reads the counts of
// the child's runs.
func TestSimulatedReadFallback(t *testing.T) {
	for _, c := range []struct {
		name       string
		perRun     [2]uint64 // L1I misses in a run of the shorter and of the longer image
		want       verdict.Reason
		kind       invariants.Kind
		everyCount uint64 // of other events
		tolerate   []verdict.Reason
	}{
		{"none", [2]uint64{0, 0}, "", invariants.Counted, 0, nil},
		{"as many around the copies", [2]uint64{3, 3}, "", invariants.Inferred, 0, nil},
		{"one for every other run of the longer image", [2]uint64{0, 1}, verdict.L1IMiss, "", 0, nil},
		{"the same, tolerated", [2]uint64{0, 1}, "", invariants.Inferred, 0, []verdict.Reason{verdict.L1IMiss}},
	} {
		k := pmutest.New(8)
		k.RDPMC = false
		reads := 0
		k.Counts = func(a pmu.Attr) uint64 {
			switch {
			case a.Type == pmu.TypeHardware:
				reads++ // core cycles come first in each group
				return 1000
			case a.Config == 0x0283: // ICACHE_64B.IFTAG_MISS
				return c.perRun[(reads+1)%2] * 256 // runs between two reads
			}
			return c.everyCount
		}
		p, err := newProfiler(t.Context(), Options{}, simulated.Machine{Kernel: k, CPU: &scriptedCPU, Script: &timing.Script{}})
		require.Measure(t, err)
		reads = 0
		r, err := p.Profile(context.Background(), Block{Code: add, Setup: Setup{Tolerate: c.tolerate}})
		p.Close()
		require.NoError(t, err)
		if k.Left() != 0 {
			t.Errorf("%s: %d events left open", c.name, k.Left())
		}
		if r.Reason.Noise() {
			require.Measure(t, r.Rejection) // others use this core
		}
		if r.Reason != c.want {
			t.Errorf("%s: %q, want %q", c.name, r.Reason, c.want)
		}
		if c.want != "" {
			continue
		}
		if r.Clock.Name != "tsc" {
			t.Errorf("%s: %+v", c.name, r.Clock)
		}
		if e := evidenceOf(t, r, verdict.L1IMiss); e.Kind != c.kind {
			t.Errorf("%s: %+v", c.name, e)
		}
		for _, report := range r.Counters {
			if report.Kind != invariants.Counted || report.Reader != "read" || report.PerIteration == nil {
				t.Errorf("%s: %+v", c.name, report)
			}
		}
	}
}

// Software events are counted on every kernel.
func TestSoftwareEventsHere(t *testing.T) {
	p, err := New(t.Context(), Options{Clock: TSCClock, Events: []string{"task-clock", "page-faults"}})
	require.Measure(t, err)
	defer p.Close()
	before := openFiles(t)
	r, err := p.Profile(context.Background(), Block{Code: []byte{0x48, 0x0f, 0xaf, 0xc0}}) // imul: 3 cycles
	require.NoError(t, err)
	if now := openFiles(t); now != before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
	if r.Status == Rejected {
		require.Measure(t, r.Rejection)
	}
	got := map[string]CounterReport{}
	for _, c := range r.Counters {
		if c.PerIteration != nil {
			got[c.Event] = c
		}
	}
	// Between 1 and 10 GHz.
	if c := got["task-clock"]; c.PerIteration == nil || *c.PerIteration < 0.3 || *c.PerIteration > 3 {
		t.Errorf("%+v ns of CPU time per iteration", c)
	}
	if c := got["page-faults"]; c.PerIteration == nil || *c.PerIteration != 0 || c.Reader != "read" {
		t.Errorf("%+v", c)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	return len(fds)
}
