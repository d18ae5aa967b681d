// Package verdict holds the outcomes of a block other than a number.
//
// Three kinds never mix. A [Rejection] says that this block cannot be profiled, and is data: a reason from a closed
// list with its evidence. A [HostError] says that no block can be profiled on this machine as it is set up, and the
// remedy. Any other error is a failure of bbprof itself.
package verdict

import (
	"errors"
	"fmt"
	"syscall"
)

// Reason is why a block has no throughput. The list is closed: a result file holds no other.
type Reason string

const (
	// About the bytes; nothing has run.
	BadHex           Reason = "bad_hex"          // the text is not a hexadecimal block
	BadSet           Reason = "bad_set"          // the column set cannot be read
	Undecodable      Reason = "undecodable"      // not an x86-64 instruction
	ControlFlow      Reason = "control_flow"     // jump, call, return, loop, int3, …
	Privileged       Reason = "privileged"       // needs ring 0 or an I/O permission
	Syscall          Reason = "syscall"          // enters the kernel
	Nondeterministic Reason = "nondeterministic" // cpuid, rdtsc, rdrand, xgetbv, …
	UnsupportedISA   Reason = "unsupported_isa"  // bbprof does not run it
	CodeExceedsL1I   Reason = "code_exceeds_l1i" // not even the fewest copies fit L1I

	// Of a run.
	Unmappable       Reason = "unmappable"        // an unmappable address
	TooManyPages     Reason = "too_many_pages"    // keeps touching new pages
	LeavesState      Reason = "leaves_state"      // too few copies stay within the captured pages
	UnalignedOperand Reason = "unaligned_operand" // an alignment the instruction demands
	SIGSEGV          Reason = "sigsegv"           // a protection fault that no address explains
	SIGFPE           Reason = "sigfpe"
	SIGILL           Reason = "sigill"
	SIGBUS           Reason = "sigbus"
	SIGTRAP          Reason = "sigtrap"
	Timeout          Reason = "timeout"
	LoopExit         Reason = "loop_exit" // no state ends the block's own loop after as many iterations as are wanted

	// About the evidence: it ran, but something else determined its time.
	L1DMiss       Reason = "l1d_miss"
	L1IMiss       Reason = "l1i_miss"
	DTLBMiss      Reason = "dtlb_miss" // more pages than the first-level data TLB has entries
	ContextSwitch Reason = "context_switch"
	BusyCore      Reason = "busy_core"   // other work on the core, or beside it, slowed every window
	Misaligned    Reason = "misaligned"  // an access crosses a cache line
	Alias4K       Reason = "alias_4k"    // load and earlier store, equal low 12 bits, other address
	AliasFrame    Reason = "alias_frame" // two pages use one line of one frame
	X87Stack      Reason = "x87_stack"   // the x87 stack does not balance
	Unstable      Reason = "unstable"    // dispersion, or two modes
	Nonlinear     Reason = "nonlinear"   // time does not grow linearly with the copies
	ClockDrift    Reason = "clock_drift" // the core clock moved too much while timing
)

// Reasons lists them all.
func Reasons() []Reason {
	return []Reason{
		BadHex, BadSet, Undecodable, ControlFlow, Privileged, Syscall, Nondeterministic, UnsupportedISA, CodeExceedsL1I,
		Unmappable, TooManyPages, LeavesState, UnalignedOperand, SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGTRAP, Timeout, LoopExit,
		L1DMiss, L1IMiss, DTLBMiss, ContextSwitch, BusyCore, Misaligned, Alias4K, AliasFrame, X87Stack, Unstable, Nonlinear, ClockDrift,
	}
}

// Noise reports whether other activity on the machine may have caused the rejection, so that a retry may succeed.
func (r Reason) Noise() bool {
	return r == BusyCore || r == ContextSwitch || r == Unstable || r == ClockDrift
}

// Rejection says that one block cannot be profiled, and why.
type Rejection struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail"` // one clause, complete with the values that decided
	// Remedy is what to do about it, where docs/reference.md's advice for the reason does not fit.
	Remedy string `json:"remedy,omitempty"`

	// The instruction at fault, if there is one.
	Inst *Inst `json:"instruction,omitempty"`
	// Address is the faulting virtual address, when there is one.
	Address *uint64 `json:"address,omitempty"`
}

// Inst identifies one instruction of the block.
type Inst struct {
	Index  int    `json:"index"`         // 0 is the first of the block
	Offset int    `json:"offset_bytes"`  // from the start of the block
	Text   string `json:"text"`          // Intel syntax
	Hex    string `json:"hex,omitempty"` // its bytes
}

// ReasonOf returns why a block is rejected, or "" for any other error or none.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*Rejection](err); ok {
		return r.Reason
	}
	return ""
}

func (r *Rejection) Error() string {
	s := string(r.Reason) + ": " + r.Detail
	if r.Inst != nil {
		s += fmt.Sprintf(" (instruction %d at byte %d: %s)", r.Inst.Index+1, r.Inst.Offset, r.Inst.Text)
	}
	return s
}

// HostError says that this machine, as it is set up, cannot do what was asked.
type HostError struct {
	Missing string // what is missing, in one clause
	Remedy  string // what the user can do about it
	Err     error  // the system's error
	Busy    bool   // an idle CPU is missing: this host may measure later
}

func (e *HostError) Error() string {
	s := "this host cannot measure: " + e.Missing
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

func (e *HostError) Unwrap() error { return e.Err }

// Refused is the error of a system call that fails only where something forbids it.
func Refused(call string, err error) *HostError {
	return &HostError{Missing: call + " is refused", Remedy: "allow it in the seccomp profile (docker: --security-opt seccomp=unconfined)", Err: err}
}

// NoMoreFiles returns the host's error if err means that no more files may be open, or nil.
func NoMoreFiles(err error) *HostError {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return &HostError{Missing: "no more files may be open", Remedy: "raise ulimit -n", Err: err}
	}
	return nil
}
