package profiler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

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

// Blocks timed by a simulated PMU: the child runs rdtsc for rdpmc, and a script supplies the counts.

// script simulates a CPU on which an iteration takes some cycles and nothing else occurs; also may change the counts.
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

// profile measures a block on the scripted machine, whose core the functions may modify.
func (o scriptedOptions) profile(t *testing.T, block string, modify ...func(*session)) Result {
	t.Helper()
	return o.profileIn(t, block, Setup{}, modify...)
}

func (o scriptedOptions) profileIn(t *testing.T, block string, setup Setup, modify ...func(*session)) Result {
	t.Helper()
	p, err := o.open()
	var host *verdict.HostError
	if o.Clock != PerfClock || errors.As(err, &host) && strings.Contains(host.Missing, "CPU") {
		require.Measure(t, err)
	}
	require.NoError(t, err)
	defer p.Close()
	for _, f := range modify {
		require.NoError(t, p.onThread(t.Context(), f))
	}
	for try := 0; ; try++ {
		r := require.Get(p.Profile(require.Context(t), Block{require.Hex(t, block), setup}))(t)
		if r.Reason.Noise() && o.Clock != PerfClock {
			require.Measure(t, r.Rejection) // others use this core
		}
		if r.Reason != verdict.Timeout || try == 5 { // the machine may have stood still
			return r
		}
	}
}

// lying returns a script on which one kind of event counts wrongly.
func lying(role pmu.Role, lie func(must float64) float64) *timing.Script {
	s := script(1, nil)
	s.Lie = func(e pmu.Event, must float64) float64 {
		if e.Role == role {
			return lie(must)
		}
		return must
	}
	return s
}

// doubtsOnly checks that the event of one role is unchecked, for a reason ("": it is not), and all others are counted.
func doubtsOnly(t *testing.T, r Result, role pmu.Role, says string) {
	t.Helper()
	if r.Status != OK {
		t.Fatalf("%s that says %q: %+v", role, says, r)
	}
	for _, c := range r.Counters {
		doubted := c.Role == string(role) && says != ""
		if doubted != (c.Kind == invariants.Unchecked) || doubted != (c.PerIteration == nil) || doubted != (c.Why != "") ||
			doubted && !strings.Contains(c.Why, says) {
			t.Errorf("%s: %+v, want it to say %q", role, c, says)
		}
	}
	for reason, served := range requiredRoles {
		kind, detail := invariants.Counted, ""
		if says != "" && slices.Contains(served, role) {
			kind, detail = invariants.Inferred, says
		}
		hasEvidence(t, role, r, reason, kind, detail)
	}
}

// hasEvidence checks the kind of an invariant's evidence, and that its detail has a text.
func hasEvidence(t *testing.T, what any, r Result, reason verdict.Reason, kind invariants.Kind, says string) {
	t.Helper()
	i := slices.IndexFunc(r.Evidence, func(e invariants.Evidence) bool { return e.Invariant == reason })
	if i < 0 || r.Evidence[i].Kind != kind || !strings.Contains(r.Evidence[i].Detail, says) {
		t.Errorf("%v: want evidence of %s to be %s, with %q: %v, %+v", what, reason, kind, says, r.Rejection, r.Evidence)
	}
}

const (
	add          = "4801c0"       // add rax, rax
	loadAndStore = "488b03488907" // mov rax, [rbx]; mov [rdi], rax
)

// about reports whether cycles are the scripted ones, but for half of what the branch of a loop that is one code may take.
func about(got, want float64) bool { return math.Abs(got-want) <= 0.002*want }

// Few counters take several passes, and each window's cycles are taken once, whatever their number.
func TestSimulatedSuccess(t *testing.T) {
	for _, counters := range []int{3, 8} {
		seen := map[pmu.Role]bool{}
		r := scripted(pmutest.New(counters), script(1, func(events pmu.Pass, _ int, _ *timing.Readings) {
			if len(events) > counters+1 {
				t.Errorf("%v at a time", events)
			}
			for _, e := range events {
				seen[e.Role] = true
			}
		})).profile(t, add)
		if r.Status != OK || !about(r.Cycles, 1) || r.CIHigh-r.CILow > 0.02 || r.Clock.Name != "perf" || r.WindowsKept != timing.Layouts/2 {
			t.Fatalf("%d counters: %+v", counters, r)
		}
		doubtsOnly(t, r, "", "")
		hasEvidence(t, counters, r, verdict.ContextSwitch, invariants.Counted, "")
		const roles = 7 // of the table of events
		if len(seen) != roles || len(r.Counters) != len(seen)-1 || r.Core != "skylake" {
			t.Errorf("%d counters: %q, %v, %+v", counters, r.Core, seen, r.Counters)
		}
		for _, c := range r.Counters {
			if c.PerIteration == nil || *c.PerIteration != 0 || c.Reader != "rdpmc" {
				t.Errorf("%d counters: %+v", counters, c)
			}
		}
	}
}

// Misses in some timings: 8 clean timings suffice, 7 do not. A tolerated reason is also tolerated if the CPU counts it.
func TestSimulatedMissesInSomeTimings(t *testing.T) {
	const all = timing.PaperTimings
	const split = "488b433c" // mov rax, [rbx+0x3c]
	for _, c := range []struct {
		role     pmu.Role
		dirty    int // samples that have two misses, which take time; all: one an iteration
		least    int
		tolerate verdict.Reason
		want     verdict.Reason
	}{
		{pmu.L1DReadMiss, 8, 0, "", ""},
		{pmu.L1DReadMiss, 9, 0, "", verdict.L1DMiss},
		{pmu.L1DReadMiss, 9, 7, "", ""},
		{pmu.L1DReadMiss, 10, 7, "", verdict.L1DMiss},
		{pmu.L1IMiss, 8, 0, "", ""},
		{pmu.L1IMiss, 9, 0, "", verdict.L1IMiss},
		{pmu.SplitLoad, 9, 0, "", verdict.Misaligned},
		{pmu.SplitStore, 9, 0, "", verdict.Misaligned},
		{pmu.L1DWriteMiss, all, 0, "", ""}, // of Skylake's event more is no proof
		{pmu.AddressAlias, all, 0, "", ""}, // the trace is the judge
		{pmu.SplitLoad, all, 0, verdict.Misaligned, ""},
		{pmu.SplitLoad, all, 0, verdict.L1DMiss, verdict.Misaligned},
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
		block, setup := add, Setup{}
		if c.tolerate != "" {
			paper := initial.Paper()
			block, setup = split, Setup{Init: &paper, Tolerate: []verdict.Reason{c.tolerate}}
		}
		r := o.profileIn(t, block, setup)
		if r.Reason != c.want || (c.want == "") != (r.Status == OK) {
			t.Errorf("%+v: %s %q", c, r.Status, r.Reason)
		}
		if c.dirty < all || c.want != "" {
			continue
		}
		if at := slices.IndexFunc(r.Counters, func(x CounterReport) bool { return x.Role == string(c.role) }); *r.Counters[at].PerIteration != 1 {
			t.Errorf("%+v: %+v", c, r.Counters)
		}
		for reason, roles := range requiredRoles {
			if c.tolerate == "" && slices.Contains(roles, c.role) {
				hasEvidence(t, c, r, reason, invariants.Inferred, "1 per iteration")
			}
		}
	}
}

func TestSimulatedContextSwitches(t *testing.T) {
	// Some child runs see one and are repeated.
	n := 0
	r := scripted(pmutest.New(8), script(1, func(_ pmu.Pass, _ int, t *timing.Readings) {
		if n++; n%3 == 0 {
			t.Switches, t.Lost = 1, 2
			for j := range t.Counts[0] {
				t.Counts[0][j] = 1 << 50 // the counters were another's meanwhile
			}
		}
	})).profile(t, add)
	if r.Status != OK || !about(r.Cycles, 1) || r.WindowsSwitched == 0 {
		t.Errorf("%+v", r)
	}
	// All of them do.
	o := scripted(pmutest.New(8), script(1, func(_ pmu.Pass, _ int, t *timing.Readings) { t.Switches = 1 }))
	o.Budget = 50 * time.Millisecond
	if r := o.profile(t, add); r.Reason != verdict.ContextSwitch {
		t.Errorf("%q: %+v", r.Reason, r.Rejection)
	}
	// All on the first CPU do: then the next is used.
	cpus := require.Get(host.AllowedCPUs())(t)
	if len(cpus) < 2 {
		require.Skip(t, require.CPU, "there is one CPU")
	}
	var on *session
	o = scripted(pmutest.New(8), script(1, func(_ pmu.Pass, _ int, t *timing.Readings) {
		if on != nil && on.cpus.Current() == cpus[0] {
			t.Switches = 1
		}
	}))
	o.CPUs, o.Detail = cpus[:2], true
	if r := o.profile(t, add, func(s *session) { on = s }); r.Status != OK || r.WindowsSwitched == 0 || r.Host.OnCPU != cpus[1] {
		t.Errorf("%+v", r)
	}
}

// A temporary disturbance does not fail the check of the cycle counter: it passes on another CPU, or a little later.
func TestSimulatedDisturbedCheck(t *testing.T) {
	all := require.Get(host.AllowedCPUs())(t)
	chains := len(clock.Chains(false)) + len(clock.Chains(true))
	for cpus := 1; cpus <= min(len(all), 2); cpus++ {
		tried, began := 0, time.Time{}
		s := script(1, nil)
		s.Chain = func(chain clock.Chain, r *timing.Readings) {
			if tried++; tried == 1 {
				began = time.Now()
			}
			timing.Chains(1)(chain, r)
			if cpus == 2 && tried <= chains || cpus == 1 && time.Since(began) < 15*time.Millisecond {
				timing.Chains(3)(chain, r)
			}
		}
		o := scripted(pmutest.New(8), s)
		o.CPUs = all[:cpus]
		p := require.Get(o.open())(t)
		require.Equal(t, cpus, all[cpus-1], p.session.cpus.Current())
		p.Close()
	}
}

// Counters that another user takes, or events without a counter, are not the block's fault and end the run, since
// every other block would fail too. With the TSC as clock, a block's cycles do not depend on them.
func TestSimulatedTakenCounters(t *testing.T) {
	for name, take := range map[string]func(k *pmutest.Kernel, r *timing.Readings){
		"an event on no counter":           func(_ *pmutest.Kernel, r *timing.Readings) { r.Lost = 1 },
		"counters for half of the time":    func(k *pmutest.Kernel, _ *timing.Readings) { k.Share = half },
		"the same, while they are checked": nil,
	} {
		k, measuring := pmutest.New(8), false
		s := script(1, func(_ pmu.Pass, _ int, r *timing.Readings) {
			if measuring {
				take(k, r)
			}
		})
		if take == nil {
			s.Lie = func(_ pmu.Event, must float64) float64 {
				k.Share = half
				return must
			}
		}
		p, err := scripted(k, s).open()
		if measuring = take != nil; measuring {
			require.Measure(t, err)
			_, err = p.Profile(t.Context(), Block{Code: []byte{0x90}})
			p.Close()
		}
		if host, ok := errors.AsType[*verdict.HostError](err); !ok || !strings.Contains(host.Missing, "lost their counters") || host.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	k := pmutest.New(8)
	o := scripted(k, script(1, nil))
	o.Clock = TSCClock
	r := o.profile(t, add, func(*session) { k.Share = half })
	hasEvidence(t, "by the TSC", r, verdict.L1DMiss, invariants.Inferred, "somebody else had the counters")
}

// half is the share of the time for which events are on a counter.
func half(int) float64 { return 0.5 }

// A clock that is not available: an error if the user chose it, else the TSC.
func TestSimulatedClockChoice(t *testing.T) {
	noRDPMC := pmutest.New(8)
	noRDPMC.RDPMC = false
	for _, c := range []struct {
		name   string
		kernel *pmutest.Kernel
		clue   string
	}{
		{"perf_event_paranoid 3", pmutest.New(8).Paranoid(3), "perf_event_paranoid is 3"},
		{"no PMU", &pmutest.Kernel{Refuse: syscall.ENOENT}, "offers no hardware counters"},
		{"rdpmc forbidden", noRDPMC, "may not read"},
		{"watchdog on the only counter", pmutest.New(0).Watchdog(), "watchdog"},
		{"garbage", pmutest.New(8), "does not count those: it gives 2.000 for an add"},
	} {
		s := script(1, nil)
		if c.name == "garbage" {
			s.Chain = timing.Chains(2)
		}
		o := scripted(c.kernel, s)
		_, err := o.open()
		if host, ok := errors.AsType[*verdict.HostError](err); !ok || !strings.Contains(err.Error(), c.clue) || host.Remedy == "" {
			t.Errorf("%s: %v", c.name, err)
		}
		o.Clock = AutoClock
		r := o.profile(t, add)
		if r.Status == OK && (r.Clock.Name != "tsc" || strings.Contains(fmt.Sprint(r.Warnings), c.clue) != (c.name == "garbage")) {
			t.Errorf("%s: %+v, warnings %q", c.name, r.Clock, r.Warnings)
		}
	}
}

// TestSimulatedHot: by default the number is a loop's. A row is measured beside it where stores feed loads, and alone if the user asks for one;
// a loop that fails rejects the block whatever the row says.
func TestSimulatedHot(t *testing.T) {
	const fed, stores = "ff03", "488903488b4b08" // the second loads something else
	const rowMost = 512                          // copies: loops have more iterations
	for _, c := range []struct {
		name, block string
		asks, mode  Mode
		loop        uint64 // cycles in a loop, where there are more iterations than copies in a row
		fails       bool
		cycles, row float64
		take        string
	}{
		{"a faster loop", fed, "", Both, 2, false, 2, 6, CyclesColumn},
		{"a slower loop", fed, "", Both, 8, false, 8, 6, CyclesColumn},
		{"no load is fed", stores, "", Loop, 2, false, 2, 0, CyclesColumn},
		{"both are asked for", stores, Both, Both, 2, false, 2, 6, CyclesColumn},
		{"only a loop is asked for", fed, Loop, Loop, 2, false, 2, 0, CyclesColumn},
		{"only a row is asked for", fed, Unroll, Unroll, 2, false, 6, 0, ""},
		{"only a row, and no load is fed", stores, Unroll, Unroll, 2, false, 6, 0, CyclesColumn},
		{"the loop fails", fed, "", Loop, 2, true, 0, 0, ""},
	} {
		o := scripted(pmutest.New(4), script(6, func(_ pmu.Pass, iterations int, t *timing.Readings) {
			switch n := uint64(iterations); {
			case iterations <= rowMost:
			case c.fails:
				t.Say(n * n)
			default:
				t.Say(137 + n*c.loop)
			}
		}))
		o.Mode = c.asks
		r := o.profile(t, c.block)
		if (r.Reason == verdict.Nonlinear) != c.fails || !about(r.Cycles, c.cycles) || r.RowCycles != c.row || r.Mode != c.mode ||
			r.LoopsTake != c.take && !c.fails || (r.FrontEnd == Unchecked) != (c.mode == Unroll) {
			t.Errorf("%s: %v, %g cycles, in a row %g; mode %s, front end %s, loops take %q; %q", c.name, r.Err(), r.Cycles, r.RowCycles, r.Mode,
				r.FrontEnd, r.LoopsTake, r.Warnings)
		}
	}
}

// TestSimulatedRow: a loop does not take what a row from the decoders does, nor one with taken branches, nor one image alone.
func TestSimulatedRow(t *testing.T) {
	for _, c := range []struct {
		name, block string
		setup       Setup
		want        string
	}{
		{"a row", add, Setup{Unroll: &unroll.Factors{Short: 64, Long: 192}}, CyclesColumn},
		{"from the decoders", add, Setup{FrontEnd: Decode}, ""},
		{"one image alone", add, Setup{Unroll: &unroll.Factors{Long: 64}}, ""},
		{"a branch not taken", "f6c301" + "7503" + add, Setup{}, CyclesColumn},
		{"a taken branch", "f6c301" + "7403" + add, Setup{}, ""},
	} {
		o := scripted(pmutest.New(4), script(2, nil))
		o.Inner = true
		r := o.profileIn(t, c.block, c.setup)
		if r.Status != OK || r.Mode != Unroll || r.LoopsTake != c.want {
			t.Errorf("%s: %v, %s, loops take %q, want %q", c.name, r.Err(), r.Mode, r.LoopsTake, c.want)
		}
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
		r.Say(100 + 3*uint64(iterations))
	}
	o.Unroll = &unroll.Factors{Short: 64, Long: 256}
	r := o.profile(t, "480fafc0") // imul rax, rax
	if short, long := float64(ticks[64]), float64(ticks[256]); r.Status != OK || short == 0 || long < 1.3*short {
		t.Errorf("%s, %g ticks for the shorter image and %g for the longer", r.Status, short, long)
	}
}

// Without rdpmc in user mode, the TSC is the clock, and the monitor reads the counts of the child's runs.
func TestSimulatedReadFallback(t *testing.T) {
	for _, c := range []struct {
		name     string
		perRun   [2]uint64 // L1I misses in a run of the shorter and of the longer image
		want     verdict.Reason
		kind     invariants.Kind
		tolerate []verdict.Reason
		lie      float64
	}{
		{"none", [2]uint64{0, 0}, "", invariants.Counted, nil, 1},
		{"as many around the copies", [2]uint64{3, 3}, "", invariants.Inferred, nil, 1},
		{"one for every other run of the longer image", [2]uint64{0, 1}, verdict.L1IMiss, "", nil, 1},
		{"the same, tolerated", [2]uint64{0, 1}, "", invariants.Inferred, []verdict.Reason{verdict.L1IMiss}, 1},
		{"a liar", [2]uint64{0, 0}, "", invariants.Inferred, nil, 2},
	} {
		k := pmutest.New(8)
		reads := 0
		k.RDPMC, k.Counts = false, func(a pmu.Attr) uint64 {
			switch {
			case a.Type == pmu.TypeHardware:
				reads++ // core cycles come first in each group
				return 1000
			case a.Config == 0x0283: // ICACHE_64B.IFTAG_MISS
				return c.perRun[(reads+1)%2] * 256 // runs between two reads
			}
			return 0
		}
		o := scripted(k, &timing.Script{Lie: lying(pmu.L1IMiss, func(must float64) float64 { return c.lie * must }).Lie})
		o.Clock = AutoClock
		r := o.profileIn(t, add, Setup{Tolerate: c.tolerate}, func(*session) { reads = 0 })
		if k.Left() != 0 || r.Reason != c.want {
			t.Errorf("%s: %q, want %q; %d events left open", c.name, r.Reason, c.want, k.Left())
		}
		if c.want != "" {
			continue
		}
		require.Equal(t, c.name, "tsc", r.Clock.Name)
		hasEvidence(t, c.name, r, verdict.L1IMiss, c.kind, "")
		for _, report := range r.Counters {
			doubted := c.lie != 1 && report.Role == string(pmu.L1IMiss)
			if doubted != (report.Kind == invariants.Unchecked) || doubted != (report.Reader != "read") || doubted != (report.PerIteration == nil) {
				t.Errorf("%s: %+v", c.name, report)
			}
		}
	}
}

// TestStimuliDoWhatTheySay compares the splits, misses and aliases of each stimulus with its trace on this machine.
func TestStimuliDoWhatTheySay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := newStepper() // the trace needs no clock
	require.Measure(t, err)
	defer s.discard()
	for _, x := range stimuli(s.cpu) {
		j, insts := require.Get2(x.block(s))(t)
		m := require.Get(s.prepare(j, insts, *x.setup.Unroll))(t)
		p := invariants.Predict(m.Trace, s.cpu.Core)
		codeMisses := 0.0 // in a second run of all copies
		for lines, i := map[uint64]int{}, 0; i < 2*m.Factors.Short; i++ {
			line := (m.Short.FirstCopy + uint64(i%m.Factors.Short*len(x.code))) / 64
			if last, ok := lines[line]; i >= m.Factors.Short && (!ok || i-last > s.cpu.FrontEnd.L1I/len(x.code)) {
				codeMisses += 1 / float64(m.Factors.Short)
			}
			lines[line] = i
		}
		got := map[pmu.Role]float64{pmu.AddressAlias: p.Alias4K, pmu.L1DReadMiss: p.L1DMisses}
		if p.Stores > 0 && p.Loads == 0 {
			got[pmu.L1DReadMiss], got[pmu.L1DWriteMiss], got[pmu.SplitStore] = 0, p.L1DMisses, p.Splits
		} else {
			got[pmu.SplitLoad] = p.Splits
		}
		if len(x.code) >= 4096 {
			got[pmu.L1IMiss] = math.Round(1000*codeMisses) / 1000
		}
		maps.DeleteFunc(got, func(_ pmu.Role, n float64) bool { return n == 0 })
		require.Equal(t, x.name, x.expected, got, cmpopts.EquateEmpty())
		if p.Forwarded > 0 || p.AliasFrame > 0 || len(m.Restore) > 0 {
			t.Errorf("%s: %g loads wait for stores, %g accesses alias on a frame, %d words to restore before each run",
				x.name, p.Forwarded, p.AliasFrame, len(m.Restore))
		}
	}
}

// TestStimuliFitCaches: for all cache sizes, counts are large enough to resolve 2 %, and lines exceed the cache.
func TestStimuliFitCaches(t *testing.T) {
	for _, kib := range [][2]int{{32, 32}, {48, 64}, {32, 64}, {48, 32}, {64, 128}} {
		cpu := host.CPU{L1D: kib[0] << 10}
		cpu.FrontEnd.L1I = kib[1] << 10
		for _, x := range stimuli(cpu) {
			f, bytes := *x.setup.Unroll, 0
			switch {
			case x.expected[pmu.L1IMiss] > 0:
				bytes = cpu.FrontEnd.L1I
			case x.expected[pmu.L1DReadMiss]+x.expected[pmu.L1DWriteMiss] > 0:
				bytes = cpu.L1D
			}
			if f.Short < 2*bytes/4096 || f.Long-f.Short < 64 || len(x.code)*(f.Short+f.Long) > 7<<18 {
				t.Errorf("%d and %d KiB, %s: %v", kib[0], kib[1], x.name, f)
			}
		}
	}
}

// TestDoubt: by how much an event may count wrongly. One that is only the nearest may count more.
func TestDoubt(t *testing.T) {
	for _, c := range []struct {
		must, counted  float64
		exact, nearest bool // are in doubt
	}{
		{1, 0, true, true}, {1, 2, true, false}, {1, 0.5, true, true}, {1, 1.03, true, false}, {1, 1.01, false, false},
		{1, 0.97, true, true}, {1, 0.99, false, false}, {0, 0.03, true, true}, {0, 0.01, false, false},
	} {
		for e, want := range map[pmu.Event]bool{{Exact: true}: c.exact, {Role: pmu.Asked}: c.exact, {}: c.nearest} {
			if why := doubt(e, []CounterCheck{{Must: c.must, Counted: c.counted}}); (why != "") != want {
				t.Errorf("%+v: %+v: %q", c, e, why)
			}
		}
	}
}

// TestSimulatedLies: an event that counts wrongly is unchecked, with its count; all others are counted as before.
func TestSimulatedLies(t *testing.T) {
	doubles := func(must float64) float64 { return 2 * must }
	for _, liar := range []pmu.Role{pmu.L1DReadMiss, pmu.L1DWriteMiss, pmu.L1IMiss, pmu.SplitLoad, pmu.SplitStore, pmu.AddressAlias} {
		says := "it counted 2 and must count 1"
		if liar == pmu.L1DWriteMiss { // the nearest that there is on Skylake
			says = ""
		}
		doubtsOnly(t, scripted(pmutest.New(8), lying(liar, doubles)).profile(t, loadAndStore), liar, says)
	}
}

// An event of the user is always counted, and trusted if a stimulus confirms it.
func TestSimulatedAskedEventsAreChecked(t *testing.T) {
	for _, c := range []struct {
		event, why string
		lie        float64
	}{
		{"r01c2", "no block is known", 1},
		{"instructions", "", 1},
		{"instructions", "", 1.01},
		{"instructions", "it counted 1.03 and must count 1", 1.03},
		{"MEM_INST_RETIRED.SPLIT_LOADS", "", 1},
		{"cpu/event=0xd0,umask=0x41/", "it counted 2 and must count 1", 2}, // the same by its code
	} {
		o := scripted(pmutest.New(8), lying(pmu.Asked, func(must float64) float64 { return c.lie * must }))
		o.Events, o.Detail = []string{c.event}, true
		r := o.profile(t, add)
		last := r.Counters[len(r.Counters)-1]
		if trusted := c.why == ""; last.Event != c.event || last.PerIteration == nil || (last.Kind == invariants.Counted) != trusted ||
			trusted != (last.Why == "") || !strings.Contains(last.Why, c.why) || (c.event == "r01c2") != (len(last.Checks) == 0) {
			t.Errorf("%s: %+v, want %q", c.event, last, c.why)
		}
	}
	o := scripted(pmutest.New(8), script(1, nil))
	o.Events = []string{"nonsense"}
	if _, err := o.open(); !errors.As(err, new(*EventError)) {
		t.Errorf("an event that is none: %v", err)
	}
}
