package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Verdict is the outcome of a change or a function.
type Verdict string

const (
	Slower   Verdict = "slower"       // by more than the threshold, the whole interval
	Faster   Verdict = "faster"       // likewise
	Same     Verdict = "same"         // the interval lies within the threshold on both sides
	Unclear  Verdict = "unclear"      // it does not lie on one side
	Layout   Verdict = "layout"       // the same code, faster or slower where it stands now
	Listed   Verdict = "listed"       // there is nothing to compare with
	Unknown  Verdict = "not measured" // Rejection or Failure says why
	Uncalled Verdict = "not executed" // by the profile
)

// Outcome is a change's result. Base and Head are core cycles, summed over its pieces, of the head per iteration of the
// base; differences are percentages of the base, with an interval that holds jointly for all changes in 95 % of cases.
type Outcome struct {
	Verdict Verdict `json:"verdict,omitempty"` // none before the change is measured
	Times
	Layouts int `json:"layouts,omitzero"`
	// Standing is the difference of a loop that is slower only where the builds have it.
	Standing  float64            `json:"difference_in_place_percent,omitzero"`
	Rejection *verdict.Rejection `json:"rejection,omitempty"`
	Failure   string             `json:"failure,omitempty"`
	// Samples are the cycles in each layout.
	Samples Samples `json:"samples"`
}

// Times are cycles of both builds, and by how many percent those of the head are more.
type Times struct {
	Base float64 `json:"base_cycles,omitzero"`
	Head float64 `json:"head_cycles,omitzero"`
	*Interval
}

// Interval is a difference with its interval, nil where only one build has been measured, or none.
type Interval struct {
	Difference float64 `json:"difference_percent"`
	Low        float64 `json:"ci_low_percent"`
	High       float64 `json:"ci_high_percent"`
}

// Samples are cycles of base and head in the same layouts.
type Samples struct {
	Base []float64 `json:"base,omitempty"`
	Head []float64 `json:"head,omitempty"`
}

// Cost is what a function takes by the profile: the sum of count times cycles over its pieces.
type Cost struct {
	Times
	// Missing is the share of the executed instructions that changed and could not be measured.
	Missing float64 `json:"missing_share,omitzero"`
}

// Options say how to measure.
type Options struct {
	Threshold float64 // difference to accept, as a share
	Layouts   int
	Seed      uint64
	Weighted  bool        // pieces of the base have counts
	Done      func(n int) // receives the number of changes so far
}

// retries is how often a change that other work disturbed is measured again. At a share of 1/2 of disturbed tries it
// leaves 6 % of the changes without a verdict.
const retries = 3

// placeRounds is how often a loop is measured at either of its places.
const placeRounds = 12

// Run measures all changes. An error is ctx's or a *verdict.HostError; the changes before it have their outcomes.
func Run(ctx context.Context, p pool.Profiler, functions []Function, o Options) error {
	n, tests := 0, 0
	for _, f := range functions {
		tests += len(f.Changes)
	}
	// What other work disturbed is measured again at the end, when it may have gone.
	for round := range 1 + retries {
		again := round > 0
		for _, f := range functions {
			for k := range f.Changes {
				c := &f.Changes[k]
				if again && !c.Disturbed() {
					continue
				}
				c.Outcome = Outcome{}
				if err := o.change(ctx, p, c, tests); err != nil {
					return err
				}
				if n++; o.Done != nil && !again {
					o.Done(n)
				}
			}
		}
	}
	for i := range functions {
		if f := &functions[i]; !o.Weighted {
			f.leaveUncounted()
		} else if err := o.cost(ctx, p, f); err != nil {
			return err
		}
	}
	return nil
}

// Disturbed reports whether noise left the change without a result.
func (o *Outcome) Disturbed() bool { return o.Rejection != nil && o.Rejection.Reason.Noise() }

// leaveUncounted gives no verdict where it is not known without a profile how often pieces run: where their number
// changed, and outside a function's loops if a loop changed too. Unrolling, for one, adds code that runs once.
func (f *Function) leaveUncounted() {
	inLoops := slices.ContainsFunc(f.Changes, func(c Change) bool { return !c.Outside && c.What != Moved })
	for i := range f.Changes {
		if c := &f.Changes[i]; c.Verdict != Unknown && c.What == Changed && (c.Outside && inLoops || len(c.Base) != len(c.Head)) {
			c.Verdict = Listed
		}
	}
}

func (o Options) change(ctx context.Context, p pool.Profiler, c *Change, tests int) (err error) {
	if c.What == Moved {
		err = o.moved(ctx, p, c, tests)
	} else if err = o.inLayouts(ctx, p, c, tests); err == nil {
		err = o.standing(ctx, p, c, tests)
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok && c.joined() && !rejection.Reason.Noise() { // such as for instructions that no row may have
		c.Base, c.Head, c.Outcome = apart(c.Base), apart(c.Head), Outcome{}
		return o.change(ctx, p, c, tests)
	}
	var failure pool.Failure
	switch {
	case err == nil:
	case errors.As(err, &c.Rejection):
		if c.Verdict = Unknown; c.What == Moved && endless(err) {
			c.Verdict = Listed
		}
	case errors.As(err, &failure):
		c.Verdict, c.Failure = Unknown, failure.Error()
	default:
		return err
	}
	return nil
}

// joined reports whether a loop of several blocks is among what is compared, of which a row is measured.
func (c *Change) joined() bool {
	return slices.ContainsFunc(slices.Concat(c.Base, c.Head), func(p *Piece) bool { return p.joined != nil })
}

// endless reports whether a loop does not end by a condition that its initial state can set, such as one of memory's
// contents. Its copies can be measured in a row, as a block's.
func endless(err error) bool {
	rejection, ok := errors.AsType[*verdict.Rejection](err)
	return ok && rejection.Reason == verdict.LoopExit
}

// groups are what is measured in one initial state: each piece with the one in its place, or all where their numbers
// differ.
func (c *Change) groups() (groups []Change) {
	if len(c.Base) != len(c.Head) {
		return []Change{{Base: c.Base, Head: c.Head}}
	}
	for i := range c.Base {
		groups = append(groups, Change{Base: c.Base[i : i+1], Head: c.Head[i : i+1]})
	}
	return groups
}

// inLayouts measures the groups one after another in the same layouts. A group that cannot be measured is left out,
// which its pieces say; the error is the first one's if none can.
func (o Options) inLayouts(ctx context.Context, p pool.Profiler, c *Change, tests int) error {
	base, head, complete := map[int]float64{}, map[int]float64{}, map[int]int{} // by the layout's number
	var (
		first    error
		measured int
	)
	for _, g := range c.groups() {
		branch := profiler.Branch("")
		if c.joined() {
			branch = profiler.NotTaken
		}
		layouts, err := o.group(ctx, p, &g, branch)
		if endless(err) {
			layouts, err = o.group(ctx, p, &g, profiler.NotTaken)
		}
		rejection, rejected := errors.AsType[*verdict.Rejection](err)
		for _, piece := range slices.Concat(g.Base, g.Head) {
			piece.Rejection = rejection
		}
		if rejected && !rejection.Reason.Noise() {
			first = cmp.Or(first, err)
			continue
		}
		if err != nil {
			return err
		}
		measured++
		for _, l := range layouts {
			for i, values := range l.Sides {
				if i < len(g.Base) {
					base[l.Layout.Number] += values[0]
				} else {
					head[l.Layout.Number] += values[0] / cmp.Or(c.Per, 1)
				}
			}
			complete[l.Layout.Number]++
		}
	}
	if measured == 0 {
		return first
	}
	var pairs []compare.Pair
	for _, n := range slices.Sorted(maps.Keys(complete)) {
		if complete[n] == measured {
			c.Samples.Base, c.Samples.Head = append(c.Samples.Base, base[n]), append(c.Samples.Head, head[n])
			pairs = append(pairs, compare.Pair{A: []float64{base[n]}, B: []float64{head[n]}})
		}
	}
	c.Times.Base, c.Times.Head, c.Layouts = stat.Mean(c.Samples.Base), stat.Mean(c.Samples.Head), len(pairs)
	if len(c.Base) == 0 || len(c.Head) == 0 {
		c.Verdict = Listed
		return nil
	}
	found, err := compare.Paired(pairs, tests)
	if err != nil {
		return err
	}
	c.Interval = &Interval{found.Mean, found.Low, found.High}
	c.Verdict = o.judge(c.Low, c.High)
	return nil
}

// group measures pieces of both sides in turn in the same layouts, and from one initial state.
func (o Options) group(ctx context.Context, p pool.Profiler, g *Change, branch profiler.Branch) ([]compare.Measured, error) {
	pieces := slices.Concat(g.Base, g.Head)
	var blocks []profiler.Block
	for _, piece := range pieces {
		if err := piece.stay(ctx, p); err != nil {
			return nil, err
		}
		b := piece.block()
		b.Setup.Branch = branch
		blocks = append(blocks, b)
	}
	sides, _, err := compare.Blocks(ctx, p, blocks)
	if err != nil {
		return nil, err
	}
	draw := compare.Draw(o.Seed, o.Layouts)
	for i := range draw {
		draw[i].Start -= draw[i].Start % line // a longer loop would cross lines in more layouts, wherever the build puts it
	}
	layouts, _, err := compare.Run(ctx, draw, experiment.Plan{Rounds: 1, Seed: o.Seed}, sides)
	if err != nil {
		return nil, err
	}
	for i, piece := range pieces {
		piece.Cycles = 0
		for _, l := range layouts {
			piece.Cycles += l.Sides[i][0] / float64(len(layouts))
		}
	}
	return layouts, nil
}

// judge compares an interval of percentages with the threshold.
func (o Options) judge(low, high float64) Verdict {
	switch limit := 100 * o.Threshold; {
	case low > limit:
		return Slower
	case high < -limit:
		return Faster
	case low >= -limit && high <= limit:
		return Same
	}
	return Unclear
}

// moved measures a loop where it stood and where it stands now.
func (o Options) moved(ctx context.Context, p pool.Profiler, c *Change, tests int) error {
	was, now := *c.Base[0], *c.Head[0]
	offset := now.Address % layout.PageSize
	now.Code, now.Address = was.Code, was.Address // the same, but for what is relative to its place
	samples, t, err := o.places(ctx, p, was, now, offset, tests)
	if err != nil {
		return err
	}
	c.Samples, c.Times.Base, c.Times.Head = samples, stat.Mean(samples.Base), stat.Mean(samples.Head)
	c.Interval = &Interval{t.Mean, t.Low, t.High}
	if c.Verdict = o.judge(t.Low, t.High); c.Verdict == Slower || c.Verdict == Faster {
		c.Verdict = Layout
	}
	return nil
}

// standing measures a changed loop that is not slower at the start of a line where the builds have it.
func (o Options) standing(ctx context.Context, p pool.Profiler, c *Change, tests int) error {
	if len(c.Base) != 1 || len(c.Head) != 1 || c.Verdict == Slower || c.Per != 0 || c.joined() {
		return nil
	}
	was, now := *c.Base[0], *c.Head[0]
	if !was.loop || !now.loop || !was.Placed || !now.Placed {
		return nil
	}
	_, t, err := o.places(ctx, p, was, now, now.Address%layout.PageSize, tests)
	if _, rejected := errors.AsType[*verdict.Rejection](err); rejected {
		return nil // the change has its verdict
	}
	if err == nil && o.judge(t.Low, t.High) == Slower {
		c.Verdict, c.Standing = Layout, t.Mean
	}
	return err
}

// places measures two loops in turn, the first at its place in its page, the second at an offset.
func (o Options) places(ctx context.Context, p pool.Profiler, was, now Piece, offset uint64, tests int) (Samples, stat.Test, error) {
	blocks := []profiler.Block{was.block(), now.block()}
	for i, at := range []int{int(was.Address % layout.PageSize), int(offset)} {
		blocks[i].Setup.CodeOffset = &at
	}
	values, err := experiment.Run(ctx, len(blocks), experiment.Plan{Rounds: placeRounds, Seed: o.Seed}, func(ctx context.Context, i int) (float64, error) {
		r, err := pool.Number(ctx, p, blocks[i])
		return r.Cycles, err
	})
	if err != nil {
		return Samples{}, stat.Test{}, err
	}
	var differences []float64
	for i := range values[0] {
		differences = append(differences, 100*(values[1][i]/values[0][i]-1))
	}
	return Samples{values[0], values[1]}, experiment.Joint(stat.OneSample(differences), tests), nil
}

// block is the piece as it is measured: where it stands in its program, so that its operands keep their alignment.
func (p *Piece) block() profiler.Block {
	b := profiler.Block{Code: p.Bytes}
	if p.Placed {
		b.Setup.Address = &p.Address
	}
	if p.joined != nil {
		b.Setup.Branch = profiler.NotTaken
	}
	return b
}

// cost weighs a function's pieces by their counts. A piece of the head runs as often as that of the base in its place,
// or as the most frequent one there.
func (o Options) cost(ctx context.Context, p pool.Profiler, f *Function) error {
	cost, varies := Cost{}, 0.0
	executed, missing := 0.0, 0.0 // instructions
	for _, piece := range f.equal {
		executed += piece.executed()
		if piece.Count == 0 {
			continue
		}
		if err := piece.stay(ctx, p); err != nil {
			return err
		}
		r, err := pool.Number(ctx, p, piece.block())
		switch {
		case errors.As(err, new(*verdict.Rejection)), errors.As(err, new(pool.Failure)):
			continue // it is equal on both sides
		case err != nil:
			return err
		}
		cost.Base += piece.Count * r.Cycles
		cost.Head += piece.Count * r.Cycles
	}
	for i := range f.Changes {
		c := &f.Changes[i]
		for _, b := range c.Base {
			executed += b.executed()
			if c.What != Moved && (b.Rejection != nil || c.Verdict == Unknown) {
				missing += b.executed()
			}
		}
		if c.What == Moved || c.Verdict == Unknown {
			continue
		}
		most, base, head := 0.0, 0.0, 0.0
		for _, b := range c.Base {
			most, base = max(most, b.Count), base+b.Count*b.Cycles
		}
		for k, h := range c.Head {
			count := most
			if len(c.Base) == len(c.Head) {
				count = c.Base[k].Count
			}
			head += count * h.Cycles / cmp.Or(c.Per, 1)
		}
		cost.Base, cost.Head = cost.Base+base, cost.Head+head
		if c.Interval != nil {
			if half := (c.High - c.Low) / 2 / 100 * base; !math.IsInf(half, 0) {
				varies = math.Hypot(varies, half)
			}
		}
		if most == 0 && c.What == Changed {
			c.Verdict = Uncalled
		}
	}
	if cost.Base == 0 {
		return nil
	}
	difference, half := 100*(cost.Head/cost.Base-1), 100*varies/cost.Base
	cost.Interval = &Interval{difference, difference - half, difference + half}
	cost.Missing = missing / executed
	f.Cost = &cost
	return nil
}

// Verdict of a function: that of its cost, if it has one, or the worst of its changes.
func (f *Function) Verdict(threshold float64) Verdict {
	if f.Cost != nil {
		v := Options{Threshold: threshold}.judge(f.Cost.Low, f.Cost.High)
		if v == Same && f.Cost.Missing > threshold {
			return Unclear
		}
		return v
	}
	worst := Listed
	for _, c := range f.Changes {
		if rank(c.Verdict) > rank(worst) {
			worst = c.Verdict
		}
	}
	return worst
}

func rank(v Verdict) int {
	return slices.Index([]Verdict{Listed, Uncalled, Same, Layout, Faster, Unclear, Unknown, Slower}, v)
}

// Describe says what changed, in words.
func (c *Change) Describe() string {
	kind := func(pieces []*Piece) string {
		if len(pieces) == 1 {
			return pieces[0].Kind()
		}
		return fmt.Sprintf("%d %ss", len(pieces), pieces[0].Kind())
	}
	switch {
	case c.What == Moved:
		return fmt.Sprintf("loop moved from byte %d to %d of a line", c.Base[0].Address%64, c.Head[0].Address%64)
	case c.What == New:
		return "new " + kind(c.Head)
	case c.What == Gone:
		return kind(c.Base) + " gone"
	case c.Per > 1:
		return fmt.Sprintf("loop changed, %g iterations at once", c.Per)
	case c.Per > 0:
		return fmt.Sprintf("loop changed, 1/%g of an iteration at once", 1/c.Per)
	case len(c.Base) == len(c.Head):
		return kind(c.Base) + " changed"
	}
	return kind(c.Base) + " changed to " + kind(c.Head)
}
