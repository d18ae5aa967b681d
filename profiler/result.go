package profiler

import (
	"errors"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// Status is the outcome in one word.
type Status string

const (
	OK       Status = "ok"       // measured
	Rejected Status = "rejected" // the block cannot be profiled; Rejection says why
	Failed   Status = "error"    // bbprof failed; Failure says how
)

// Result is all that is known about one block. Cycles are core cycles per iteration of the
// block; fields about timing are zero unless Status is OK.
type Result struct {
	Hex    string         `json:"hex"`
	Status Status         `json:"status"`
	Reason verdict.Reason `json:"reason,omitempty"`

	Cycles float64 `json:"cycles,omitzero"`
	CILow  float64 `json:"ci_low,omitzero"` // 95 % interval
	CIHigh float64 `json:"ci_high,omitzero"`

	Mode     Mode     `json:"mode"`     // how the block was repeated for Cycles
	FrontEnd FrontEnd `json:"frontend"` // what served unrolled copies

	// Of a loop, in mode both beside Cycles, which are then those of unrolled copies.
	LoopCycles   float64 `json:"loop_cycles,omitzero"`
	LoopCILow    float64 `json:"loop_ci_low,omitzero"`
	LoopCIHigh   float64 `json:"loop_ci_high,omitzero"`
	Disagreement string  `json:"disagreement,omitempty"` // by more than 5 %, and its likely cause
	// Loop is the loop of mode loop and both.
	Loop *LoopReport `json:"loop,omitempty"`

	Instructions int `json:"instructions"`
	Bytes        int `json:"bytes"`
	UnrollShort  int `json:"unroll_short"` // iterations of the shorter image, u: copies, or copies times turns in mode loop
	UnrollLong   int `json:"unroll_long"`  // of the longer, u'

	WindowsKept     int `json:"windows_kept"`
	WindowsSwitched int `json:"windows_dropped_context_switch"`
	WindowsUnsteady int `json:"windows_dropped_unsteady"`
	WindowsDrifted  int `json:"windows_dropped_clock_drift"`
	SamplesKept     int `json:"samples_kept"`
	SamplesDropped  int `json:"samples_dropped"` // in dropped windows, or next to a busy sentinel
	RunsPerSample   int `json:"runs_per_sample"` // runs of each image between two clock readings
	// TimedSeconds is how long sentinel, chains and block ran between clock readings that count.
	TimedSeconds float64 `json:"timed_seconds"`
	// Stops of the child for this block, and system calls, the monitor's and the child's.
	Stops       int `json:"stops"`
	SystemCalls int `json:"system_calls"`

	Pages  int `json:"pages"`
	Frames int `json:"frames"`

	// PaperVerdict is what one frame and the paper's initial state give: "ok" or a reason.
	PaperVerdict string `json:"paper_verdict,omitempty"`
	// Rescued says that Init is not the paper's.
	Rescued bool `json:"rescued"`
	// SelfForwarding counts the loads of an iteration that are fed by a store which hit the same
	// address only because registers start equal.
	SelfForwarding int `json:"self_forwarding_loads"`

	// Predicted is what the trace says of an iteration, with Detail.
	Predicted *invariants.Prediction `json:"predicted,omitempty"`

	Clock    *ClockReport          `json:"clock,omitempty"`
	Evidence []invariants.Evidence `json:"evidence,omitempty"`
	// Counters are what hardware counters, and events that were asked for, said.
	Counters []CounterReport `json:"counters,omitempty"`
	// Core is the kind of core whose events Counters are, "" for the kernel's generic ones.
	Core     string   `json:"counter_core,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	Rejection *verdict.Rejection `json:"rejection,omitempty"`
	Failure   string             `json:"failure,omitempty"`

	Init    initial.State `json:"init"`
	Mapping []mapper.Page `json:"mapping,omitempty"`
	Listing []ListingLine `json:"listing,omitempty"`
	Host    *HostReport   `json:"host,omitempty"`
}

// Err is what kept the block from a number: its *verdict.Rejection or a failure; nil if nothing did.
func (r *Result) Err() error {
	switch {
	case r.Rejection != nil:
		return r.Rejection
	case r.Status == Failed:
		return errors.New(r.Failure)
	}
	return nil
}

// ClockReport says how readings became core cycles.
type ClockReport struct {
	Name          string  `json:"name"`
	Method        string  `json:"method"`
	StepTicks     float64 `json:"step_ticks"`
	TicksPerCycle float64 `json:"ticks_per_cycle"`
	// TicksPerSecond is by the monitor's clock, while calibrating: right to about 1 %.
	TicksPerSecond float64 `json:"ticks_per_second"`
	// MultiplyCycles is the latency of imul by this clock: an integer, if adds take a cycle.
	MultiplyCycles float64 `json:"multiply_latency_cycles"`
	// SentinelQuiet is the sentinel's time in cycles when no other thread uses the core.
	SentinelQuiet float64 `json:"sentinel_quiet_cycles"`
}

// LoopReport is the shape of a loop.
type LoopReport struct {
	Copies     int    `json:"copies"` // of the block in a turn
	TurnsShort int    `json:"turns_short"`
	TurnsLong  int    `json:"turns_long"`
	Counter    string `json:"counter"` // a register, or memory
}

// HostReport says where it was measured.
type HostReport struct {
	CPU host.CPU `json:"cpu"`
	// OnCPU is the logical CPU that monitor and child ran on.
	OnCPU                  int    `json:"on_cpu"`
	SpeculativeStoreBypass string `json:"speculation_store_bypass"`
}

// ListingLine is one instruction of the block.
type ListingLine struct {
	Offset int    `json:"offset_bytes"`
	Hex    string `json:"hex"`
	Text   string `json:"text"`
}
