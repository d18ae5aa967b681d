package profiler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// RegionReport describes a loop of any blocks that ran as it stands.
type RegionReport struct {
	// Entry is the offset of the loop's header in its code.
	Entry int `json:"entry"`
	// Iterations are the arrivals at the header from the captured state to the loop's end.
	Iterations int `json:"iterations"`
	// Instructions is their number in an iteration, on average.
	Instructions float64          `json:"instructions_per_iteration"`
	Branches     []BranchedReport `json:"branches,omitempty"`
	// Untrained are the cycles of an iteration when the branch predictor knows nothing of the loop, neither its data nor its
	// exit; nil with hardware counters, which count mispredictions.
	Untrained *Untrained `json:"untrained,omitempty"`
}

// Untrained are cycles of an iteration with their 95 % interval.
type Untrained struct {
	Cycles float64 `json:"cycles"`
	CILow  float64 `json:"ci_low"`
	CIHigh float64 `json:"ci_high"`
}

// BranchedReport counts how a conditional branch went until the loop's end.
type BranchedReport struct {
	Offset int    `json:"offset_bytes"` // in the code
	Text   string `json:"text"`
	Taken  int    `json:"taken"`
	Of     int    `json:"of"`
}

// regionWarm is the number of untimed runs before each timing of a loop that runs as it stands: its branches go as
// the data say, and a program that runs the loop again and again has taught them to the predictor.
const regionWarm = 32

// profileRegion takes a loop from its captured state to its measurement.
func (s *session) profileRegion(j job, c *initial.Captured) (p progress, err error) {
	if o := j.Options; o.Unroll != nil || o.Mode != Hot || o.FrontEnd != OpCache || o.Copies > 0 || o.Branch != "" {
		p.warnings = append(p.warnings, "a loop from a captured state runs as it stands, to its own end: no number of copies, mode, branch or front end applies")
	}
	task, err := s.regionTask(j, *c.Header)
	if p.insts = task.Program.Insts; err != nil {
		return p, err
	}
	if p.block, err = task.PrepareRegion(fromStart(c), xsaveOffsets()); err != nil {
		return p, err
	}
	if p.measurement, err = s.measure(j, p.block, nil, &p.samples); err != nil {
		return p, err
	}
	if len(p.measurement.timed.Speeds) > 1 {
		again, err := s.measure(j, p.block, nil, &Result{})
		if err := sameAgain(p.measurement.timed, again.timed, err); err != nil {
			return p, err
		}
	}
	timer, ok := s.timer.(*timing.TSC)
	if !ok {
		return p, nil
	}
	if p.untrained, err = untrained(timer, j.plan(p.block), p.measurement); p.untrained == nil && err == nil {
		p.warnings = append(p.warnings, "it was not timed before the branch predictor has learnt its data: no idle moment or no room was left, or its layouts differ by themselves")
	}
	return p, err
}

// sameAgain compares two timings of a loop whose layouts differ. Most differ by where the loop lies, and do so again; but branch predictors also
// learn some loops well in most layouts and badly in others, by chance. err is of the second timing.
func sameAgain(first, again timing.Timed, err error) error {
	switch a, b, reason := first.Estimate, again.Estimate, verdict.ReasonOf(err); {
	case reason != "" && reason != verdict.Unstable: // such as a busy core, which tells nothing
		return nil
	case err != nil:
		return err
	case a.High() < b.Low() || b.High() < a.Low():
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf("its layouts take other times when they are timed again: %s, then %s",
			describeSpeeds(speedsOf(first)), describeSpeeds(speedsOf(again)))}
	}
	return nil
}

const (
	// firstRuns is the number of first runs, and fewestFirstRuns what a median needs for a 95 % interval.
	firstRuns, fewestFirstRuns = 20, 6
	// firstImages run in turn: what one teaches the predictor gives way to the others and to random branches. A single one is still known after
	// 131,072 of those (Golden Cove).
	firstImages = 4
)

// untrained times a loop before the branch predictor has learnt it; nil if other work left too few first runs, if there is no room, or if layouts
// differ: first runs have layouts of their own.
func untrained(timer *timing.TSC, plan timing.Plan, learnt measurement) (*Untrained, error) {
	if len(learnt.timed.Speeds) > 1 {
		return nil, nil
	}
	extra, err := timeFirstRuns(timer, plan, learnt, firstRuns)
	if err != nil || len(extra) < fewestFirstRuns {
		return nil, mapping.Unexpected(err)
	}
	median, low, high := stat.MedianInterval(extra)
	iterations, e := float64(learnt.block.Factors.Long), learnt.timed.Estimate
	return &Untrained{e.Value + median/iterations, e.Low() + low/iterations, e.High() + high/iterations}, nil
}

// timeFirstRuns returns by how many cycles n first runs of a loop are longer than later ones.
func timeFirstRuns(timer *timing.TSC, plan timing.Plan, learnt measurement, n int) (extra []float64, err error) {
	block := timedBlock{learnt.block}
	later, images, err := block.FirstRuns(firstImages, timer.Clock())
	if err != nil || len(images) == 0 {
		return nil, err
	}
	var first []timing.Image
	for _, im := range images {
		first = append(first, block.pair(im, im, block.Factors).Long)
	}
	return timer.FirstRuns(block, first, block.pair(later, later, block.Factors).Long, n, plan)
}

func (s *session) regionTask(j job, header int) (t mapping.Task, err error) {
	region, err := asm.RegionOf(j.Code, header)
	if t.Program.Insts = region.Insts; err != nil {
		return t, err
	}
	before, code, err := region.Contained()
	if err != nil {
		return t, err
	}
	// Where its accesses lie is the program's: it meets these in each of its runs.
	j.Options.Tolerate = append(slices.Clone(j.Options.Tolerate), verdict.Alias4K, verdict.Misaligned)
	t = s.task(j, region.Insts, unroll.Factors{})
	t.Program.Region = &mapping.Region{Region: harness.Region{Insts: region.Insts, Entry: header, Before: before, Code: code}}
	return t, nil
}

// asWritten decodes a block, or the instructions of a loop.
func (b Block) asWritten() ([]asm.Inst, error) {
	if c := b.Setup.Captured; c != nil && c.Header != nil {
		region, err := asm.RegionOf(b.Code, *c.Header)
		return region.Insts, err
	}
	return asm.Decode(b.Code)
}

// fromStart returns a loop's state with the address of its code in place of its header's.
func fromStart(c *initial.Captured) *initial.Captured {
	at := *c
	at.Address -= uint64(*c.Header)
	return &at
}

func reportRegion(m *mapping.MappedBlock) *RegionReport {
	w := m.Region.Walked
	r := &RegionReport{Entry: m.Region.Entry, Iterations: w.Iterations}
	if w.Iterations > 0 {
		r.Instructions = float64(w.Steps) / float64(w.Iterations)
	}
	for _, b := range w.Branches {
		in := &m.Insts[b.Index]
		r.Branches = append(r.Branches, BranchedReport{in.Offset, in.Text(), b.Taken, b.Of})
	}
	return r
}

// reportInner tells how the branches within a block went in its copies: which of them ran, and what did after them.
func reportInner(m *mapping.MappedBlock) (list []BranchedReport) {
	for _, i := range asm.InnerBranches(m.Insts) {
		in := &m.Insts[i]
		at, ran := slices.BinarySearchFunc(m.Ran, in.Offset, func(in asm.Inst, at int) int { return cmp.Compare(in.Offset, at) })
		if !ran {
			continue
		}
		next := in.Offset + len(in.Bytes)
		b := BranchedReport{Offset: in.Offset, Text: in.Text(), Of: m.Factors.Long}
		if falls := at+1 < len(m.Ran) && m.Ran[at+1].Offset == next; !falls {
			b.Taken = b.Of
		}
		list = append(list, b)
	}
	return list
}

// mostFalling is the most copies of a block whose inner branches fall through. Of a check of bounds before six instructions, 64 copies and fewer
// take one time, and 128 another in each run (Golden Cove).
const mostFalling = 64

// fallsThrough reports whether there are branches within the block and none is taken.
func fallsThrough(m *mapping.MappedBlock) bool {
	inner := reportInner(m)
	return len(inner) > 0 && !anyTaken(inner)
}

func anyTaken(branches []BranchedReport) bool {
	return slices.ContainsFunc(branches, func(b BranchedReport) bool { return b.Taken > 0 })
}
