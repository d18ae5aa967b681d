package instructions

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// ErrInterrupted ends a measurement whose context ended.
var ErrInterrupted = errors.New("interrupted")

// Measure measures the probes of plans and the bridges that they use, and gives a row for each plan. width is how
// many instructions a cycle the core can begin at most, 0 if that is not known.
// progress is told after each block how many are done, and of how many.
func Measure(ctx context.Context, workers []measure.Measurer, plans []Plan, retries, width int, progress func(done, of int)) ([]Row, error) {
	q := &queue{ctx: ctx, retries: retries, width: width, absent: map[int]bool{}, progress: progress}
	bridges := map[bridge]*job{}
	var order []bridge // each after those that it needs
	var need func(Probe)
	need = func(p Probe) {
		for _, b := range p.Bridges {
			if _, planned := bridges[b]; !planned {
				probe := bridgeProbe(b)
				need(probe) // first, for its value is needed first
				bridges[b] = &job{plan: -1, probe: probe, bits: probe.bits()}
				q.jobs, order = append(q.jobs, bridges[b]), append(order, b)
			}
		}
	}
	for i := range plans {
		for _, probe := range plans[i].Probes {
			need(probe)
		}
	}
	ofPlan := make([][]*job, len(plans))
	for i := range plans {
		for _, probe := range plans[i].Probes {
			j := &job{plan: i, probe: probe, bits: probe.bits()}
			q.jobs, ofPlan[i] = append(q.jobs, j), append(ofPlan[i], j)
		}
	}
	// Wide operations slow the core, and narrower ones behind them, for a millisecond.
	slices.SortStableFunc(q.jobs, func(a, b *job) int { return cmp.Compare(a.bits, b.bits) })
	err := measure.Run(&q.pool, workers, measure.Jobs[job]{Take: q.take, Done: q.finish, Block: func(j *job) profiler.Block {
		return profiler.Block{Code: j.probe.Code, Setup: j.setup()}
	}})
	if err != nil {
		return nil, err
	}
	known := map[bridge]Value{}
	for _, b := range order {
		if j := bridges[b]; j.result.Status == profiler.OK {
			known[b] = j.value(known)
		}
	}
	for _, j := range q.added {
		ofPlan[j.plan] = append(ofPlan[j.plan], j)
	}
	rows := make([]Row, len(plans))
	for i := range plans {
		rows[i] = newRow(&plans[i], ofPlan[i], known)
	}
	return rows, nil
}

// job is a probe and what came of it.
type job struct {
	plan     int // -1 of a bridge
	probe    Probe
	repeat   repetition
	short    bool // loops are short
	bits     int  // of the widest operation, at least 128
	tries    int
	why      string // it was rejected in a row of copies for what is then tolerated
	rejected verdict.Reason
	result   profiler.Result
	kept     []attempt
	varies   int // how many measurements differ, none of them beyond doubt; the result's interval holds all
	rows     int // measurements in a row of copies
	loops    int
}

// attempt is a result of a block that may be measured again.
type attempt struct {
	result profiler.Result
	repeat repetition
	short  bool
}

// repetition is how a block is repeated. What has no one time in a row of copies is measured in a loop, which is
// long enough for what happens at its beginning not to matter; what has none there, either, has a mean.
type repetition uint8

const (
	inRow repetition = iota
	inLoop
	asMean
)

// off is how far a number may be from one that is to be expected, as a share: most intervals are ± 0.3 %.
const off = 0.007

// doubtful reports whether what happens at the beginning of a row of copies may have a part in the last result, which
// a loop tells. So it may if a chain takes no whole number of cycles, or if independent instructions take less than a
// core of that width can, no simple share of a cycle, or several times: what ports they are bound to in a row can stay
// so, the better or the worse, for good.
func (j *job) doubtful(width int) bool {
	c, links := j.result.Cycles, float64(j.probe.Links)
	switch {
	case j.repeat == asMean:
		return false
	case j.probe.Kind == Throughput:
		wide := j.result.CIHigh-j.result.CILow > 0.02*c
		return wide || !simple(c/links) || j.repeat == inRow && c*float64(width) < links
	}
	return j.repeat == inRow && (j.probe.Kind == Latency || j.probe.Kind == Bridge) && !whole(c)
}

// simple reports whether cycles are what one to six units leave that do each instruction in a cycle, or halves.
func simple(cycles float64) bool {
	expected := math.Round(2*cycles) / 2
	if cycles < 1-off {
		expected = 1 / min(6, math.Round(1/cycles))
	}
	return math.Abs(cycles-expected) <= off*expected
}

// again is how a block is measured next, if it is: a doubtful one once more in a row, for it may have been disturbed,
// then twice in a loop. A chain through two unlike units of 512 bits has no one time in a loop, either, nor has one
// through memory.
func (j *job) again(width int) (next repetition, more bool) {
	switch {
	case j.result.Status == profiler.OK && !j.doubtful(width), j.repeat == asMean:
		return 0, false
	case j.repeat == inRow && j.rows < 2:
		return inRow, true
	case j.probe.Kind == Latency && j.bits == 512, j.throughMemory():
		return 0, false
	}
	return inLoop, j.loops < 2
}

// differing is how far measurements of one block differ that are not of one time, as a share.
const differing = 0.02

// settle chooses among the results: the last if it is not in doubt, else the fastest of those in a loop, which are last,
// or of a chain's in a row, for what disturbs a chain makes it slower.
// Throughputs that differ, all in doubt, have an interval that holds them all.
func (j *job) settle(width int) {
	sound := j.result.Status == profiler.OK && !j.doubtful(width)
	best := j.kept[len(j.kept)-1]
	all := best.result
	slowest, fastest := all.Cycles, all.Cycles
	for _, a := range j.kept {
		faster := a.repeat == best.repeat && a.result.Cycles < best.result.Cycles
		if !sound && faster && (best.repeat == inLoop || best.repeat == inRow && j.probe.Kind != Throughput) {
			best = a
		}
		slowest, fastest = max(slowest, a.result.Cycles), min(fastest, a.result.Cycles)
		all.CILow, all.CIHigh = min(all.CILow, a.result.CILow), max(all.CIHigh, a.result.CIHigh)
	}
	if !sound && j.probe.Kind == Throughput && slowest > (1+differing)*fastest {
		j.varies = len(j.kept)
		best.result.CILow, best.result.CIHigh = all.CILow, all.CIHigh
	}
	j.result, j.repeat, j.short, j.kept = best.result, best.repeat, best.short, nil
}

// tolerated are the reasons that some instructions have for good: a processor that does away with adds of
// constants can do so for a while alone. Their mean is given with the reason beside it.
var tolerated = []verdict.Reason{verdict.Nonlinear, verdict.Unstable}

// A loop of many iterations runs 24,000 instructions and more, of which slow ones take longer than an undisturbed
// window. So instructions of slow cycles and more run in loops of loopInstructions and twice as many.
const (
	loopInstructions = 512
	slow             = 2
)

func (j *job) setup() profiler.Setup {
	// Few copies: an instruction's throughput is not that of the front end, which depends on its bytes and on what stands beside it.
	s := profiler.Setup{Set: j.probe.Set, Unroll: j.probe.Unroll, FewCopies: true}
	switch j.repeat {
	case inLoop:
		s.Mode, s.Unroll = profiler.Loop, nil
		insts, _ := asm.Decode(j.probe.Code) // of what is no code bbprof says so
		if j.short {
			n := max(16, loopInstructions/max(1, len(insts)))
			s.Unroll = &unroll.Factors{Short: n, Long: 2 * n}
		}
	case asMean:
		s.Tolerate = tolerated
	}
	return s
}

// throughMemory reports whether each link waits for a store. Those take 7.36 cycles in rows of any length, and in loops
// 6.07, or 5 or 7.36 for a while; short loops would hide that.
func (j *job) throughMemory() bool {
	return j.probe.Kind == StoreToLoad || strings.HasSuffix(j.probe.Pair, "to m")
}

// slowLoop reports whether loops of the block should be short: by what it took in a row, or because a long one was
// interrupted.
func (j *job) slowLoop() bool {
	insts, _ := asm.Decode(j.probe.Code)
	if j.throughMemory() {
		return false
	}
	if r := j.result.Rejection; r != nil {
		return r.Reason == verdict.ContextSwitch
	}
	return j.result.Cycles >= slow*float64(len(insts))
}

// flags are those of bbprof for the same set-up.
func (j *job) flags() string {
	s := j.setup()
	var list []string
	if len(s.Set) > 0 {
		list = append(list, "-set "+s.Set.String())
	}
	if s.Mode != "" {
		list = append(list, "-mode "+string(s.Mode))
	}
	if s.Unroll != nil {
		list = append(list, "-unroll "+s.Unroll.String())
	}
	return strings.Join(list, " ")
}

type queue struct {
	ctx      context.Context
	retries  int
	width    int
	progress func(done, of int)

	pool   measure.Pool
	jobs   []*job
	aside  []*job // rejected for noise
	added  []*job // planned by what others took; in jobs, too
	next   int
	done   int
	flying int
	absent map[int]bool // plans whose instruction this CPU does not have
}

// take is the next job.
func (q *queue) take(int) (*job, bool, error) {
	for q.ctx.Err() == nil {
		var j *job
		switch {
		case q.next < len(q.jobs):
			j = q.jobs[q.next]
			q.next++
		case len(q.aside) > 0:
			j = q.aside[0]
			q.aside = q.aside[1:]
		default:
			return nil, q.flying > 0, nil
		}
		if q.absent[j.plan] {
			j.result = profiler.Result{Status: profiler.Rejected, Reason: verdict.SIGILL, Rejection: &verdict.Rejection{Reason: verdict.SIGILL, Detail: notHere}}
			q.report()
			continue
		}
		j.tries++
		q.flying++
		return j, true, nil
	}
	return nil, false, ErrInterrupted
}

// notHere is why a form is not measured.
const notHere = "this CPU does not have the instruction"

func (q *queue) finish(j *job, r profiler.Result, err error) error {
	defer q.pool.Wake()
	q.flying--
	if err != nil {
		return err
	}
	j.result = r
	j.short = j.short || j.slowLoop()
	switch j.repeat {
	case inRow:
		j.rows++
	case inLoop:
		j.loops++
	}
	if r.Status == profiler.OK {
		j.kept = append(j.kept, attempt{r, j.repeat, j.short})
	}
	if len(j.kept) > 0 {
		if next, more := j.again(q.width); more {
			j.repeat = next
			q.aside = append(q.aside, j)
			return nil
		}
		j.settle(q.width)
		for _, probe := range append(j.besides(), j.inShortRow()...) {
			added := &job{plan: j.plan, probe: probe, bits: j.bits}
			q.jobs, q.added = append(q.jobs, added), append(q.added, added)
		}
		q.report()
		return nil
	}
	if r.Rejection != nil && (r.Rejection.Reason.Noise() && j.repeat != inLoop && j.tries <= q.retries || j.loops == 1) {
		q.aside = append(q.aside, j)
		return nil
	}
	if r.Rejection != nil && j.repeat < asMean && (j.repeat == inLoop || slices.Contains(tolerated, r.Rejection.Reason)) {
		if j.repeat == inRow {
			j.why, j.rejected = r.Rejection.Detail, r.Rejection.Reason
		}
		j.repeat++
		q.aside = append(q.aside, j)
		return nil
	}
	if r.Rejection != nil && r.Rejection.Reason == verdict.SIGILL && j.plan >= 0 && len(j.probe.Bridges) == 0 {
		q.absent[j.plan] = true
	}
	q.report()
	return nil
}

func (q *queue) report() {
	q.done++
	if q.progress != nil {
		q.progress(q.done, len(q.jobs))
	}
}
