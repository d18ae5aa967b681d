// Package bounds finds what in a block makes its time, by intervention and without a model: it cuts
// chains of dependencies, adds instructions that the block does not wait for, and leaves instructions
// out, and measures each changed block.
//
//	measure the block → cut the chains → add work of each class → compare front ends
//	→ leave instructions out → name what bounds it
package bounds

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Kind is a kind of bound.
type Kind string

const (
	Chain    Kind = "chain"     // a chain of dependencies from iteration to iteration
	Class    Kind = "class"     // units that execute one class of work
	FrontEnd Kind = "front_end" // the slots in which instructions are decoded, renamed and retired
	Memory   Kind = "memory"    // a chain through memory: a store and a load that waits for it
	None     Kind = "none"      // none of these
)

// Time is a number of cycles with its interval.
type Time struct {
	Cycles float64 `json:"cycles"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// minus is a difference of two independent measurements, per copies of the block.
func (t Time) minus(u Time, copies int) Time {
	half := math.Hypot((t.High-t.Low)/2, (u.High-u.Low)/2)
	d, n := t.Cycles-u.Cycles, float64(copies)
	return Time{d / n, (d - half) / n, (d + half) / n}
}

// ChainReport is about instructions that wait for one another from one iteration to the next.
type ChainReport struct {
	Text         string  `json:"text"`         // the way round, with documented latencies
	Instructions []int   `json:"instructions"` // on it, from 1, in order
	Memory       bool    `json:"through_memory"`
	Copies       int     `json:"iterations"`                 // that one round takes
	Documented   float64 `json:"documented_cycles,omitzero"` // an iteration; 0 if one latency is not known
	// Saved is what an iteration loses when the chain is cut, against the same instructions added where they
	// cut nothing.
	Saved    *Time  `json:"saved,omitempty"`
	Untested string `json:"untested,omitempty"` // why it was not cut
	Binds    bool   `json:"binds"`
}

// Slack is how much more of a class of work a block has room for.
type Slack struct {
	Class    string  `json:"class"`
	Probe    string  `json:"probe"`     // the instruction that was added
	FreeLow  float64 `json:"free_low"`  // the most an iteration that did not make its time grow
	FreeHigh float64 `json:"free_high"` // the least that did
	Slope    float64 `json:"slope"`     // cycles that each further one takes once the class is full
	// Room is how many would be free if they were never in the way before the class is full, and Share that
	// as a share of all that the class does in the time.
	Room     float64 `json:"room"`
	Share    float64 `json:"free_share"`
	Untested string  `json:"untested,omitempty"`
}

// saturated is the share of a class's time below which nothing of it counts as free: at least the difference
// between two runs (docs/method.md), and the resolution of one probe in the timed copies.
const saturated = 0.04

// Part is what one instruction makes of the time. It is a derivative, not a share: parts need not add
// up to the whole.
type Part struct {
	Instruction int    `json:"instruction"` // from 1
	Text        string `json:"text"`
	Saved       *Time  `json:"saved,omitempty"`
	Replaced    string `json:"replaced,omitempty"` // what stood in its place, if anything did
	Untested    string `json:"untested,omitempty"`
}

// FrontEndReport compares what serves the instructions.
type FrontEndReport struct {
	Slots    float64 `json:"slots_per_cycle"` // instructions a cycle where all that is free is filled
	Loop     *Time   `json:"loop,omitempty"`
	Decoders *Time   `json:"decoders,omitempty"`
}

// Answer is what came of a block.
type Answer struct {
	Base     profiler.Result `json:"base"`
	Bound    Kind            `json:"bound,omitempty"`
	Bounds   []Kind          `json:"bounds,omitempty"` // all within 2 % of the time
	Sentence string          `json:"sentence,omitempty"`
	Chains   []ChainReport   `json:"chains"`
	Slack    []Slack         `json:"slack"`
	FrontEnd FrontEndReport  `json:"front_end"`
	Parts    []Part          `json:"parts"`
	// Address is where the block stands in its program, nil if that is not known. With Base.Init.Set it tells
	// answers about the same bytes apart.
	Address *profiler.Address `json:"address,omitempty"`
}

// Options choose what to ask.
type Options struct {
	NoParts bool // do not leave instructions out
}

// question is one block under way.
type question struct {
	ctx   context.Context
	p     measure.Profiler
	setup profiler.Setup
	insts []asm.Inst
	room  room
	state asm.State
	base  profiler.Result
	width float64 // slots a cycle, as documented
}

// Find says what bounds a block. The results of p must carry predictions and the host
// (profiler.Options.Detail). A block that cannot be measured has an Answer of its Base alone. So has one that bbprof
// fails on, be it changed: the error is the host's or ctx's, and other blocks would fare no better.
func Find(ctx context.Context, p measure.Profiler, b profiler.Block, opts Options) (Answer, error) {
	a, err := find(ctx, p, b, opts)
	if failure := measure.Failure(""); errors.As(err, &failure) {
		a.Base.Status, a.Base.Failure = profiler.Failed, err.Error()
		return Answer{Base: a.Base, Address: a.Address}, nil
	}
	return a, err
}

func find(ctx context.Context, p measure.Profiler, b profiler.Block, opts Options) (a Answer, err error) {
	q := &question{ctx: ctx, p: p, setup: b.Setup}
	q.base, err = measure.Undisturbed(ctx, p, b)
	a.Base, a.Address = q.base, (*profiler.Address)(b.Setup.Address)
	if err != nil || q.base.Status != profiler.OK {
		return a, err
	}
	if q.insts, err = asm.Decode(b.Code); err != nil {
		return a, err
	}
	q.state = asm.StateOf(q.insts)
	q.width = float64(cpu.WidestDispatch()) // more probes than needed cost time, too few miss what is full
	if h := q.base.Host; h != nil && h.CPU.DispatchWidth > 0 {
		q.width = float64(h.CPU.DispatchWidth)
	}
	// what was rescued or given frames is to stay so in each changed block
	q.setup.Init, q.setup.Frames = &q.base.Init, max(q.base.Frames, q.setup.Frames)
	if q.base.Frames <= 1 {
		q.setup.Frames = b.Setup.Frames
	}
	q.setup.Tolerate = append(slices.Clone(q.setup.Tolerate), verdict.Unstable, verdict.Nonlinear)
	q.room = roomOf(q.insts)
	for _, step := range []func(*Answer) error{q.findRoom, q.chains, q.slacks, q.frontEnds} {
		if err := step(&a); err != nil {
			return a, err
		}
	}
	if !opts.NoParts {
		if err := q.parts(&a); err != nil {
			return a, err
		}
	}
	a.conclude()
	return a, nil
}

// time measures a changed block. A rejection is no error: why says what it was.
func (q *question) time(c change) (t Time, why string, err error) {
	return q.timeIn(c, q.setup)
}

func (q *question) timeIn(c change, s profiler.Setup) (t Time, why string, err error) {
	code := c.apply(q.insts)
	r, err := measure.Undisturbed(q.ctx, q.p, profiler.Block{Code: code, Setup: s})
	switch {
	case err != nil:
		return t, "", err
	case r.Status == profiler.Failed:
		return t, "", fmt.Errorf("measuring it changed, as %x: %w", code, measure.Failure(r.Failure))
	case r.Status == profiler.Rejected:
		return t, fmt.Sprintf("the changed block is rejected (%s)", r.Reason), nil
	}
	return Time{r.Cycles, r.CILow, r.CIHigh}, "", nil
}

// displacements are where a probe's access may go, from where a register points that the block
// leaves alone: within the page for the paper's pointers, on lines that few blocks use.
var displacements = []int32{0x480, -0x480, 0x7c0, -0x3c0, 0x200, -0x5c0}

// findRoom finds a place for the memory accesses of probes that disturbs no access of the block.
func (q *question) findRoom(*Answer) error {
	for _, d := range displacements {
		q.room.disp = d
		var add [][]byte
		for _, p := range classes {
			for n := range 8 {
				if code := p.code(q.room, n); code != nil && (p.name == "load" || p.name == "store") {
					add = append(add, code)
				}
			}
		}
		if _, why, err := q.time(change{spread: add}); err != nil || why == "" {
			return err
		}
	}
	q.room.fixed = none // no place was found
	return nil
}

// unchanged is what so many copies of the block take, unchanged.
func (q *question) unchanged(copies int) (Time, string, error) {
	if copies == 1 {
		return Time{q.base.Cycles, q.base.CILow, q.base.CIHigh}, "", nil
	}
	return q.time(change{copies: copies})
}

// leastCycles is how long the copies last that probes are added to, so that a class that takes one
// an eighth of a cycle is told from one that is full. mostBytes keeps them in the op cache.
const (
	leastCycles = 8
	mostBytes   = 1024
)

func (q *question) slacks(a *Answer) error {
	bytes := 0
	for i := range q.insts {
		bytes += len(q.insts[i].Bytes)
	}
	copies := int(math.Ceil(leastCycles / q.base.Cycles))
	copies = max(1, min(copies, mostBytes/bytes))
	base, why, err := q.unchanged(copies)
	if err != nil {
		return err
	}
	for _, p := range slices.Concat(frontEnd, classes) {
		s := Slack{Class: p.name, Probe: p.text, Untested: why}
		switch {
		case why != "":
		case p.code(q.room, 0) == nil:
			s.Untested = "the block leaves no register for it, or has no such access"
		default:
			if s, err = q.slack(s, p, base, copies); err != nil {
				return err
			}
		}
		a.Slack = append(a.Slack, s)
	}
	return nil
}

// growth is the least share by which time must grow to count: twice the difference between repeated
// measurements (docs/method.md). Beyond full, time is assumed to grow alike with every probe: the class is
// full, and no longer merely in the way of the block's own instructions.
const (
	growth = 0.015
	full   = 1.5
)

// atOnce is the share of their later cost that the first probes must cost for their class to be full already:
// what is merely in the way of the block's own work costs less.
const atOnce = 0.75

// steeper is the share by which time grows faster farther out if a class is not full yet, and its probes are in the way of
// the block's own work alone: a multiplication takes 0.28 cycles beside two chains of adds on Zen 5, and a third of one once its units are full.
const steeper = 0.1

// adding measures the block with more and more of a probe.
type adding struct {
	q      *question
	probe  probe
	copies int
	times  map[int]float64
	why    string // why one was not measured
}

func (a *adding) at(k int) (float64, error) {
	if t, ok := a.times[k]; ok || a.why != "" {
		return t, nil
	}
	var add [][]byte
	for n := range k {
		add = append(add, a.probe.code(a.q.room, n))
	}
	t, why, err := a.q.time(change{copies: a.copies, spread: add})
	a.times[k], a.why = t.Cycles, why
	return t.Cycles, err
}

// slack finds how many probes are free and what the next ones take.
func (q *question) slack(s Slack, p probe, base Time, copies int) (Slack, error) {
	a := &adding{q, p, copies, map[int]float64{0: base.Cycles}, ""}
	last, most := 1, 4*int(q.width*base.Cycles)
	for ; ; last *= 2 {
		if t, err := a.at(last); err != nil || t >= full*base.Cycles || a.why != "" || last > most {
			if err != nil {
				return s, err
			}
			break
		}
	}
	// the first that makes time grow, among those between
	low, high := 0, last
	for high-low > max(1, copies/4) && a.why == "" {
		middle := (low + high) / 2
		if t, err := a.at(middle); err != nil {
			return s, err
		} else if t > base.Cycles*(1+growth) {
			high = middle
		} else {
			low = middle
		}
	}
	n := float64(copies)
	s.FreeLow, s.FreeHigh = float64(low)/n, float64(high)/n
	for ; ; last *= 2 {
		there, err := a.at(last)
		if err != nil {
			return s, err
		}
		beyond, err := a.at(2 * last)
		if s.Untested = a.why; err != nil || a.why != "" {
			return s, err
		}
		if s.Slope = (beyond - there) / float64(last); s.Slope <= 0 {
			return s, nil
		}
		// where the line of growth leaves the time that nothing was added to
		s.Room = max(0, float64(last)-(there-base.Cycles)/s.Slope) / n
		s.Share = min(1, s.Room*s.Slope*n/base.Cycles)
		fullAtOnce, err := a.costsAtOnce(base.Cycles, s.Slope, low, 4*last)
		if err != nil {
			return s, err
		}
		if fullAtOnce {
			s.Room, s.Share = 0, 0 // later ones may cost less, as stores to one line after another do
		}
		if s.Share >= saturated || last > most {
			return s, nil
		}
		farther, err := a.at(4 * last)
		if err != nil || a.why != "" || farther-beyond <= (1+steeper)*2*float64(last)*s.Slope {
			return s, err
		}
	}
}

// costsAtOnce reports whether a class is full before anything is added: half of what it does in the time, and as much as it does, then
// cost nearly what the same cost later. As many as low are known to be free; no more than most are added, however little the later
// ones cost.
func (a *adding) costsAtOnce(base, slope float64, low, most int) (bool, error) {
	whole := int(min(base/slope, float64(most)))
	for _, k := range []int{min(whole/2, a.copies), whole} {
		if k <= low {
			return false, nil
		}
		t, err := a.at(k)
		if err != nil || t-base <= atOnce*slope*float64(k) {
			return false, err
		}
	}
	return true, nil
}

func (q *question) frontEnds(a *Answer) error {
	if s, known := a.freeSlots(); known {
		a.FrontEnd.Slots = (float64(len(q.insts)) + s.FreeLow) / q.base.Cycles
	}
	loop, decoders := q.setup, q.setup
	loop.Mode, decoders.FrontEnd = profiler.Loop, profiler.Decode
	for _, m := range []struct {
		setup profiler.Setup
		time  **Time
	}{{loop, &a.FrontEnd.Loop}, {decoders, &a.FrontEnd.Decoders}} {
		t, why, err := q.timeIn(change{}, m.setup)
		if err != nil {
			return err
		}
		if why == "" {
			*m.time = &t
		}
	}
	return nil
}

// mostParts is how many instructions are left out, each with a measurement or two.
const mostParts = 200

// parts leaves out one instruction after another.
func (q *question) parts(a *Answer) error {
	if len(q.insts) == 1 || len(q.insts) > mostParts {
		return nil
	}
	base := Time{q.base.Cycles, q.base.CILow, q.base.CIHigh}
	for i := range q.insts {
		in := &q.insts[i]
		p := Part{Instruction: i + 1, Text: in.Text()}
		t, why, err := q.time(change{replace: map[int][]byte{i: nil}})
		if err != nil {
			return err
		}
		if _, writes := in.Dataflow(); why != "" && writes.GPR != 0 && writes.Without(asm.Values{GPR: writes.GPR, Flags: writes.Flags}) == (asm.Values{}) {
			var constants []byte
			for n := range 16 {
				if writes.GPR>>n&1 != 0 {
					constants = append(constants, movImm(n, q.base.Init.GPR[n])...)
				}
			}
			p.Replaced = "constants in what it writes"
			if t, why, err = q.time(change{replace: map[int][]byte{i: constants}}); err != nil {
				return err
			}
		}
		if p.Untested = why; why == "" {
			saved := base.minus(t, 1)
			p.Saved = &saved
		} else {
			p.Replaced = ""
		}
		a.Parts = append(a.Parts, p)
	}
	return nil
}
