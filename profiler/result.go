package profiler

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Status is the outcome in one word.
type Status string

const (
	OK       Status = "ok"       // measured
	Rejected Status = "rejected" // the block cannot be profiled; Rejection says why
	Failed   Status = "error"    // bbprof failed; Failure says how
)

// CyclesColumn is the value of Result.LoopsTake, a key of the result.
const CyclesColumn = "cycles"

// Result is the outcome for one block. Cycles are core cycles per iteration of the block; they and Clock are only set if Status is
// OK. Other results of a block that was timed and then rejected, such as its Speeds and numbers of windows, are set.
type Result struct {
	Hex    string         `json:"hex"`
	Status Status         `json:"status"`
	Reason verdict.Reason `json:"reason,omitempty"`

	Cycles float64 `json:"cycles,omitzero"`
	CILow  float64 `json:"ci_low,omitzero"` // 95 % interval
	CIHigh float64 `json:"ci_high,omitzero"`
	// Speeds groups the layouts, whose mean is Cycles, by speed, the fastest first: one group, unless
	// they differ by 4 % and more than noise.
	Speeds []Speed `json:"speeds,omitempty"`
	// LayoutCycles holds the cycles in each layout, with Detail.
	LayoutCycles []LayoutCycles `json:"layout_cycles,omitempty"`

	Mode     Mode     `json:"mode"`     // how the block was repeated: Loop, Unroll or Both
	FrontEnd FrontEnd `json:"frontend"` // what served the copies

	// The row's cycles in mode both; Cycles are those of the loop.
	RowCycles float64 `json:"row_cycles,omitzero"`
	RowCILow  float64 `json:"row_ci_low,omitzero"`
	RowCIHigh float64 `json:"row_ci_high,omitzero"`
	// LoopsTake is CyclesColumn if Cycles are what a loop in a program takes. It is "" if that is not known, as of a row of copies
	// whose stores feed loads, with taken branches within, from the decoders, or timed in one image alone.
	LoopsTake string `json:"loops_take,omitempty"`
	// Loop is the shape of the loop, in mode loop and both.
	Loop *LoopReport `json:"loop,omitempty"`

	// Inner describes the branches within the block, which all copies take alike.
	Inner []BranchedReport `json:"inner,omitempty"`
	// Region describes a loop that ran as it stands, from a captured state at its header.
	Region *RegionReport `json:"region,omitempty"`

	// Branch describes the treatment of the branch at the block's end; nil without one.
	Branch *BranchReport `json:"branch,omitempty"`

	Instructions int `json:"instructions,omitempty"`
	Bytes        int `json:"bytes,omitempty"`
	Ran          `json:"-"`

	// PaperVerdict is the outcome with one frame and the paper's initial state: "ok" or a reason.
	PaperVerdict string `json:"paper_verdict,omitempty"`
	// SelfForwarding counts the loads of an iteration fed by a store that has the same address
	// only because registers or words of memory start equal.
	SelfForwarding int `json:"self_forwarding_loads"`
	// Apart are the elements of an initial state in which indices from memory differ, if equal ones are among the causes.
	Apart initial.Elements `json:"-"`

	// Predicted holds the events of an iteration predicted from the trace, with Detail.
	Predicted *invariants.Prediction `json:"predicted,omitempty"`

	Clock    *ClockReport          `json:"clock,omitempty"`
	Evidence []invariants.Evidence `json:"evidence,omitempty"`
	// Addresses identifies the addresses and widths of all accesses of the first copies, with Detail: two set-ups with equal
	// ones differ in nothing that addresses decide.
	Addresses string `json:"addresses,omitempty"`
	// Counters holds the counts of hardware counters and of Options.Events.
	Counters []CounterReport `json:"counters,omitempty"`
	// Core is the kind of core that defines the events in Counters, "" for the kernel's generic ones.
	Core     string   `json:"counter_core,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Impossible is set if the cycles are below the core's limit; Warnings explains it.
	Impossible Impossible `json:"impossible,omitempty"`

	Rejection *verdict.Rejection `json:"rejection,omitempty"`
	Failure   string             `json:"failure,omitempty"`

	// Captured describes the captured state in which the block started, if any.
	Captured *CapturedReport `json:"captured,omitempty"`

	Init    initial.State `json:"init"`
	Mapping []mapper.Page `json:"mapping,omitempty"`
	Listing []ListingLine `json:"listing,omitempty"`
	Host    *HostReport   `json:"host,omitempty"`
}

// Spent is what a timing took, and what of it was dropped.
type Spent = timing.Spent

// Ran holds what is known only of a block that ran.
type Ran struct {
	UnrollShort int `json:"unroll_short"` // iterations of the shorter image, u: copies, or copies times loop iterations in mode loop
	UnrollLong  int `json:"unroll_long"`  // of the longer, u'

	WindowsKept int `json:"windows_kept"`
	Spent

	Pages  int `json:"pages"`
	Frames int `json:"frames"`
	// Rescued reports that Init is not the paper's.
	Rescued bool `json:"rescued"`
}

// Noisy reports whether noise rejected the block, so that a later try may succeed. It is false for a block with several speeds, each in its own
// layouts.
func (r *Result) Noisy() bool {
	return r.Rejection != nil && r.Rejection.Reason.Noise() && len(r.Speeds) <= 1
}

// Err returns the block's *verdict.Rejection or its failure, or nil.
func (r *Result) Err() error {
	switch {
	case r.Rejection != nil:
		return r.Rejection
	case r.Status == Failed:
		return errors.New(r.Failure)
	}
	return nil
}

// ClockReport describes how readings became core cycles.
type ClockReport = timing.Report

// LoopReport is the shape of a loop.
type LoopReport struct {
	CopiesShort     int    `json:"copies_short"` // of the block in the body of the shorter image
	CopiesLong      int    `json:"copies_long"`
	IterationsShort int    `json:"iterations_short"`
	IterationsLong  int    `json:"iterations_long"`
	Counter         string `json:"counter"` // a register, or memory
}

// HostReport describes the host.
type HostReport struct {
	CPU CPU `json:"cpu"`
	// OnCPU is the logical CPU of monitor and child, the last one if they left a busy CPU.
	OnCPU                  int    `json:"on_cpu"`
	SpeculativeStoreBypass string `json:"speculation_store_bypass"`
}

// CPU describes the processor.
type CPU struct {
	Vendor            string          `json:"vendor"`
	Brand             string          `json:"brand"`
	Family            int             `json:"family"`
	Model             int             `json:"model"`
	Microarchitecture string          `json:"microarchitecture"`
	Contradiction     string          `json:"contradiction,omitempty"` // between CPUID's model number and its features
	L1D               int             `json:"l1d_bytes"`
	DispatchWidth     int             `json:"dispatch_width,omitempty"` // operations per cycle, 0: unknown
	AddsPerCycle      float64         `json:"adds_per_cycle,omitzero"`  // adds in the contention probe, 0: unknown
	NopsPerCycle      float64         `json:"nops_per_cycle,omitzero"`  // nops in the contention probe, 0: it has none
	Core              invariants.Core `json:"core"`
	FrontEnd          unroll.FrontEnd `json:"front_end"`
}

func (s *session) hostReport() *HostReport {
	c := s.cpu
	return &HostReport{
		CPU: CPU{
			Vendor: c.Vendor, Brand: c.Brand, Family: c.Family, Model: c.Model, Microarchitecture: string(c.Microarchitecture),
			Contradiction: c.Contradiction, L1D: c.L1D, DispatchWidth: c.DispatchWidth,
			AddsPerCycle: c.AddsPerCycle, NopsPerCycle: c.NopsPerCycle, Core: c.Core, FrontEnd: c.FrontEnd,
		},
		OnCPU: s.cpus.Current(), SpeculativeStoreBypass: s.child.SpeculativeStoreBypass,
	}
}

// ListingLine is one instruction of the block.
type ListingLine struct {
	Offset int    `json:"offset_bytes"`
	Hex    string `json:"hex"`
	Text   string `json:"text"`
}

// result reports the results of the steps; ok means that all succeeded.
func (s *session) result(j job, host *HostReport, p progress, ok bool) Result {
	result := p.samples
	result.Hex, result.Bytes, result.Instructions = hex.EncodeToString(j.Code), len(j.Code), len(p.insts)
	result.Init, result.Warnings = j.states[0], nil
	result.Mode, result.FrontEnd = j.repeated(p)
	if p.branch.As != "" {
		result.Branch = p.branch.complete(p)
	}
	if j.Detail {
		insts, _ := j.asWritten()
		for i := range insts {
			in := &insts[i]
			result.Listing = append(result.Listing, ListingLine{in.Offset, hex.EncodeToString(in.Bytes), in.Text()})
		}
		result.Host = host
	}
	if c := j.Setup.Captured; c != nil {
		result.Captured = &CapturedReport{Visit: j.Setup.Visit, Address: Address(c.Address), Pages: len(c.Pages)}
	}
	if p.crowded {
		result.warn("%d copies exceed the share of the op cache that keeps them in it: the decoders may limit them", p.factors.Long)
	}
	m := p.mapped()
	if m == nil {
		return result
	}
	timed := p.measurement.block != nil
	result.Warnings = slices.Concat(p.warnings, result.Warnings)
	if timed && m.Loop != nil {
		result.Loop = reportLoop(m)
	}
	result.Inner = reportInner(m)
	if timed && anyTaken(result.Inner) {
		result.warn("a row of %d copies has as many taken branches, and a core may not hold them all as it does a loop's: fewer copies (-unroll) may take less",
			m.Factors.Long)
	}
	if m.Region != nil {
		result.Region = reportRegion(m)
		result.Region.Untrained = p.untrained
	}
	result.addMapped(m, j.Detail)
	result.addTimed(p.measurement)
	result.Warnings = slices.Concat(result.Warnings, p.samples.Warnings)
	if !ok {
		return result
	}
	e, clock := s.interval(p.measurement.timed), s.timer.Report()
	result.Cycles, result.CILow, result.CIHigh = e.Value, e.Low(), e.High()
	result.Clock = &clock
	if s.fallbackNote != "" {
		result.warn("%s", s.fallbackNote)
	}
	if s.opts.Identical > 0 && clock.Name == string(TSCClock) {
		result.warn("-identical has no effect: it is of the perf clock, and the TSC timed this block")
	}
	if row := p.row; row != nil {
		of := s.interval(row.timed)
		result.RowCycles, result.RowCILow, result.RowCIHigh = of.Value, of.Low(), of.High()
	}
	if j.likeLoop(m, result.Inner) {
		result.LoopsTake = CyclesColumn
	}
	return result
}

// likeLoop reports whether a block was measured in a loop, or in a row that differs from one in nothing that is known to matter. A core learns
// in a loop, but not in a row, which store feeds which load, and may not hold all taken branches of a row; a loop does not run from the decoders;
// and one image alone takes what its ends take, too.
func (j job) likeLoop(m *mapping.MappedBlock, inner []BranchedReport) bool {
	if m.Loop != nil || m.Region != nil {
		return true
	}
	return m.Forwards.Fed == 0 && !anyTaken(inner) && j.Options.FrontEnd != Decode && m.Factors.Short > 0
}

// interval returns the cycles with the interval that holds those of another session.
func (s *session) interval(t timing.Timed) stat.Estimate {
	e := t.Estimate
	if t.Design.Repeated() {
		e.Half *= max(s.cpu.SessionsApart, 1)
	}
	e.Half = math.Hypot(e.Half, s.cpu.SessionShare*e.Value)
	return e
}

// repeated returns how the block was repeated, or would have been, and what served the copies.
func (j job) repeated(p progress) (Mode, FrontEnd) {
	m := p.measurement.block
	if c := j.Setup.Captured; c != nil && c.Header != nil {
		return Loop, OpCache
	}
	switch row := m != nil && m.Loop == nil || m == nil && j.Mode == Unroll && !j.ownLoop; {
	case row && j.Options.FrontEnd == OpCache:
		return Unroll, Unchecked
	case row:
		return Unroll, Decode
	case p.row != nil || j.Mode == Both:
		return Both, j.Options.FrontEnd
	}
	return Loop, OpCache
}

func (r *Result) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// addMapped reports pages and trace.
func (r *Result) addMapped(m *mapping.MappedBlock, detail bool) {
	if m.Plan.Frames > 0 { // there was an attempt
		r.Init = m.Plan.Init
	}
	r.Captured.addLeft(m.Left)
	if len(m.Long.Code) > 0 {
		r.UnrollShort, r.UnrollLong = m.Factors.Short, m.Factors.Long
	}
	r.Pages, r.Frames = len(m.Pages), min(m.Plan.Frames, len(m.Pages))
	r.PaperVerdict, r.Rescued, r.SelfForwarding, r.Apart = m.PaperVerdict, m.Rescued, m.Forwards.Self, m.Forwards.Apart
	r.Predicted = cmp.Or(r.Predicted, m.Predicted)
	if detail {
		r.Mapping, r.Addresses = m.Pages, m.Trace.Fingerprint()
	}
	r.Warnings = slices.Concat(r.Warnings, m.Warnings())
}

// addTimed reports the samples.
func (r *Result) addTimed(m measurement) {
	r.Spent = m.timed.Spent
	r.Warnings = slices.Concat(r.Warnings, m.warnings)
}

func reportLoop(m *mapping.MappedBlock) *LoopReport {
	l, counter := m.Loop, m.Loop.Counter.String()
	if l.Exit != nil {
		counter = l.Exit.String()
	}
	return &LoopReport{l.Bodies.Short, l.Bodies.Long, l.Turns.Short, l.Turns.Long, counter}
}
