package profiler

import (
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
)

// TestStimuliDoWhatTheySay compares each stimulus with its trace on this machine: the expected number of splits,
// misses and aliases per copy, and no others.
func TestStimuliDoWhatTheySay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := newStepper() // the trace needs no clock
	require.Measure(t, err)
	defer s.discard()
	for _, x := range stimuli(s.cpu) {
		j, insts := require.Get2(x.block(s))(t)
		m, err := s.prepare(j, insts, *x.setup.Unroll)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
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

// TestStimuliFitCaches: for all cache sizes, counts are large enough to resolve 2 %, and lines exceed the
// cache.
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

// lies lists ways in which an event may count wrongly, and the report that reveals it; "" if it need not be
// revealed.
var lies = []struct {
	name    string
	lie     func(must float64) float64
	exact   string
	nearest string
}{
	{"honest", func(must float64) float64 { return must }, "", ""},
	{"always 0", func(float64) float64 { return 0 }, "it counted 0 and must count 1", "it counted 0 and must count 1"},
	{"doubles", func(must float64) float64 { return 2 * must }, "it counted 2 and must count 1", ""},
	{"counts half of the time", func(must float64) float64 { return must / 2 }, "it counted 0.5", "it counted 0.5"},
	{"3 % too much", func(must float64) float64 { return 1.03 * must }, "it counted 1.0", ""},
	{"1 % too much", func(must float64) float64 { return 1.01 * must }, "", ""},
	{"3 % too little", func(must float64) float64 { return 0.97 * must }, "it counted 0.9", "it counted 0.9"},
	{"1 % too little", func(must float64) float64 { return 0.99 * must }, "", ""},
	{"some where there are none", func(must float64) float64 { return must + 0.03 }, "an add of a chain it counted 0.03", "an add of a chain it counted 0.03"},
	{"few where there are none", func(must float64) float64 { return must + 0.01 }, "", ""},
}

// TestSimulatedLies: an event that counts wrongly is unchecked, with its count; all others are counted as before,
// and the block is measured.
func TestSimulatedLies(t *testing.T) {
	for _, liar := range []pmu.Role{pmu.L1DReadMiss, pmu.L1DWriteMiss, pmu.L1IMiss, pmu.SplitLoad, pmu.SplitStore, pmu.AddressAlias} {
		for _, l := range lies {
			if liar != pmu.L1DReadMiss && liar != pmu.L1DWriteMiss && l.name != "doubles" {
				continue // as of the first; an event that is only the nearest is believed if it counts more
			}
			o := scripted(pmutest.New(8), script(1, nil))
			o.machine.Script.Lie = func(e pmu.Event, must float64) float64 {
				if e.Role == liar {
					return l.lie(must)
				}
				return must
			}
			says := l.exact
			if liar == pmu.L1DWriteMiss { // the nearest that there is on Skylake
				says = l.nearest
			}
			r := o.profile(t, loadAndStore)
			if r.Status != OK {
				t.Fatalf("%s, %s: %+v", liar, l.name, r)
			}
			for _, c := range r.Counters {
				doubted := c.Role == string(liar) && says != ""
				if doubted != (c.Kind == invariants.Unchecked) || doubted != (c.PerIteration == nil) || doubted != (c.Why != "") || doubted && !strings.Contains(c.Why, says) {
					t.Errorf("%s, %s: %+v, want it to say %q", liar, l.name, c, says)
				}
			}
			for reason, served := range requiredRoles {
				kind := invariants.Counted
				if says != "" && slices.Contains(served, liar) {
					kind = invariants.Inferred
				}
				if e := evidenceOf(t, r, reason); e.Kind != kind || kind != invariants.Counted && !strings.Contains(e.Detail, says) {
					t.Errorf("%s, %s: %+v, want it %s", liar, l.name, e, kind)
				}
			}
		}
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
		o := scripted(pmutest.New(8), script(1, nil))
		o.Events, o.Detail = []string{c.event}, true
		o.machine.Script.Lie = func(e pmu.Event, must float64) float64 {
			if e.Role == pmu.Asked {
				return c.lie * must
			}
			return must
		}
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
