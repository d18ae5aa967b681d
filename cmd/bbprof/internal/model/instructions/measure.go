package instructions

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Measure measures the probes of plans and their bridges, and returns a row per plan. width is the most instructions a
// cycle that the core can begin, 0 if unknown. progress is called after each block with the numbers done and in all. An error comes
// with the rows of the plans that were done before it.
func Measure(ctx context.Context, workers []pool.Measurer, plans []Plan, retries, width int, progress func(done, of int)) ([]Row, error) {
	q := &queue{retries: retries, width: width, progress: progress}
	q.Done, q.Block = q.finish, func(j *job) profiler.Block { return profiler.Block{Code: j.probe.Code, Setup: j.setup()} }
	bridges := map[bridge]*job{}
	var order []bridge // each after those it needs
	var need func(Probe)
	need = func(p Probe) {
		for _, b := range p.Bridges {
			if _, planned := bridges[b]; !planned {
				probe := bridgeProbe(b)
				need(probe) // its value is needed first
				bridges[b] = newJob(-1, probe)
				q.Jobs, order = append(q.Jobs, bridges[b]), append(order, b)
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
			j := newJob(i, probe)
			q.Jobs, ofPlan[i] = append(q.Jobs, j), append(ofPlan[i], j)
		}
	}
	// Wide operations slow the core, and later narrow ones, for a millisecond.
	slices.SortStableFunc(q.Jobs, func(a, b *job) int { return cmp.Compare(a.bits, b.bits) })
	q.all = len(q.Jobs)
	ended := q.Run(ctx, workers)
	known := map[bridge]Value{}
	for _, b := range order {
		if j := bridges[b]; j.result.Status == profiler.OK {
			known[b] = j.value(known)
		}
	}
	for _, j := range q.added {
		ofPlan[j.plan] = append(ofPlan[j.plan], j)
	}
	var rows []Row
	for i := range plans {
		if ended == nil || !slices.ContainsFunc(ofPlan[i], func(j *job) bool { return !j.settled }) && q.bridged(&plans[i], known) {
			rows = append(rows, newRow(&plans[i], ofPlan[i], known))
		}
	}
	return rows, ended
}

type job struct {
	plan     int // -1 for a bridge
	probe    Probe
	repeat   repetition
	short    bool // loops are short
	bits     int  // widest operation, at least 128
	tries    int
	settled  bool   // measured for good
	why      string // why rows were rejected, with a reason that is then tolerated
	rejected verdict.Reason
	result   profiler.Result
	kept     []attempt
	varies   int             // differing measurements, all in doubt; the interval holds all
	measured [asMean + 1]int // by repetition
}

func newJob(plan int, probe Probe) *job { return &job{plan: plan, probe: probe, bits: probe.bits()} }

type attempt struct {
	result profiler.Result
	repeat repetition
	short  bool
}

// repetition is how a block repeats. A block without one fixed time in a row is measured in a loop, long enough to hide
// its start; without one there, either, it has a mean.
type repetition uint8

const (
	inRow repetition = iota
	inLoop
	asMean
)

// off is the tolerance for an expected number, as a share: most intervals are ± 0.3 %.
const off = 0.007

// inDoubt reports whether the start of a row may affect the last result, which a loop tells: if a chain takes no whole
// number of cycles, or independent instructions take less than the core's width allows, no simple share of a cycle, or
// several times. In a row they can stay bound to the same ports, good or bad, for good.
func (j *job) inDoubt(width int) bool {
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

func whole(cycles float64) bool { return math.Abs(cycles-math.Round(cycles)) <= off*cycles }

// simple reports whether cycles are a multiple of one half, or fit one to six units of one instruction a cycle.
func simple(cycles float64) bool {
	expected := math.Round(2*cycles) / 2
	if cycles < 1-off {
		expected = 1 / min(6, math.Round(1/cycles))
	}
	return math.Abs(cycles-expected) <= off*expected
}

// nextRepetition returns how a block is measured next, if at all: a doubtful one once more in a row, as it may have been
// disturbed, then twice in a loop. Chains through two unlike 512-bit units or through memory have no fixed time in a
// loop, either.
func (j *job) nextRepetition(width int) (next repetition, more bool) {
	switch {
	case j.result.Status == profiler.OK && !j.inDoubt(width), j.repeat == asMean:
		return 0, false
	case j.repeat == inRow && j.measured[inRow] < 2:
		return inRow, true
	case j.probe.Kind == Latency && j.bits == 512, j.probe.throughMemory():
		return 0, false
	}
	return inLoop, j.measured[inLoop] < 2
}

// differing is the share by which a block's unequal measurements differ.
const differing = 0.02

// settle chooses among the results: the last if not in doubt, else the fastest of those in a loop, which are last, or of
// a chain's rows, since disturbances slow a chain. Throughputs that differ, all in doubt, get an interval that holds
// them all.
func (j *job) settle(width int) {
	sound := j.result.Status == profiler.OK && !j.inDoubt(width)
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

// tolerated are rejections that some instructions always have: a processor may eliminate additions of constants only for
// a while. Their mean is given with the reason.
var tolerated = []verdict.Reason{verdict.Nonlinear, verdict.Unstable}

// A loop of many iterations runs 24,000 instructions or more, too long for an undisturbed window if slow. So
// instructions of slow cycles and more run in loops of loopInstructions and twice as many.
const (
	loopInstructions = 512
	slow             = 2
)

func (j *job) setup() profiler.Setup {
	// Few copies: the throughput must not be the front end's, which depends on bytes and neighbours.
	s := profiler.Setup{Set: j.probe.Set, Unroll: j.probe.Unroll}
	switch j.repeat {
	case inLoop:
		s.Mode, s.Unroll = profiler.Loop, nil
		insts, _ := asm.Decode(j.probe.Code) // bbprof reports invalid code
		if j.short {
			n := max(16, loopInstructions/max(1, len(insts)))
			s.Unroll = &unroll.Factors{Short: n, Long: 2 * n}
		}
	case asMean:
		s.Tolerate = tolerated
	}
	return s
}

// throughMemory reports whether each link waits for a store. Those take 7.36 cycles in rows of any length; in loops
// 6.07, or 5 or 7.36 for a while, which short loops would hide.
func (p *Probe) throughMemory() bool {
	return p.Kind == StoreToLoad || strings.HasSuffix(p.Pair, "to m")
}

// slowLoop reports whether loops must be short: the row was slow, or a long loop was interrupted.
func (j *job) slowLoop() bool {
	insts, _ := asm.Decode(j.probe.Code)
	if j.probe.throughMemory() {
		return false
	}
	if r := j.result.Rejection; r != nil {
		return r.Reason == verdict.ContextSwitch
	}
	return j.result.Cycles >= slow*float64(len(insts))
}

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
	pool.Queue[job]
	retries  int
	width    int
	progress func(done, of int)

	added     []*job // planned from results
	all, done int
}

func (q *queue) finish(j *job, r profiler.Result) {
	j.tries++
	j.result = r
	j.short = j.short || j.slowLoop()
	j.measured[j.repeat]++
	if r.Status == profiler.OK {
		j.kept = append(j.kept, attempt{r, j.repeat, j.short})
	}
	reason := verdict.Reason("")
	if r.Rejection != nil {
		reason = r.Rejection.Reason
	}
	again := false
	switch {
	case len(j.kept) > 0:
		next, more := j.nextRepetition(q.width)
		if more {
			j.repeat, again = next, true
			break
		}
		j.settle(q.width)
		if probe, ok := j.inShortRow(); ok {
			short := newJob(j.plan, probe)
			q.added, q.Jobs = append(q.added, short), append(q.Jobs, short)
			q.all++
		}
	case reason == "": // a failure
	case reason.Noise() && j.repeat != inLoop && j.tries <= q.retries, j.measured[inLoop] == 1:
		again = true
	case j.repeat == inLoop, j.repeat == inRow && slices.Contains(tolerated, reason):
		if j.repeat == inRow {
			j.why, j.rejected = r.Rejection.Detail, reason
		}
		j.repeat++
		again = true
	case reason == verdict.SIGILL && j.plan >= 0 && len(j.probe.Bridges) == 0:
		q.Jobs = slices.DeleteFunc(q.Jobs, func(other *job) bool {
			if other.plan != j.plan {
				return false
			}
			other.settled = true
			other.result = profiler.Result{Status: profiler.Rejected, Reason: verdict.SIGILL,
				Rejection: &verdict.Rejection{Reason: verdict.SIGILL, Detail: "this CPU does not have the instruction"}}
			q.report()
			return true
		})
	}
	if again {
		q.Jobs = append(q.Jobs, j)
	} else {
		j.settled = true
		q.report()
	}
}

// bridged reports whether all bridges of a plan have been measured.
func (q *queue) bridged(p *Plan, known map[bridge]Value) bool {
	return !slices.ContainsFunc(p.Probes, func(probe Probe) bool {
		return slices.ContainsFunc(probe.Bridges, func(b bridge) bool { _, ok := known[b]; return !ok })
	})
}

func (q *queue) report() {
	q.done++
	if q.progress != nil {
		q.progress(q.done, q.all)
	}
}
