// Package count counts exactly the instructions that a function of a program executes. No layout changes the count, so
// a test can assert what a compiler made of a loop.
//
// A call is counted from the function's first instruction to its return, with all callees. Only one thread's user-mode
// instructions count. A system call counts as one, as does a string instruction with any number of rep iterations; a
// signal handler that runs on that thread is included.
package count

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/verdict"
)

type Method string

const (
	Auto Method = "auto"    // by the hardware counter if there is one, else by copies
	Hard Method = "counter" // by the hardware counter
	Step Method = "step"    // single steps: exact, some 5 µs each, in virtual machines 20 to 35
	Copy Method = "copy"    // steps, and after CopyAfter of a call copies of the code that count themselves: as exact
)

func Methods() []Method { return []Method{Auto, Hard, Copy, Step} }

// Numbers of calls with a meaning of their own.
const (
	All  = -1
	Last = -2 // the last one alone: a run before it counts the calls
)

// Options of a count. The zero value means the defaults.
type Options struct {
	launch.Control // Stderr also gets standard output

	Method Method // default Auto
	Calls  int    // calls to count, default 1, the first; or All, until the program ends, or Last
	Limit  int    // most instructions of a call to step through, default 10,000,000; those that copies run do not count
	// CopyAfter is after how many steps of a call copies of its code run, default 10,000, which take a quarter of a second or less.
	CopyAfter int
	JIT       bool // a JIT compiler makes the function, and lists it in a launch.PerfMap
	Whole     bool // a call in which a signal ends the program is an error: its count says nothing of the function
	// Stepped receives the number of instructions stepped through in all calls now and then; may be nil.
	Stepped func(instructions int)
	Kernel  pmu.Kernel // default pmu.Linux
}

type Call struct {
	Instructions uint64 `json:"instructions"`
	// Returned is false if the call was left by a jump to one of its callers or the program ended in it. It is counted
	// up to there.
	Returned bool `json:"returned"`
	Left     bool `json:"left,omitzero"` // by longjmp, an exception or a panic, for example; detected only by steps
}

type Result struct {
	Function     string   `json:"function"`
	Address      uint64   `json:"address,omitzero"` // in the file; 0 for a shared library's or a JIT compiler's
	Program      []string `json:"program"`
	Method       Method   `json:"method"` // Hard or Step; Copy if any copy ran
	Calls        []Call   `json:"calls"`
	Instructions uint64   `json:"instructions"`
	Again        bool     `json:"called_again,omitzero"` // after these calls
	Notes        []string `json:"notes,omitempty"`       // remarks for the reader
}

// Remarks are the notes, and how calls ended that did not return.
func (r Result) Remarks() []string {
	left, open := 0, 0
	for _, c := range r.Calls {
		if c.Left {
			left++
		} else if !c.Returned {
			open++
		}
	}
	all := slices.Clone(r.Notes)
	if left > 0 {
		all = append(all, words.Plural(left, "call")+" left by a jump to a caller, and counted until then")
	}
	if open > 0 {
		all = append(all, "the program ended in the call")
	}
	return all
}

// Function runs a program and counts a function's calls. A *launch.Error blames the program or the function, a
// *verdict.HostError this machine.
func Function(ctx context.Context, c launch.Command, name string, o Options) (Result, error) {
	f, err := launch.Function{Name: name}, error(nil)
	if !o.JIT {
		f, err = c.Exe.Function(name)
	}
	if err != nil {
		return Result{}, err
	}
	chosen := o.Method
	o.defaults()
	r := Result{Function: f.Name, Address: f.Addr, Program: append([]string{c.Name}, c.Args...)}
	s, earlier := session{}, 0
	if o.Calls == Last {
		o.Calls = All
		if s, err = countOnce(ctx, c, f, o, noneCounted); err != nil {
			return Result{}, err
		}
		earlier, o.Calls = s.passed-1, 1
	}
	for range zeroTries {
		if s, err = countOnce(ctx, c, f, o, earlier); !errors.Is(err, errZero) {
			break
		}
	}
	if errors.Is(err, errZero) && chosen != Hard {
		o.Method = Copy
		s, err = countOnce(ctx, c, f, o, earlier)
	}
	if errors.Is(err, debuggee.ErrCopies) {
		o.Method = Step
		s, err = countOnce(ctx, c, f, o, earlier)
	}
	if err != nil {
		return Result{}, err
	}
	if o.Method == Copy && s.copied == 0 {
		o.Method = Step
	}
	r.Method, r.Calls, r.Notes, r.Again = o.Method, s.calls, s.notes, s.again
	if earlier > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s before it are not counted", words.Plural(earlier, "call")))
	}
	for _, call := range r.Calls {
		r.Instructions += call.Instructions
	}
	return r, nil
}

// zeroTries is how often a program is run again whose counter reads zero, as counters sometimes do, above all virtual
// ones, before it is stepped instead.
const zeroTries = 3

var errZero error = &verdict.HostError{
	Missing: fmt.Sprintf("the hardware's counter read zero in %d runs", zeroTries),
	Remedy:  "count by single steps: -method step",
}

func (o *Options) defaults() {
	if o.Kernel == nil {
		o.Kernel = pmu.Linux{}
	}
	if o.Method = cmp.Or(o.Method, Auto); o.Method == Auto {
		o.Method = Copy
		if pmu.CanCount(o.Kernel, pmu.ProcessInstructions) {
			o.Method = Hard
		}
	}
	o.Calls, o.Limit, o.CopyAfter = cmp.Or(o.Calls, 1), cmp.Or(o.Limit, 10_000_000), cmp.Or(o.CopyAfter, 10_000)
	o.Timeout, o.Merge, o.Calm = cmp.Or(o.Timeout, 5*time.Minute), true, true
}

// noneCounted is more calls than any program makes.
const noneCounted = math.MaxInt

// countOnce counts calls after so many earlier ones.
func countOnce(ctx context.Context, c launch.Command, f launch.Function, o Options, earlier int) (session, error) {
	s := session{opts: o, name: f.Name, earlier: earlier}
	err := c.Control(ctx, launch.Setup{}, o.Control, func(p *debuggee.Process) error {
		s.Process = p
		return s.count(c, f)
	})
	timedOut := errors.Is(err, context.DeadlineExceeded)
	switch {
	case s.jit != nil && !s.listed && (err == nil || timedOut):
		how := fmt.Sprintf("it was killed after %v", o.Timeout)
		if !timedOut {
			how = s.end.String()
		}
		return s, s.jit.Missing(c.Name, f.Name, how)
	case timedOut && s.enough() && s.whole() == len(s.calls):
		s.notes = append(s.notes, fmt.Sprintf("the program did not end within %v and was killed when all was counted", o.Timeout))
	case timedOut:
		return s, launch.Errorf(c.Name, "give it longer with -timeout, or less to do",
			"it was killed after %v, with %s of %s counted", o.Timeout, words.Plural(s.whole(), "call"), f.Name)
	case err != nil:
		return s, err
	case o.Whole && s.end != nil && s.end.Signal != 0 && s.whole() < len(s.calls):
		return s, launch.Errorf(strings.Join(append([]string{c.Name}, c.Args...), " "), "mend the program, or give it other arguments",
			"a call of %s did not return: %v", f.Name, s.end)
	case s.await != nil && len(s.entries)+len(s.calls)+s.passed == 0:
		return s, launch.Errorf(c.Name, "ldd lists the libraries that it begins with, nm -D their functions",
			"it loaded no shared library %s with a function %s: %v", f.Library, f.Name, s.end)
	case len(s.calls) == 0 && s.passed > 0 && earlier != noneCounted:
		return s, launch.Errorf(c.Name, "-calls all counts all that it makes", "it called %s only %s this time, and more often before", f.Name,
			words.Plural(s.passed, "time"))
	case len(s.calls)+s.passed == 0:
		return s, launch.Errorf(c.Name, "is the function inlined where it is used, or not reached with these arguments?",
			"it never called %s: %v", f.Name, s.end)
	}
	return s, nil
}

type session struct {
	*debuggee.Process
	opts  Options
	name  string
	calls []Call
	notes []string
	end   *debuggee.End // of the program; nil before

	earlier int  // calls to pass over
	passed  int  // of them, so far
	again   bool // it was called once more after all that count

	entries []uint64                         // of the function: a JIT compiler may make it several times
	await   func([]uint64) ([]uint64, error) // finds them in a library that is loaded later; nil if it is there
	jit     *launch.PerfMap                  // nil if the function is in a file
	listed  bool                             // there
	unset   error                            // why the last breakpoint cannot be set, as yet

	stepped int    // in all calls
	copied  uint64 // of the instructions, those that copies ran
}

func (s *session) whole() (n int) {
	for _, c := range s.calls {
		if c.Returned || c.Left {
			n++
		}
	}
	return n
}

func (s *session) enough() bool { return s.opts.Calls != All && len(s.calls) >= s.opts.Calls }

func (s *session) count(c launch.Command, f launch.Function) error {
	if s.opts.JIT {
		s.jit = launch.NewPerfMap(s.ID())
	} else {
		entry, err := c.Locate(s.Process, f)
		switch {
		case errors.Is(err, launch.ErrNotLoaded):
			s.await = c.Awaited(s.Process, f)
		case err != nil:
			return err
		default:
			s.entries = []uint64{entry}
		}
	}
	for {
		if err := s.breakAtEntries(); err != nil {
			return err
		}
		if s.jit != nil || s.await != nil {
			s.OnCall(s.breakAtEntries)
		}
		stop, err := s.Run()
		s.OnCall(nil) // stops within a call would disturb a counter
		if err != nil {
			return err
		}
		if s.end = stop.End; s.end != nil {
			if len(s.calls) == 0 && s.unset != nil {
				return s.unset
			}
			s.ended()
			return nil
		}
		if s.again = s.enough(); s.again {
			break
		}
		if err := s.call(c, stop); err != nil {
			return err
		}
		if s.end != nil {
			s.ended()
			return nil
		}
	}
	if err := s.Detach(); err != nil {
		return err
	}
	end, _, err := s.Wait()
	s.end = &end
	if err == nil {
		s.ended()
	}
	return err
}

// breakAtEntries sets the breakpoints, after looking for what a JIT compiler has added. It may list code before it maps
// or writes it, and may unmap it.
func (s *session) breakAtEntries() error {
	if s.jit != nil {
		now, err := s.jit.Update(s.entries, s.name)
		if err != nil {
			return &launch.Error{Subject: s.jit.Path, Problem: "it cannot be read", Err: err}
		}
		if !s.listed && len(now) > 0 {
			s.listed = true
			s.notes = append(s.notes, fmt.Sprintf("%s is counted from when %s listed it; earlier calls are not", s.name, s.jit.Path))
		}
		for _, entry := range s.entries {
			if !slices.Contains(now, entry) {
				if err := s.Unbreak(entry); err != nil {
					return err
				}
			}
		}
		s.entries = now
	}
	if s.await != nil {
		var err error
		if s.entries, err = s.await(s.entries); err != nil {
			return err
		}
	}
	for _, entry := range s.entries {
		s.unset = s.Break(entry)
		if missing := (*debuggee.Fault)(nil); s.unset != nil && (s.jit == nil && s.await == nil || !errors.As(s.unset, &missing)) {
			return s.unset
		}
	}
	return nil
}

func (s *session) ended() {
	switch {
	case s.end.Exec:
		s.notes = append(s.notes, fmt.Sprintf("%v, and was ended", s.end))
	case s.opts.Calls > 0 && len(s.calls) > 0 && !s.enough():
		s.notes = append(s.notes, fmt.Sprintf("it made no more than %s: %v", words.Plural(len(s.calls), "call"), s.end))
	case s.end.Signal != 0 || s.end.Status != 0 && len(s.calls) > 0:
		s.notes = append(s.notes, fmt.Sprintf("the program ended abnormally: %v", s.end))
	}
}

func (s *session) call(c launch.Command, stop debuggee.Stop) error {
	f, err := s.newFrame(c.Exe.IsGo, stop)
	if err != nil {
		return err
	}
	if s.passed < s.earlier {
		s.passed++
		if err := s.passOver(f); err != nil || s.end != nil {
			return err
		}
		return s.Unbreak(f.back)
	}
	count := s.byStep
	if s.opts.Method == Hard {
		count = s.byCounter
	}
	call, err := count(f)
	if err != nil {
		return err
	}
	s.calls = append(s.calls, call)
	if s.end != nil {
		return nil
	}
	return s.Unbreak(f.back)
}

type frame struct {
	thread int
	entry  uint64
	back   uint64 // return address; 0 if there is none, as at a program's entry
	sp     uint64 // at the entry, pointing to the return address
	// The goroutine, and sp's distance from its stack's upper end, which does not change when the runtime moves the
	// stack; 0 if not a goroutine's.
	g, depth uint64
}

func (s *session) newFrame(isGo bool, stop debuggee.Stop) (frame, error) {
	at := stop.Regs
	back, err := s.Word(at.GPR[asm.RSP])
	if err != nil {
		return frame{}, err
	}
	if _, err := s.Word(back); err != nil {
		back = 0
	}
	f := frame{thread: stop.Thread, entry: at.RIP, back: back, sp: at.GPR[asm.RSP]}
	if isGo {
		if low, high, ok := s.stackOf(at.GPR[asm.R14]); ok && low <= at.GPR[asm.RSP] && at.GPR[asm.RSP] < high {
			f.g, f.depth = at.GPR[asm.R14], high-at.GPR[asm.RSP]
		}
	}
	return f, nil
}

// stackOf reads a goroutine's stack bounds from the start of its descriptor (type g, runtime/runtime2.go). Go functions
// have the descriptor in r14 at calls and returns (cmd/compile/abi-internal.md).
func (s *session) stackOf(g uint64) (low, high uint64, ok bool) {
	low, err1 := s.Word(g)
	high, err2 := s.Word(g + 8)
	return low, high, err1 == nil && err2 == nil
}

// returned reports whether the registers are those of a thread just after the frame's return. In a recursive call that returns to
// the same address the stack is still deeper; another thread returns from a call of its own, unless it took over the stack.
func (s *session) returned(f frame, thread int, at asm.Regs) bool {
	switch {
	case f.back == 0 || at.RIP != f.back:
		return false
	case f.g != 0:
		return s.isAbove(f, at)
	case thread != f.thread:
		return at.GPR[asm.RSP] == f.sp+8
	}
	return at.GPR[asm.RSP] > f.sp
}

// isAbove reports whether the registers belong to the frame's goroutine and the frame is off its stack.
func (s *session) isAbove(f frame, at asm.Regs) bool {
	low, high, ok := s.stackOf(at.GPR[asm.R14])
	return ok && at.GPR[asm.R14] == f.g && low <= at.GPR[asm.RSP] && at.GPR[asm.RSP] <= high && high-at.GPR[asm.RSP] < f.depth
}

// left reports whether the instruction between two stack pointers removed the frame, by a return or a jump to a
// caller's return address. Running on another stack, such as a signal handler's, is neither.
func (s *session) left(f frame, before uint64, at asm.Regs) bool {
	if f.back == 0 {
		return false
	}
	if f.g != 0 {
		return before != at.GPR[asm.RSP] && s.isAbove(f, at)
	}
	return before <= f.sp && f.sp < at.GPR[asm.RSP] && (at.RIP == f.back || s.OneMapping(f.sp, at.GPR[asm.RSP]))
}

func (s *session) byStep(f frame) (Call, error) {
	thread := f.thread
	if err := s.enter(f); err != nil {
		return Call{}, err
	}
	s.Foreign(func(other int, at asm.Regs) bool { return s.returned(f, other, at) })
	defer s.DropCopies(thread) // where that fails, their memory stays, unused
	var call Call
	steps := 0
	for before := f.sp; ; {
		if s.opts.Method == Copy && steps >= s.opts.CopyAfter {
			n, err := s.RunCopied(thread, f.back)
			if err != nil {
				return Call{}, err
			}
			call.Instructions += n
			s.copied += n
			at, err := s.Regs(thread)
			if err != nil {
				return Call{}, err
			}
			if n > 0 && s.left(f, f.sp, at) {
				if call.Returned = at.RIP == f.back; !call.Returned {
					return Call{}, debuggee.ErrCopies // it may have left some time ago
				}
				return call, nil
			}
			before = at.GPR[asm.RSP]
		}
		if steps == s.opts.Limit {
			return Call{}, launch.Errorf(s.name, "raise -limit, or give the program less to do",
				"a call has more than %d instructions, the most that are stepped through", s.opts.Limit)
		}
		step, err := s.Step(thread)
		switch {
		case err != nil:
			return Call{}, err
		case step.Elsewhere != 0:
			return Call{}, fmt.Errorf("a call of %s went on in another thread: %w", s.name,
				launch.Errorf(s.name, "run a Go program with GOMAXPROCS=1, or count a function that does not wait",
					"it waited, and went on in another thread, whose instructions are not counted"))
		case step.Gone:
			if step.Executed {
				call.Instructions++
			}
			s.end = step.End
			if s.end == nil {
				return Call{}, launch.Errorf(s.name, "count a function that returns", "its thread ended in the call")
			}
			return call, nil
		}
		if step.Executed && !step.Again {
			call.Instructions++
			steps++
			if s.stepped++; s.stepped%debuggee.StepsShown == 0 && s.opts.Stepped != nil {
				s.opts.Stepped(s.stepped)
			}
		}
		if step.Executed && s.left(f, before, step.Regs) {
			call.Returned = step.Regs.RIP == f.back
			call.Left = !call.Returned
			return call, nil
		}
		before = step.Regs.GPR[asm.RSP]
	}
}

// enter moves the breakpoint from the entry, where recursion and other threads would stop, to the return, where another
// thread may arrive: see Foreign.
func (s *session) enter(f frame) error {
	if err := s.Unbreak(f.entry); err != nil || f.back == 0 {
		return err
	}
	return s.Break(f.back)
}

func (s *session) passOver(f frame) error {
	if err := s.enter(f); err != nil {
		return err
	}
	for {
		stop, err := s.Run()
		if err != nil {
			return err
		}
		if s.end = stop.End; s.end != nil || s.returned(f, stop.Thread, stop.Regs) {
			return nil
		}
		if err := s.pass(stop.Thread, f, new(Call)); err != nil {
			return err
		}
	}
}

// pass steps a thread past a breakpoint that does not end the call: a recursive call's return, or another thread's.
func (s *session) pass(thread int, f frame, call *Call) error {
	for {
		step, err := s.Step(thread)
		if err != nil || step.Gone || step.Elsewhere != 0 {
			return err
		}
		if step.Executed && thread == f.thread && !step.Again {
			call.Instructions++
		}
		if step.Executed {
			return nil
		}
	}
}
