package profiler

import (
	"errors"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// bench is an uncalibrated child, for tests that do not time blocks. It belongs to one goroutine, so not to subtests.
type bench struct {
	*session
	t testing.TB
}

// generous is a time limit that a busy machine does not exceed.
const generous = 30 * time.Second

// openBench starts a child, or skips the test on a machine that cannot have one.
func openBench(t testing.TB) bench {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread is bound to a CPU, and ends with the test
	allowed := require.Get(host.AllowedCPUs())(t)
	s := &session{opts: Options{CPUs: allowed}, cpu: host.Detect(), states: initial.States(), cpus: &cpus{list: allowed, index: len(allowed) - 1}}
	s.timer = timing.NewUncalibrated(s.timingConfig())
	err := s.cpus.pin()
	if err == nil {
		err = s.ready()
	}
	require.Measure(t, err)
	t.Cleanup(s.discard)
	return bench{s, t}
}

// block decodes, maps and traces a block in one initial state. No rule checks the trace.
func (b bench) block(code []byte, init initial.State, frames, copies int) (*mapping.MappedBlock, error) {
	b.t.Helper()
	task, err := b.unjudged(code, frames, copies)
	if err != nil {
		return nil, err
	}
	return task.Prepare([]initial.State{init})
}

// unjudged returns a task with this number of copies and frames, whatever the trace shows.
func (b bench) unjudged(code []byte, frames, copies int) (task mapping.Task, err error) {
	b.t.Helper()
	require.NoError(b.t, b.ready())
	insts, err := new(job).decode(code)
	if err != nil {
		return task, err
	}
	j := b.job(Block{Code: code})
	j.Unroll, j.Frames = &unroll.Factors{Short: 1, Long: copies}, frames
	task = b.task(j, insts, *j.Unroll)
	task.Check = func(*mapping.MappedBlock) (mapping.Findings, error) { return mapping.Findings{}, nil }
	task.Late, task.Move = func() bool { return false }, false
	return task, nil
}

// build lays out copies of a mapped block after its images.
func (b bench) build(m *mapping.MappedBlock, copies int) harness.Image {
	b.t.Helper()
	return require.Get(harness.Build(m.Long.End(), m.Insts, copies, nil, harnessOf(m)))(b.t)
}

// harnessOf returns the harness of a mapped block.
func harnessOf(m *mapping.MappedBlock) harness.Harness {
	h := m.Harness
	h.Clock = m.Clock
	return h
}

// machine is the state after an image: registers and frames.
type machine struct {
	initial.Captured
	frames []byte
}

// difference describes the difference between two machines, if any.
func (m machine) difference(other machine) string {
	if reflect.DeepEqual(m, other) { // fast
		return ""
	}
	return cmp.Diff(m, other, cmp.AllowUnexported(machine{}))
}

// run runs an image up to the end of its last copy, where an int3 replaces the epilogue, which uses registers and flags itself.
func (b bench) run(m *mapping.MappedBlock, im harness.Image) machine {
	b.t.Helper()
	return b.runAfter(m, im, []tracee.Op{tracee.Run(m.ResetImage, 1)})
}

// runAfter is run with operations before the image.
func (b bench) runAfter(r *mapping.MappedBlock, im harness.Image, ahead []tracee.Op) (m machine) {
	b.t.Helper()
	epilogue := asm.NewEmitter(im.Address)
	harness.Epilogue(epilogue, im.Address, r.Clock)
	end := len(im.Code) - len(epilogue.Bytes())
	im.Code = append(im.Code[:end:end], 0xcc) // int3
	copy(r.Child.Code()[im.Address-layout.Code:], im.Code)
	r.Refill()
	stop := require.Get(r.Child.Do(append(ahead, tracee.Run(im.Address, 1)), generous))(b.t)
	if stop.Signal != tracee.SIGTRAP || stop.Regs.RIP != im.End() {
		b.t.Fatalf("%s …: signal %d, code %d, address %#x at %#x of an image from %#x to %#x",
			r.Insts[0].Text(), stop.Signal, stop.Code, stop.Addr, stop.Regs.RIP, im.Address, im.End())
	}
	m.GPR, m.Flags = stop.Regs.GPR, stop.Regs.Flags&(0x8d5|0x400|0x4000|0x40000) // arithmetic, DF, NT, AC
	m.SetXSave(require.Get(r.Child.XSave())(b.t), xsaveOffsets())
	m.frames = make([]byte, 0, r.Plan.Frames*layout.PageSize)
	for i := range r.Plan.Frames {
		m.frames = append(m.frames, r.Child.Frame(i)...)
	}
	return m
}

// rejectionOf returns the rejection of a block, or an empty one without an error. Any other error ends the test.
func rejectionOf(t testing.TB, err error) *verdict.Rejection {
	t.Helper()
	r, ok := errors.AsType[*verdict.Rejection](err)
	switch {
	case ok:
		return r
	case err != nil:
		t.Fatal(err)
	}
	return &verdict.Rejection{}
}
