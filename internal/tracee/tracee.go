// Package tracee owns the child: the process that blocks run in, under ptrace.
//
// # What the child is
//
// The child is a static ELF of one page, built in memory, which Launch starts stopped. Launch then
// makes it perform system calls: it maps the own region (see internal/layout) from memory that the
// monitor shares, unmaps everything it inherited (stack, vdso), closes its descriptors, gives up its
// capabilities, and installs a system-call filter. The remaining process has no stack, no library and
// no descriptor. It enters the kernel only through one syscall instruction, which may duplicate frames,
// unmap pages outside the own region, close and open one side of it, and report context switches.
//
// # How it is driven
//
// The monitor writes a list of [Op] into the control page and continues the child at the stub. The stub works through
// the list (system calls, and jumps into code images, which return to it) and ends at an int3, which stops it. So the
// work between two stops can be a whole remapping and a thousand timed runs: a stop costs about 7 µs, a run 0.1 µs. A
// fault of the block also stops the child; the monitor reads the stop, writes another list, and restarts the stub.
//
// A block's first runs are dry runs: [Tracee.Try] closes the side of the own region that later
// runs need (see internal/layout).
//
// # Who may call
//
// ptrace takes requests only from the thread that attached. Launch must run on a goroutine locked to its thread
// (runtime.LockOSThread), and every method of the Tracee must be called from that same goroutine, Kill and CPUTime
// excepted. Monitor and child should share a CPU: a stop across two CPUs costs seven times as much.
package tracee

import (
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/internal/layout"
)

// Op is a step of the child's list.
type Op struct {
	number uint64
	args   [6]uint64
}

// The stub's own operations have negative numbers, unlike system calls.
const (
	opRun  = ^uint64(0) - iota // -1: jump
	opMove                     // -2: copy a word
	opPut                      // -3: store a word
)

// Linux system calls that the child may make (asm/unistd_64.h).
const (
	sysMprotect  = 10
	sysMunmap    = 11
	sysMremap    = 25
	sysGetrusage = 98
)

// Run runs the image at entry times times, at most layout.MaxRuns; 0 means the count in layout.SlotCount. Code
// that does not count its runs, like the sampler, returns through [Tracee.Resume].
func Run(entry, times uint64) Op { return Op{opRun, [6]uint64{entry, times}} }

func Move(to, from uint64) Op { return Op{opMove, [6]uint64{to, from}} }

// Touch rewrites the first word of a mapped page unchanged, so that later accesses to the page do not fault.
func Touch(page uint64) Op { return Move(page, page) }

func Put(to, v uint64) Op { return Op{opPut, [6]uint64{to, v}} }

// MapFrame maps frame i at addr. mremap of a shared mapping with an old size of 0 creates a second mapping of the
// same pages (mremap(2)), so no descriptor is needed.
func MapFrame(addr uint64, i int) Op {
	const mayMoveFixed = 1 | 2 // MREMAP_MAYMOVE | MREMAP_FIXED
	return Op{sysMremap, [6]uint64{layout.Frames + uint64(i)*layout.PageSize, 0, layout.PageSize, mayMoveFixed, addr}}
}

// UnmapAll removes every mapping except the own region and, unless it is 0, the window.
func UnmapAll(window uint64) (ops []Op) {
	edges := []uint64{0, layout.Base, layout.End, layout.UserEnd}
	if window != 0 {
		edges = append(edges, window, window+layout.WindowSize)
		slices.Sort(edges)
	}
	for gap := range slices.Chunk(edges, 2) {
		ops = append(ops, unmap(gap[0], gap[1]))
	}
	return ops
}

func unmap(from, to uint64) Op { return Op{sysMunmap, [6]uint64{from, to - from}} }

// Protections of memory (asm-generic/mman-common.h).
const (
	protNone  = 0
	protRead  = 1
	protWrite = 2
	protExec  = 4
)

func protect(from, to uint64, prot uint64) Op {
	return Op{sysMprotect, [6]uint64{from, to - from, prot}}
}

// toDryRun closes the side of the own region needed for measuring, including the counters' pages; toMeasure opens
// it again. Both do it in the window too, if there is one.
func toDryRun(counters int, window uint64) []Op {
	ops := []Op{protect(layout.Log, layout.CodeEnd, protNone)}
	if counters > 0 {
		ops = append(ops, protect(layout.Counters, layout.CounterPage(counters), protNone))
	}
	return inWindow(ops, window)
}

func toMeasure(counters int, window uint64) []Op {
	ops := []Op{
		protect(layout.Log, layout.Code, protRead|protWrite),
		protect(layout.Code, layout.CodeEnd, protRead|protExec),
	}
	if counters > 0 {
		ops = append(ops, protect(layout.Counters, layout.CounterPage(counters), protRead))
	}
	return inWindow(ops, window)
}

// OpenCounter lets a dry run count a loop's iterations in memory. The next [Tracee.Do] closes it.
func OpenCounter(window uint64) []Op {
	return inWindow([]Op{protect(layout.DryRunLoop, layout.DryRunOps, protRead|protWrite)}, window)
}

func closeCounter(window uint64) []Op {
	return inWindow([]Op{protect(layout.DryRunLoop, layout.DryRunOps, protNone)}, window)
}

// inWindow repeats changes of protection in the window, unless it is 0.
func inWindow(ops []Op, window uint64) []Op {
	if window == 0 {
		return ops
	}
	for _, op := range ops[:len(ops):len(ops)] {
		op.args[0] += layout.Shift(window)
		ops = append(ops, op)
	}
	return ops
}

// UsageBefore and UsageAfter record the child's context switches around a window.
func UsageBefore() Op { return Op{sysGetrusage, [6]uint64{0, layout.Usage}} }

// UsageAfter is the second reading; see [Tracee.Switches].
func UsageAfter() Op { return Op{sysGetrusage, [6]uint64{0, layout.UsageEnd}} }

// Stop describes why the child stopped.
type Stop struct {
	Done bool // the list, or a dry run's image, is complete

	// FailedOp is the index of the failed system call or -1, and Errno its error.
	FailedOp int
	Errno    int

	// Otherwise a signal: its number, si_code and si_addr (sigaction(2)), and the registers, which the end of a dry
	// run reports too.
	Signal int
	Code   int
	Addr   uint64
	Regs   Regs
}

type Counter struct {
	Attr   []byte // struct perf_event_attr (linux/perf_event.h)
	Leader int    // index of the event whose group it joins, -1 for none
}

// CounterError reports that the kernel refused the child an event.
type CounterError struct {
	Index int // of the event
	What  string
	Err   error
}

func (e *CounterError) Error() string {
	return fmt.Sprintf("%s event %d in the child: %v", e.What, e.Index, e.Err)
}

func (e *CounterError) Unwrap() error { return e.Err }

type Regs struct {
	GPR   [16]uint64 // by encoding number
	RIP   uint64
	Flags uint64
}

// Signals and codes that matter to a caller (asm-generic/siginfo.h); SiKernel comes with a general protection
// fault, whose address the kernel does not know.
const (
	SIGILL  = 4
	SIGTRAP = 5
	SIGBUS  = 7
	SIGFPE  = 8
	SIGSEGV = 11
	SIGSYS  = 31

	SegvMapErr = 1
	SegvAccErr = 2
	BusAdrAln  = 1
	SiKernel   = 128
)

// DeadError reports that the child is gone. Overtime is set if it was killed for exceeding its limit of CPU time;
// otherwise something else killed it, or it was given up after getting hardly any CPU time.
type DeadError struct {
	Overtime bool
	Limit    time.Duration // of CPU time
	Status   string        // from wait4
	Signal   int           // that killed it, or 0

	host error // why this host cannot tell what happened to it, or nil
}

func (e *DeadError) Unwrap() error { return e.host }

func (e *DeadError) Error() string {
	if e.host != nil {
		return e.host.Error()
	}
	if e.Overtime {
		return fmt.Sprintf("child did not stop within %v of CPU time and was killed", e.Limit)
	}
	return "child died: " + e.Status
}

type StopError struct {
	Doing string // the task, such as "timing"
	Stop
}

func (e *StopError) Error() string {
	if e.FailedOp >= 0 {
		return fmt.Sprintf("%s stopped: step %d failed with errno %d", e.Doing, e.FailedOp, e.Errno)
	}
	return fmt.Sprintf("%s stopped: signal %d, code %d, address %#x at %#x", e.Doing, e.Signal, e.Code, e.Addr, e.Regs.RIP)
}

// Completed returns nil if the child completed its task, else a *StopError.
func (s Stop) Completed(doing string) error {
	if s.Done {
		return nil
	}
	return &StopError{doing, s}
}

// Complete is [Tracee.Do] for a list that must complete.
func (t *Tracee) Complete(ops []Op, limit time.Duration, doing string) error {
	stop, err := t.Do(ops, limit)
	if err != nil {
		return err
	}
	return stop.Completed(doing)
}
