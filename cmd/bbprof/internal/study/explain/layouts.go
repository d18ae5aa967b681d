package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

// Layouts describes the 24 layouts in which a block is measured: what makes some slower, and what makes them equal.
// Apart from the code's address they have the requested set-up.
type Layouts struct {
	Cycles []profiler.LayoutCycles `json:"cycles"`
	// Differ is the range of the layouts without the two slowest and the two fastest, as a share of the fastest.
	Differ float64  `json:"differ"`
	Slots  int      `json:"rename_group,omitzero"` // slots per rename group, where layouts differ
	Rules  []Rule   `json:"rules,omitempty"`
	Ends   []Change `json:"changes,omitempty"`
}

// Rule predicts a layout's cycles from measurements in other layouts.
type Rule struct {
	Name  string `json:"rule"`
	Right int    `json:"right"` // layouts predicted correctly
	Of    int    `json:"of"`
}

// Change may make the layouts equal; it holds how much they still differ.
type Change struct {
	Name   string  `json:"change"`
	Cycles float64 `json:"cycles"`
	Differ float64 `json:"differ"`
}

const (
	// rightShare is the tolerance of a prediction as a share of the layouts' range, and leastShare as a share of the
	// cycles, if that is more: two windows of one layout differ by as much.
	rightShare = 1. / 6
	leastShare = 0.01
	// fewestRight is the number of layouts of 24 that an explanatory rule predicts: all but two, which disturbed
	// windows can move.
	fewestRight = profiler.Layouts - 2
	// endsShare is the share of the range that may remain if a change counts as an end to it.
	endsShare = 1. / 3
	// fewestLayouts is how many layouts are measured if they all agree.
	fewestLayouts = profiler.Layouts / 2
	// leastNops is the least lead-in everywhere (profiler.Setup.LeadNops), rounded to a multiple of 6 and 2.
	leastNops = 18
	// longestNop is the most bytes that asm.Emitter.Nop fills with one nop.
	longestNop = 9
)

// The first four rules predict a layout from other numbers of nops, the last from the same number elsewhere.
const (
	nothing = "one speed for all"
	place   = "place of the code in its line"
	phase   = "slots before the first copy"
	both    = "place and slots"
	count   = "number of nops before the first copy"
)

// pointersApart changes the initial state so that each register points to its own page and line.
const pointersApart = "pointers apart"

// moreCopies starts the images where the longer one ended.
const moreCopies = "more copies"

// Decides returns the simplest rule that explains the layouts, "" if none does.
func (l Layouts) Decides() string {
	for _, r := range l.Rules {
		if r.Of > 0 && r.Right >= fewestRight*r.Of/profiler.Layouts {
			return r.Name
		}
	}
	return ""
}

// Ended lists the changes with which the layouts no longer differ.
func (l Layouts) Ended() (names []string) {
	for _, c := range l.Ends {
		if c.Differ <= endsShare*l.Differ {
			names = append(names, c.Name)
		}
	}
	return names
}

// layouts finds what decides. It returns nothing if the core's rename groups are unknown or the layouts agree.
func (q *question) layouts() (*Layouts, error) {
	setup := q.setup
	setup.CodeOffset, setup.LeadNops = nil, 0
	r, err := q.measure(setup)
	if err != nil || len(r.LayoutCycles) < fewestLayouts {
		return nil, err
	}
	l := &Layouts{Cycles: r.LayoutCycles, Differ: differ(r.LayoutCycles)}
	width := q.base.Host.CPU.DispatchWidth
	if l.Differ < stat.EffectShare || width == 0 || q.setup.Mode == profiler.Loop {
		return l, nil
	}
	l.Slots = width
	if q.grid, err = q.measureGrid(width); err != nil {
		return nil, err
	}
	if q.grid != nil {
		l.Rules = q.grid.rules(l.Cycles)
		counted, err := q.countRule(l.Cycles)
		if err != nil {
			return nil, err
		}
		l.Rules = append(l.Rules, counted)
	}
	l.Ends, err = q.ends(setup, r)
	return l, err
}

// differ is the range of layouts without two at either end, as a share of the fastest.
func differ(layouts []profiler.LayoutCycles) float64 {
	const cut = 2
	var all []float64
	for _, l := range layouts {
		all = append(all, l.Cycles)
	}
	if slices.Sort(all); len(all) <= 2*cut || all[cut] <= 0 {
		return 0
	}
	return all[len(all)-1-cut]/all[cut] - 1
}

// grid holds a block's cycles at each address, number of nops before it (in steps of a rename group's slots) and rename
// phase.
type grid struct {
	cycles [timing.Places][][timing.DispatchOffsets]float64
	shift  [timing.DispatchOffsets]int // number of nops equivalent to each rename phase
}

func (q *question) measureGrid(width int) (*grid, error) {
	g := &grid{}
	for p := range g.cycles {
		for n := range width {
			r, err := q.measureOffsets(q.at(p*timing.PlaceBytes, leastNops+n))
			if err != nil || len(r.LayoutCycles) < timing.DispatchOffsets {
				return nil, err
			}
			var row [timing.DispatchOffsets]float64
			for _, c := range r.LayoutCycles {
				row[timing.Layout(c.Layout).Offset()] = c.Cycles
			}
			g.cycles[p] = append(g.cycles[p], row)
		}
	}
	for offset := range g.shift {
		g.shift[offset] = slices.Index(g.misfit(offset), slices.Min(g.misfit(offset)))
	}
	return g, nil
}

// measureOffsets measures in a set-up, and again while disturbed windows leave rename phases missing.
func (q *question) measureOffsets(s profiler.Setup) (r profiler.Result, err error) {
	for range measure.Tries {
		if r, err = q.measure(s); err != nil || len(r.LayoutCycles) == timing.DispatchOffsets {
			break
		}
	}
	return r, err
}

// misfit returns, for each number of nops, how far cycles at a rename phase are from those at phase 0 with that many
// more nops.
func (g *grid) misfit(offset int) (all []float64) {
	width := len(g.cycles[0])
	for shift := range width {
		sum := 0.0
		for _, at := range g.cycles {
			for n := range at {
				d := at[n][offset] - at[(n+shift)%width][0]
				sum += d * d
			}
		}
		all = append(all, sum)
	}
	return all
}

// slots returns the first copy's slot in its rename group, up to a constant.
func (g *grid) slots(nops, offset, period int) int { return (nops + g.shift[offset]) % period }

// rules counts each rule's correct predictions. Among the slot periods that divide a rename group it takes the shortest
// that is as good.
func (g *grid) rules(layouts []profiler.LayoutCycles) []Rule {
	width := len(g.cycles[0])
	var all []Rule
	for _, r := range []struct {
		name          string
		places, slots bool
	}{{nothing, false, false}, {place, true, false}, {phase, false, true}, {both, true, true}} {
		best := Rule{Name: r.name, Right: -1, Of: len(layouts)}
		for period := 1; period <= width; period++ {
			if width%period != 0 || !r.slots && period > 1 || r.slots && period == 1 {
				continue
			}
			if right := g.right(layouts, r.places, period); right > best.Right {
				best.Right = right
				if r.slots {
					best.Name = fmt.Sprintf("%s, modulo %d", r.name, period)
				}
			}
		}
		all = append(all, best)
	}
	return all
}

// right counts the layouts that take about as long as others with the same slots modulo period and, if places is set,
// the same place.
func (g *grid) right(layouts []profiler.LayoutCycles, places bool, period int) (n int) {
	near := math.Max(rightShare*differ(layouts), leastShare)
	for _, l := range layouts {
		layout := timing.Layout(l.Layout)
		nops := nopsIn(layout.Place() * timing.PlaceBytes)
		want := g.mean(func(p, slots int) bool {
			return (!places || p == layout.Place()) && slots == g.slots(nops, layout.Offset(), period)
		}, period)
		if math.Abs(l.Cycles-want) <= near*want {
			n++
		}
	}
	return n
}

// countRule tests whether only the number of nops before the first copy counts. It predicts each place but the first,
// which has none, from a place 4 bytes away with as many.
func (q *question) countRule(layouts []profiler.LayoutCycles) (Rule, error) {
	const away = 4
	rule := Rule{Name: count}
	near := math.Max(rightShare*differ(layouts), leastShare)
	for p := 1; p < timing.Places; p++ {
		at := p*timing.PlaceBytes - away
		if nopsIn(at) != nopsIn(p*timing.PlaceBytes) {
			at += 2 * away
		}
		r, err := q.measure(q.at(at, 0))
		if err != nil {
			return rule, err
		}
		for _, l := range layouts {
			i := slices.IndexFunc(r.LayoutCycles, func(c profiler.LayoutCycles) bool {
				return timing.LayoutOf(p, timing.Layout(c.Layout).Offset()) == timing.Layout(l.Layout)
			})
			if i < 0 {
				continue
			}
			rule.Of++
			if want := r.LayoutCycles[i].Cycles; math.Abs(l.Cycles-want) <= near*want {
				rule.Right++
			}
		}
	}
	return rule, nil
}

// nopsIn returns how many nops fill the bytes.
func nopsIn(bytes int) int { return (bytes + longestNop - 1) / longestNop }

// mean averages the selected cells.
func (g *grid) mean(of func(place, slots int) bool, period int) float64 {
	sum, n := 0.0, 0
	for p, at := range g.cycles {
		for nops := range at {
			for offset, cycles := range at[nops] {
				if of(p, g.slots(leastNops+nops, offset, period)) {
					sum, n = sum+cycles, n+1
				}
			}
		}
	}
	return sum / float64(n)
}

// ends measures all layouts with each change that may make them equal.
func (q *question) ends(setup profiler.Setup, base profiler.Result) (all []Change, err error) {
	apart := initial.States()[1]
	for _, c := range []struct {
		name   string
		change func(*profiler.Setup)
	}{
		{moreCopies, func(s *profiler.Setup) { s.Unroll = &unroll.Factors{Short: base.UnrollLong, Long: 2 * base.UnrollLong} }},
		{"decoders", func(s *profiler.Setup) { s.FrontEnd = profiler.Decode }},
		{"loop", func(s *profiler.Setup) { s.Mode = profiler.Loop }},
		{pointersApart, func(s *profiler.Setup) { s.Init, s.Frames = &apart, framesEach }},
	} {
		if c.name == pointersApart && base.Pages == 0 || c.name == moreCopies && base.PastLead { // the op cache holds no more
			continue
		}
		changed := setup
		c.change(&changed)
		r, err := q.measure(changed)
		if err != nil {
			return nil, err
		}
		if len(r.LayoutCycles) >= fewestLayouts {
			all = append(all, Change{c.name, r.Cycles, differ(r.LayoutCycles)})
		}
	}
	return all, nil
}

// renamePhase compares two numbers of nops before a first copy at the same address: the slowest and the fastest at one
// rename phase, with new measurements.
func (q *question) renamePhase() (test, error) {
	l, err := q.layouts()
	switch {
	case err != nil:
		return test{}, err
	case l == nil:
		return untested("", "not all layouts were measured"), nil
	}
	q.found = l
	switch {
	case l.Differ < stat.EffectShare:
		return absent("%d layouts differ by %.1f %%", len(l.Cycles), 100*l.Differ), nil
	case q.grid == nil:
		return untested(fmt.Sprintf("layouts differ by %.1f %%", 100*l.Differ), "how many slots the core renames in a cycle is not known"), nil
	}
	rows := q.grid.cycles[0]
	slower := func(a, b [timing.DispatchOffsets]float64) int { return cmp.Compare(a[0], b[0]) }
	slow := leastNops + slices.Index(rows, slices.MaxFunc(rows, slower))
	fast := leastNops + slices.Index(rows, slices.MinFunc(rows, slower))
	t := change(fmt.Sprintf("%d instructions a copy, %d slots in a rename group", len(q.insts), len(rows)),
		fmt.Sprintf("%d nops before the copies instead of %d, in the same bytes", fast, slow), q.at(0, slow), q.at(0, fast))
	of := func(r profiler.Result) float64 {
		i := slices.IndexFunc(r.LayoutCycles, func(c profiler.LayoutCycles) bool { return timing.Layout(c.Layout).Offset() == 0 })
		if i < 0 {
			return 0
		}
		return r.LayoutCycles[i].Cycles
	}
	t.With.of, t.Without.of = of, of
	return t, nil
}
