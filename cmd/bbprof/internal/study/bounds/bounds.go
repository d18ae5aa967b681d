// Package bounds finds by intervention, without a model, what limits a block's speed: it cuts dependency chains, adds
// independent instructions, leaves instructions out, and measures each changed block.
//
//	measure the block → cut the chains → add work of each class → compare front ends
//	→ leave instructions out → name what bounds it
package bounds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/rewrite"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type Kind string

const (
	Chain    Kind = "chain"     // a loop-carried dependency chain
	Class    Kind = "class"     // the units that execute one class of work
	FrontEnd Kind = "front_end" // the slots for decode, rename and retirement
	Memory   Kind = "memory"    // a chain through memory: a store and a dependent load
	Branches Kind = "branches"  // one taken branch a cycle
	None     Kind = "none"      // none of these
)

type Time struct {
	Cycles float64 `json:"cycles"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// minus returns the difference of two independent measurements, per copy of the block.
func (t Time) minus(u Time, copies int) Time {
	half := math.Hypot((t.High-t.Low)/2, (u.High-u.Low)/2)
	d, n := t.Cycles-u.Cycles, float64(copies)
	return Time{d / n, (d - half) / n, (d + half) / n}
}

// ChainReport describes instructions that form a loop-carried dependency chain.
type ChainReport struct {
	Text         string  `json:"text"`         // the chain, with documented latencies
	Instructions []int   `json:"instructions"` // in order, numbered from 1
	Memory       bool    `json:"through_memory"`
	Copies       int     `json:"iterations"`                 // spanned by one round
	Documented   float64 `json:"documented_cycles,omitzero"` // per iteration; 0 if a latency is unknown
	// Saved is the time per iteration saved by cutting the chain, compared with the same instructions added where they
	// cut nothing.
	Saved    *Time  `json:"saved,omitempty"`
	Untested string `json:"untested,omitempty"` // why it was not cut
	Binds    bool   `json:"binds"`              // cutting it saves time
	Together bool   `json:"together,omitzero"`  // Saved is of a block in which all other chains are cut
	AsLong   bool   `json:"as_long,omitzero"`   // by its documented latency as long as the time, though cutting it saves none
}

// Slack is how much work of a class can be added for free.
type Slack struct {
	Class    string  `json:"class"`
	Probe    string  `json:"probe"`     // the added instruction
	FreeLow  float64 `json:"free_low"`  // the most per iteration that cost no time
	FreeHigh float64 `json:"free_high"` // the fewest that did
	Slope    float64 `json:"slope"`     // cycles that each further one costs once the class is full
	// Room is how many would be free if they never delayed the block before the class is full; Share is Room as a share
	// of all that the class can do in the time.
	Room     float64 `json:"room"`
	Share    float64 `json:"free_share"`
	Untested string  `json:"untested,omitempty"`
}

// MarshalJSON leaves out the numbers of a class that could not be tested.
func (s Slack) MarshalJSON() ([]byte, error) {
	if s.Untested != "" {
		return json.Marshal(struct {
			Class    string `json:"class"`
			Probe    string `json:"probe"`
			Untested string `json:"untested"`
		}{s.Class, s.Probe, s.Untested})
	}
	type tested Slack
	return json.Marshal(tested(s))
}

// saturated is the share of a class's time below which nothing counts as free: at least the difference between two runs
// (docs/method.md) and the resolution of one probe in the timed copies.
const saturated = 0.04

// Part is one instruction's effect on the time. It is a derivative, not a share: parts need not add up to the whole.
type Part struct {
	Instruction int    `json:"instruction"` // from 1
	Text        string `json:"text"`
	Saved       *Time  `json:"saved,omitempty"`
	Replaced    string `json:"replaced,omitempty"` // the replacement, if any
	Untested    string `json:"untested,omitempty"`
}

type FrontEndReport struct {
	Slots    float64 `json:"slots_per_cycle"` // instructions per cycle when all free slots are filled
	Row      *Time   `json:"row,omitempty"`   // in copies in a row
	Decoders *Time   `json:"decoders,omitempty"`
}

type Answer struct {
	Base     profiler.Result `json:"base"`
	Bound    Kind            `json:"bound,omitempty"`
	Bounds   []Kind          `json:"bounds,omitempty"` // all within 2 % of the time
	Sentence string          `json:"sentence,omitempty"`
	Chains   []ChainReport   `json:"chains"`
	Slack    []Slack         `json:"slack"`
	FrontEnd FrontEndReport  `json:"front_end"`
	Parts    []Part          `json:"parts"`
	// Address is the block's address in its program, nil if unknown. With Base.Init.Set it distinguishes answers about
	// the same bytes.
	Address *profiler.Address `json:"address,omitempty"`
}

type question struct {
	ctx   context.Context
	p     pool.Profiler
	setup profiler.Setup
	insts []asm.Inst
	room  room
	state asm.State
	base  profiler.Result
	width float64 // documented slots per cycle
	err   error   // the first; nothing is measured after it
}

// Find determines what bounds a block, and with parts what each instruction costs. The results of p must carry
// predictions and the host (profiler.Options.Detail). If the block cannot be measured, or bbprof fails on it or a
// changed version, the Answer has only its Base. Errors are the host's or ctx's, and would affect other blocks too.
func Find(ctx context.Context, p pool.Profiler, b profiler.Block, parts bool) (Answer, error) {
	a, err := find(ctx, p, b, parts)
	if failure := pool.Failure(""); errors.As(err, &failure) {
		a.Base.Status, a.Base.Failure = profiler.Failed, err.Error()
		return Answer{Base: a.Base, Address: a.Address}, nil
	}
	return a, err
}

func find(ctx context.Context, p pool.Profiler, b profiler.Block, parts bool) (a Answer, err error) {
	q := &question{ctx: ctx, p: p, setup: b.Setup}
	q.base, err = pool.Undisturbed(ctx, p, b)
	a.Base, a.Address = q.base, (*profiler.Address)(b.Setup.Address)
	if err != nil || q.base.Status != profiler.OK {
		return a, err
	}
	if q.insts, err = asm.Decode(b.Code); err != nil {
		return a, err
	}
	q.state = asm.StateOf(q.insts)
	q.width = float64(cpu.WidestDispatch()) // too many probes cost time, too few miss a full class
	if h := q.base.Host; h != nil && h.CPU.DispatchWidth > 0 {
		q.width = float64(h.CPU.DispatchWidth)
	}
	// changed blocks keep the rescued state and the frames
	if q.setup.Init = &q.base.Init; q.base.Frames > 1 {
		q.setup.Frames = max(q.base.Frames, q.setup.Frames)
	}
	q.setup.Tolerate = append(slices.Clone(q.setup.Tolerate), verdict.Unstable, verdict.Nonlinear)
	q.room = roomOf(q.insts)
	q.findRoom()
	a.Chains = q.chains()
	a.Slack = q.slacks()
	a.FrontEnd = q.frontEnds(&a)
	if parts {
		a.Parts = q.parts()
	}
	if q.err == nil {
		a.conclude()
	}
	return a, q.err
}

// time measures a changed block; why says why it has no time.
func (q *question) time(c rewrite.Change) (t Time, why string) { return q.timeIn(c, q.setup) }

func (q *question) timeIn(c rewrite.Change, s profiler.Setup) (t Time, why string) {
	if q.err != nil {
		return t, q.err.Error()
	}
	code := c.Apply(q.insts)
	r, err := pool.Undisturbed(q.ctx, q.p, profiler.Block{Code: code, Setup: s})
	switch {
	case err != nil:
		q.err = err
		return t, err.Error()
	case r.Status == profiler.Failed:
		q.err = fmt.Errorf("measuring it changed, as %x: %w", code, pool.Failure(r.Failure))
		return t, r.Failure
	case r.Status == profiler.Rejected:
		return t, fmt.Sprintf("the changed block is rejected (%s)", r.Reason)
	}
	return timeOf(r), ""
}

func timeOf(r profiler.Result) Time { return Time{r.Cycles, r.CILow, r.CIHigh} }

// displacements lists where a probe may access memory, relative to a pointer that the block does not change: within the
// page for the paper's pointers, on lines that few blocks use.
var displacements = []int32{0x480, -0x480, 0x7c0, -0x3c0, 0x200, -0x5c0}

// findRoom finds a place where probes' memory accesses disturb none of the block's.
func (q *question) findRoom() {
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
		if _, why := q.time(rewrite.Change{Spread: add}); why == "" {
			return
		}
	}
	q.room.fixed = none // no place found
}

// leastCycles is the least duration of the copies to which probes are added, so that an eighth of a cycle can be told
// from a full class. mostBytes keeps them in the op cache.
const (
	leastCycles = 8
	mostBytes   = 1024
)

func (q *question) slacks() (all []Slack) {
	last := q.insts[len(q.insts)-1]
	copies := int(math.Ceil(leastCycles / q.base.Cycles))
	copies = max(1, min(copies, mostBytes/(last.Offset+len(last.Bytes))))
	base, why := timeOf(q.base), ""
	if copies > 1 {
		base, why = q.time(rewrite.Change{Copies: copies})
	}
	for _, p := range slices.Concat(frontEnd, classes) {
		s := Slack{Class: p.name, Probe: p.text, Untested: why}
		switch {
		case why != "":
		case p.code(q.room, 0) == nil:
			s.Untested = "the block leaves no register for it, or has no such access"
		default:
			q.slack(&s, p, base.Cycles, copies)
		}
		all = append(all, s)
	}
	return all
}

// growth is the least relative growth that counts: twice the difference between repeated measurements (docs/method.md).
// Beyond full, every probe is assumed to cost the same: the class is full, and the probes no longer merely delay the
// block's own instructions.
const (
	growth = 0.015
	full   = 1.5
)

// atOnce is the share of their later cost that the first probes must cost if their class is already full: probes that
// merely delay the block's own work cost less.
const atOnce = 0.75

// steeper is the growth of the slope that shows a class not yet full, whose probes only delay the block's own work:
// next to two chains of adds on Zen 5, a multiplication costs 0.28 cycles, and 1/3 once its units are full.
const steeper = 0.1

// probeSeries holds the times with so many probes: 0 from the first that was not measured on, and why.
type probeSeries struct {
	q      *question
	probe  probe
	copies int
	times  map[int]float64
	why    string
}

func (a *probeSeries) at(k int) float64 {
	if _, known := a.times[k]; !known && a.why == "" {
		var add [][]byte
		for n := range k {
			add = append(add, a.probe.code(a.q.room, n))
		}
		t, why := a.q.time(rewrite.Change{Copies: a.copies, Spread: add})
		a.times[k], a.why = t.Cycles, why
	}
	return a.times[k]
}

// slack finds how many probes are free, next to copies that take base cycles without any, and what further ones cost.
func (q *question) slack(s *Slack, p probe, base float64, copies int) {
	a := &probeSeries{q, p, copies, map[int]float64{0: base}, ""}
	last, most := 1, 4*int(q.width*base)
	for a.at(last) < full*base && a.why == "" && last <= most {
		last *= 2
	}
	// bisect for the first that makes time grow
	low, high := 0, last
	for high-low > max(1, copies/4) && a.why == "" {
		if middle := (low + high) / 2; a.at(middle) > base*(1+growth) {
			high = middle
		} else {
			low = middle
		}
	}
	n := float64(copies)
	s.FreeLow, s.FreeHigh = float64(low)/n, float64(high)/n
	for ; ; last *= 2 {
		there, beyond := a.at(last), a.at(2*last)
		if s.Untested = a.why; a.why != "" {
			return
		}
		if s.Slope = (beyond - there) / float64(last); s.Slope <= 0 {
			s.Untested = "twice as many cost no more time, so what they cost cannot be told"
			return
		}
		// where the growth line meets the time without probes
		s.Room = max(0, float64(last)-(there-base)/s.Slope) / n
		if a.costsAtOnce(base, s.Slope, low, 4*last) {
			s.Room = 0 // later ones may cost less, such as stores to consecutive lines
		}
		s.Room = max(s.Room, s.FreeLow) // what costs nothing is free, whatever more of it delays
		s.Share = min(1, s.Room*s.Slope*n/base)
		if s.Share >= saturated || last > most {
			return
		}
		if farther := a.at(4 * last); a.why != "" || farther-beyond <= (1+steeper)*2*float64(last)*s.Slope {
			return
		}
	}
}

// costsAtOnce reports whether a class is full from the start: half of what it can do in the time, and all of it, cost
// nearly what as many probes cost later. low probes are known to be free; at most most are added, however cheap.
func (a *probeSeries) costsAtOnce(base, slope float64, low, most int) bool {
	whole := int(min(base/slope, float64(most)))
	for _, k := range []int{min(whole/2, a.copies), whole} {
		if k <= low || a.at(k)-base <= atOnce*slope*float64(k) {
			return false
		}
	}
	return true
}

func (q *question) frontEnds(a *Answer) (r FrontEndReport) {
	if s, known := a.freeSlots(); known {
		r.Slots = (float64(len(q.insts)) + s.FreeLow) / q.base.Cycles
	}
	row, decoders := q.setup, q.setup
	row.Mode, decoders.Mode, decoders.FrontEnd = profiler.Unroll, profiler.Unroll, profiler.Decode
	if t, why := q.timeIn(rewrite.Change{}, row); why == "" {
		r.Row = &t
	}
	if t, why := q.timeIn(rewrite.Change{}, decoders); why == "" {
		r.Decoders = &t
	}
	return r
}

// mostParts limits how many instructions are left out, with a measurement or two each.
const mostParts = 200

func (q *question) parts() (all []Part) {
	if len(q.insts) == 1 || len(q.insts) > mostParts {
		return nil
	}
	for i := range q.insts {
		in := &q.insts[i]
		p := Part{Instruction: i + 1, Text: in.Text()}
		t, why := q.time(rewrite.Change{Replace: map[int][]byte{i: nil}})
		if _, writes := in.Dataflow(); why != "" && writes.GPR != 0 && writes.Without(asm.Values{GPR: writes.GPR, Flags: writes.Flags}) == (asm.Values{}) {
			var constants []byte
			for n := range 16 {
				if writes.GPR>>n&1 != 0 {
					constants = append(constants, rewrite.MovImm(n, q.base.Init.GPR[n])...)
				}
			}
			if t, why = q.time(rewrite.Change{Replace: map[int][]byte{i: constants}}); why == "" {
				p.Replaced = "constants in what it writes"
			}
		}
		if p.Untested = why; why == "" {
			saved := timeOf(q.base).minus(t, 1)
			p.Saved = &saved
		}
		all = append(all, p)
	}
	return all
}
