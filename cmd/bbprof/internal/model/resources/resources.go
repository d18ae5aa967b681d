// Package resources finds what instructions compete for, from the times of mixes alone, without counters or assumptions
// about the core.
//
// A resource is represented by its kernel, a mix that saturates it. A form's use of it is the time that one instruction
// adds to the kernel. A mix takes as long as its fullest resource: T = max over resources of the sum of uses.
// Overlapping groups of units are resources: what can go to two units fills the pair; what can go to only one fills that
// one, too. The method is that of Derumigny et al., "PALMED" (CGO 2022).
//
//	time forms in pairs → keep those that differ (anchors) → every form and every pair that shares is a candidate
//	→ keep the candidates that the times ask for → add each form to each kernel → kernels for what is not explained
package resources

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Part is some instructions of a form in a mix. A form is an index into a list.
type Part struct{ Form, N int }

type Mix []Part

// Timing is the cycles of a mix, with the interval.
type Timing struct {
	Cycles, Low, High float64
	Why               string // why there is no time
}

func (t Timing) ok() bool { return t.Why == "" && t.Cycles > 0 }

type Timer func(context.Context, []Mix) ([]Timing, error)

const (
	// Length of each half of a pair, of what is added to a kernel, and of a kernel at least: long enough that no other
	// resource becomes the fullest.
	partCycles   = 2.0
	addedCycles  = 1.2
	kernelCycles = 4.0
	hidden       = 0.6 // share of a kernel's time that the added part may take alone
	mostInKernel = 160 // instructions: all copies must fit the op cache
	// Two anchors differ by at least this in sharing with an anchor; two measurements of a pair, by 0.02.
	different   = 0.25
	mostAnchors = 40
	nearly      = 0.8  // of the best
	shares      = 0.05 // the least sharing that counts
	fast        = 1.05 // cycles, of anchors
	// A resource that explains less than this of the times is noise or imperfect scheduling.
	worthwhile    = 0.0005
	mostResources = 24
)

type finder struct {
	ctx     context.Context
	forms   []Form
	time    Timer
	err     error // the first of time
	anchors []int
	known   []observation
	widest  float64 // most instructions per cycle
	fronts  []Mix   // mixes that reach it
}

type observation struct {
	mix    Mix
	cycles float64
}

// perCycle returns the mix's instructions per cycle.
func (o observation) perCycle() float64 {
	n := 0
	for _, p := range o.mix {
		n += p.N
	}
	return float64(n) / o.cycles
}

// Find finds the resources and each form's use of them. progress is told each phase.
func Find(ctx context.Context, forms []Form, time Timer, progress func(what string)) (*Table, error) {
	f, t := &finder{ctx: ctx, forms: forms, time: time}, &Table{Forms: forms}
	progress("anchors")
	f.findAnchors()
	if f.err == nil {
		progress("resources")
		f.findResources(t)
	}
	if f.err == nil {
		progress("uses")
		f.useAll(t)
	}
	if f.err != nil {
		return nil, f.err
	}
	t.finish()
	return t, nil
}

// times times mixes. After an error, which f keeps, no mix has a time.
func (f *finder) times(mixes []Mix) []Timing {
	if f.err == nil && len(mixes) > 0 {
		times, err := f.time(f.ctx, mixes)
		if err == nil {
			return times
		}
		f.err = err
	}
	none := make([]Timing, len(mixes))
	for i := range none {
		none[i].Why = "not measured: the search ended"
	}
	return none
}

// copies returns how many instructions of a form take the cycles, at most 12.
func (f *finder) copies(form int, cycles float64) int {
	const most = 12
	return max(1, min(most, int(math.Round(cycles/f.forms[form].Alone))))
}

// sharing returns the share of a pair's shorter half that the longer one does not hide.
func (f *finder) sharing(pair observation) float64 {
	a, b := f.partCycles(pair.mix[0]), f.partCycles(pair.mix[1])
	return (pair.cycles - max(a, b)) / min(a, b)
}

func (f *finder) partCycles(p Part) float64 { return float64(p.N) * f.forms[p.Form].Alone }

// pair mixes two forms that take equally long alone.
func (f *finder) pair(a, b int) Mix {
	return Mix{{a, f.copies(a, partCycles)}, {b, f.copies(b, partCycles)}}
}

// findAnchors picks one simple form of each kind: those that share differently with some anchor.
func (f *finder) findAnchors() {
	var simple []int
	var mixes []Mix
	for i := range f.forms {
		if f.forms[i].Simple {
			const copies = 12
			simple, mixes = append(simple, i), append(mixes, Mix{{i, copies}})
		}
	}
	times := f.times(mixes)
	candidates := simple[:0]
	for k, i := range simple {
		if t := times[k]; t.ok() && t.Cycles/float64(mixes[k][0].N) < fast {
			f.forms[i].Alone = t.Cycles / float64(mixes[k][0].N)
			candidates = append(candidates, i)
		}
	}
	if len(candidates) == 0 {
		f.err = cmp.Or(f.err, errors.New("no form that could fill a unit has a time; choose more forms"))
		return
	}
	singles := f.singles(candidates)
	profile := map[int][]float64{} // by anchor
	for a := candidates[0]; a >= 0; {
		f.anchors = append(f.anchors, a)
		mixes = mixes[:0]
		for _, c := range candidates {
			mixes = append(mixes, f.pair(a, c))
		}
		times = f.times(mixes)
		for k, c := range candidates {
			s := math.NaN()
			switch {
			case c == a:
				s = 1
			case times[k].ok():
				s = max(0, min(1, f.sharing(observation{mixes[k], times[k].Cycles})))
				if slices.Contains(f.anchors, c) {
					f.known = append(f.known, observation{mixes[k], times[k].Cycles})
				}
			}
			profile[c] = append(profile[c], s)
		}
		if a = f.leastSimilar(singles, profile); a < 0 {
			a = f.leastSimilar(candidates, profile)
		}
	}
}

// singles returns the candidates that take one slot of the front end, and so are one operation: sharing with a form of
// two does not tell where. The mixes with the most instructions a cycle fill the front end, but perhaps units, too. So
// several are tried, and the least that a form adds to any of them counts.
func (f *finder) singles(candidates []int) (kept []int) {
	var mixes []Mix
	for _, c := range candidates {
		mixes = append(mixes, Mix{{c, f.copies(c, partCycles)}})
		if c != candidates[0] {
			mixes = append(mixes, f.pair(candidates[0], c))
		}
	}
	times := f.times(mixes)
	var fronts []observation
	most := 0.0
	for i, t := range times {
		if t.ok() {
			fronts = append(fronts, observation{mixes[i], t.Cycles})
			most = max(most, fronts[len(fronts)-1].perCycle())
		}
	}
	fronts = slices.DeleteFunc(fronts, func(o observation) bool { return o.perCycle() < 0.97*most })
	slices.SortStableFunc(fronts, func(a, b observation) int { return len(a.mix) - len(b.mix) })
	const asked = 6
	least := make([]float64, len(candidates)) // slots
	for i := range least {
		least[i] = math.Inf(1)
	}
	for _, front := range fronts[:min(len(fronts), asked)] {
		mixes = []Mix{with(front, kernelCycles)}
		for _, c := range candidates {
			mixes = append(mixes, with(front, kernelCycles, Part{c, f.copies(c, addedCycles)}))
		}
		times = f.times(mixes)
		for i, c := range candidates {
			if times[0].ok() && times[i+1].ok() {
				slots := (times[i+1].Cycles - times[0].Cycles) * most / float64(f.copies(c, addedCycles))
				least[i] = min(least[i], slots)
			}
		}
	}
	const less, more, some = 0.7, 1.4, 0.6
	one := 0
	for i, c := range candidates {
		if least[i] < more {
			kept = append(kept, c)
		}
		if least[i] < more && least[i] > less {
			one++
		}
	}
	if float64(one) < some*float64(len(candidates)) {
		return candidates // not a front end
	}
	f.widest = most
	for _, o := range fronts {
		// If two forms also fill their own units, either adds its own time.
		if len(f.fronts) < asked && (len(o.mix) == 1 || f.sharing(o) > shares) {
			f.fronts = append(f.fronts, o.mix)
		}
	}
	return kept
}

// leastSimilar returns the fastest of the candidates that differ most from all anchors, -1 if each resembles one.
func (f *finder) leastSimilar(candidates []int, profile map[int][]float64) int {
	away, most := make([]float64, len(candidates)), 0.0
	for k, c := range candidates {
		away[k] = math.Inf(1)
		for _, a := range f.anchors {
			away[k] = min(away[k], distance(profile[c], profile[a]))
		}
		most = max(most, away[k])
	}
	if most < different || len(f.anchors) == mostAnchors {
		return -1
	}
	next := -1
	for k, c := range candidates {
		if away[k] >= nearly*most && (next < 0 || f.forms[c].Alone < 0.9*f.forms[next].Alone) {
			next = c
		}
	}
	return next
}

// distance returns the largest difference in sharing with an anchor. Unmeasured pairs do not count.
func distance(a, b []float64) (most float64) {
	for i := range a {
		if d := math.Abs(a[i] - b[i]); d > most {
			most = d
		}
	}
	return most
}

// candidate is a kernel with the anchors' use of it.
type candidate struct {
	observation
	use map[int]float64
}

// findResources measures every anchor against every kernel, and keeps the kernels that explain the times best. Mixes
// that take longer than predicted saturate something else, and become kernels.
func (f *finder) findResources(t *Table) {
	all := f.measureUses(f.candidates())
	f.someMixes()
	chosen := f.choose(all)
	const rounds = 3
	for range rounds {
		more := f.measureUses(f.reduce(f.measureUses(f.unexplained(chosen))))
		if all = append(all, more...); len(more) == 0 {
			break
		}
		chosen = f.choose(all)
	}
	for i := range chosen {
		c := &chosen[i]
		t.Resources = append(t.Resources, Resource{Name: f.name(c), kernel: c.observation, needs: f.needs(chosen, i)})
	}
}

// measureUses adds the anchors' uses to candidates.
func (f *finder) measureUses(all []candidate) []candidate {
	all = f.startKernels(all)
	var mixes []Mix
	var of []int
	for k := range all {
		for _, a := range f.anchors {
			mixes = append(mixes, with(all[k].observation, kernelCycles, Part{a, f.copies(a, addedCycles)}))
			of = append(of, k)
		}
	}
	times := f.times(mixes)
	for i, t := range times {
		if !t.ok() {
			continue
		}
		c, added := &all[of[i]], mixes[i][len(mixes[i])-1]
		repeats := float64(mixes[i][0].N / c.mix[0].N)
		c.use[added.Form] = slots((t.Cycles-repeats*c.cycles)/float64(added.N), c.perCycle())
		f.known = append(f.known, observation{mixes[i], t.Cycles})
	}
	return all
}

// unexplained returns the mixes whose time most exceeds that of the fullest resource.
func (f *finder) unexplained(chosen []candidate) (worst []candidate) {
	const most, longer = 8, 1.04
	type missing struct {
		mix   Mix
		times float64
	}
	var list []missing
	for _, o := range f.known {
		least := 0.0
		for i := range chosen {
			least = max(least, chosen[i].cyclesOf(o.mix))
		}
		if o.cycles > longer*least {
			list = append(list, missing{o.mix, o.cycles / least})
		}
	}
	slices.SortStableFunc(list, func(a, b missing) int { return cmp.Compare(b.times, a.times) })
	for _, m := range list[:min(len(list), most)] {
		worst = append(worst, newCandidate(m.mix))
	}
	return worst
}

// reduce removes parts of kernels that add nothing to them.
func (f *finder) reduce(all []candidate) (list []candidate) {
	for _, c := range all {
		kernel := slices.DeleteFunc(slices.Clone(c.mix), func(p Part) bool { return c.use[p.Form] < shares })
		if len(kernel) > 0 {
			list = append(list, newCandidate(kernel))
		}
	}
	return list
}

func newCandidate(m Mix) candidate { return candidate{observation{mix: m}, map[int]float64{}} }

// FrontEnd names the resource that all instructions use equally: renaming and retirement.
const FrontEnd = "front end"

func (f *finder) name(c *candidate) string {
	if f.everywhere(c) {
		return FrontEnd
	}
	var names []string
	for _, p := range c.mix {
		names = append(names, f.forms[p.Form].Name)
	}
	return strings.Join(names, " + ")
}

// everywhere reports whether all anchors use a resource, most of them equally.
func (f *finder) everywhere(c *candidate) bool {
	var uses []float64
	for _, a := range f.anchors {
		if u, ok := c.use[a]; ok {
			uses = append(uses, u)
		}
	}
	slices.Sort(uses)
	n := len(uses)
	return n > 2 && uses[0] > shares && uses[3*n/4] < 1.5*uses[n/4]
}

// needs returns the resource that all users of another use, too, with the most users but not all anchors; -1 if none.
func (f *finder) needs(all []candidate, of int) (needed int) {
	users := func(c *candidate) (list []int) {
		for _, a := range f.anchors {
			if c.use[a] > shares {
				list = append(list, a)
			}
		}
		return list
	}
	mine, most := users(&all[of]), 0
	needed = -1
	for k := range all {
		theirs := users(&all[k])
		outside := slices.ContainsFunc(mine, func(a int) bool { return !slices.Contains(theirs, a) })
		if k != of && !outside && len(theirs) > max(most, len(mine)) && len(theirs) < len(f.anchors)*3/4 && !f.everywhere(&all[k]) {
			needed, most = k, len(theirs)
		}
	}
	return needed
}

// someMixes times random mixes of a few anchors, like programs', to choose resources by.
func (f *finder) someMixes() {
	const many, fewest, most = 400, 3, 8
	r := rand.New(rand.NewPCG(1, 2))
	var mixes []Mix
	for range many {
		var m Mix
		for _, k := range r.Perm(len(f.anchors))[:min(len(f.anchors), fewest+r.IntN(most-fewest+1))] {
			m = append(m, Part{f.anchors[k], 1 + r.IntN(f.copies(f.anchors[k], addedCycles))})
		}
		mixes = append(mixes, m)
	}
	for i, t := range f.times(mixes) {
		if t.ok() {
			f.known = append(f.known, observation{mixes[i], t.Cycles})
		}
	}
}

// with repeats a kernel to at least the cycles, and adds parts.
func with(kernel observation, cycles float64, added ...Part) Mix {
	repeats := max(1, int(math.Ceil(cycles/kernel.cycles)))
	mix := make(Mix, 0, len(kernel.mix)+len(added))
	for _, p := range kernel.mix {
		mix = append(mix, Part{p.Form, p.N * repeats})
	}
	return append(mix, added...)
}

// candidates returns each anchor, each pair that shares, and one mix of anchors that share little.
func (f *finder) candidates() (all []candidate) {
	add := func(m Mix) { all = append(all, newCandidate(m)) }
	for _, a := range f.anchors {
		add(Mix{{a, f.copies(a, partCycles)}})
	}
	for _, m := range f.fronts {
		add(m)
	}
	little := map[[2]int]float64{}
	for _, o := range f.known {
		a, b, s := o.mix[0].Form, o.mix[1].Form, f.sharing(o)
		little[[2]int{a, b}], little[[2]int{b, a}] = s, s
		if s > shares && (f.widest == 0 || o.perCycle() < 0.97*f.widest) { // else it is the front end
			add(o.mix)
		}
	}
	var most Mix
	for _, a := range f.anchors {
		if !slices.ContainsFunc(most, func(p Part) bool { return little[[2]int{p.Form, a}] > 0.5 }) {
			most = append(most, Part{a, f.copies(a, partCycles)})
		}
	}
	if len(most) > 2 {
		add(most)
	}
	return all
}

// startKernels times the kernels alone at their final length.
func (f *finder) startKernels(all []candidate) (kept []candidate) {
	var mixes []Mix
	for _, c := range all {
		for _, p := range c.mix {
			c.cycles = max(c.cycles, f.partCycles(p))
		}
		mixes = append(mixes, with(c.observation, kernelCycles))
	}
	for i, t := range f.times(mixes) {
		if t.ok() {
			c := all[i]
			c.cycles = t.Cycles / float64(mixes[i][0].N/c.mix[0].N)
			f.known = append(f.known, observation{mixes[i], t.Cycles})
			kept = append(kept, c)
		}
	}
	return kept
}

// cyclesOf returns how long a mix occupies the kernel's resource.
func (c *candidate) cyclesOf(m Mix) (cycles float64) {
	for _, p := range m {
		cycles += float64(p.N) * c.use[p.Form]
	}
	return cycles
}

// choose repeatedly adds the kernel that brings the predicted times, those of the fullest resource, closest to the
// measured ones, until the gain is too small.
func (f *finder) choose(all []candidate) (chosen []candidate) {
	predicted := make([]float64, len(f.known))
	loss := func(with *candidate) (sum float64) {
		for i, o := range f.known {
			p := predicted[i]
			if with != nil {
				p = max(p, with.cyclesOf(o.mix))
			}
			sum += math.Abs(p-o.cycles) / o.cycles
		}
		return sum / float64(len(f.known))
	}
	for left := loss(nil); len(chosen) < mostResources && f.err == nil; {
		gains, most := make([]float64, len(all)), 0.0
		for k := range all {
			gains[k] = left - loss(&all[k])
			most = max(most, gains[k])
		}
		if most < worthwhile {
			break
		}
		best := -1 // of those nearly as good, the one with the fewest forms
		for k := range all {
			if gains[k] >= nearly*most && (best < 0 || len(all[k].mix) < len(all[best].mix) ||
				len(all[k].mix) == len(all[best].mix) && gains[k] > gains[best]) {
				best = k
			}
		}
		chosen = append(chosen, all[best])
		for i, o := range f.known {
			predicted[i] = max(predicted[i], all[best].cyclesOf(o.mix))
		}
		left = loss(nil)
	}
	return chosen
}
