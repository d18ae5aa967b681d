package profiler

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

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

// bench is a child for tests that do not time blocks: its clock is not calibrated. It
// belongs to the test's goroutine, so not to subtests.
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
	allowed, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{opts: Options{CPUs: allowed}, cpu: host.Detect(), states: initial.States(), cpus: &cpus{list: allowed, index: len(allowed) - 1}}
	s.timer = timing.NewUncalibrated(s.timingConfig())
	err = s.cpus.pin()
	if err == nil {
		err = s.ready()
	}
	require.Measure(t, err)
	t.Cleanup(s.discard)
	return bench{s, t}
}

// block decodes, maps and traces a block with some copies in one initial state. No rule checks
// the trace.
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
	insts, err := decode(code)
	if err != nil {
		return task, err
	}
	j := b.job(Block{Code: code})
	j.Unroll, j.Frames = &unroll.Factors{Short: 1, Long: copies}, frames
	task = b.task(j, insts, *j.Unroll)
	task.Check = func(*mapping.MappedBlock) (mapping.Findings, error) { return mapping.Findings{}, nil }
	task.Late = func() bool { return false }
	return task, nil
}

// build lays out copies of a mapped block after its images.
func (b bench) build(m *mapping.MappedBlock, copies int) harness.Image {
	b.t.Helper()
	im := require.Get(harness.Build(m.Long.End(), m.Insts, copies, nil, harnessOf(m)))(b.t)
	return im
}

// harnessOf returns the harness of a mapped block.
func harnessOf(m *mapping.MappedBlock) harness.Harness {
	h := m.Harness
	h.Clock = m.Clock
	return h
}

// machine is the state after an image.
type machine struct {
	gpr    [16]uint64
	flags  uint64
	vector []byte // zmm0–31, as far as the CPU has them
	mask   []byte // k0–7
	legacy []byte // what fxsave64 stores: x87, MXCSR, xmm
	frames []byte
}

// run runs an image up to the end of its last copy and reads everything there.
//
// The epilogue uses registers and flags itself, so run replaces it by an int3 and stores of the
// state that ptrace's general registers lack, which change nothing.
func (b bench) run(m *mapping.MappedBlock, im harness.Image) machine {
	b.t.Helper()
	return b.runAfter(m, im, []tracee.Op{tracee.Run(m.ResetImage, 1)})
}

// runAfter is run with operations before the image.
func (b bench) runAfter(r *mapping.MappedBlock, im harness.Image, ahead []tracee.Op) machine {
	b.t.Helper()
	const (
		saved      = layout.Control - 4096 // of the log, whose end these few copies do not reach
		savedMask  = saved + 32*64
		savedX87   = savedMask + 8*8
		flagsSeen  = 0x8d5 | 0x400 | 0x4000 | 0x40000 // arithmetic, DF, NT, AC
		fipInX87   = 8                                // the last x87 instruction's address: another in each image
		fipPastX87 = 16
	)
	epilogue := asm.NewEmitter(im.Address)
	harness.Epilogue(epilogue, im.Address, r.Clock)
	end := len(im.Code) - len(epilogue.Bytes())

	e := asm.NewEmitter(im.Address + uint64(end))
	to := func(addr uint64, code ...byte) { // an instruction that ends in its rip-relative operand
		e.Raw(code...)
		e.Raw(binary.LittleEndian.AppendUint32(nil, uint32(addr-e.PC()-4))...)
	}
	for n := range byte(32) {
		switch {
		case b.cpu.Features.AVX512: // vmovdqu64 [saved+64n], zmm
			to(saved+64*uint64(n), 0x62, 0x61|^(n>>3)&1<<7|^(n>>4)&1<<4, 0xfe, 0x48, 0x7f, 0x05|n&7<<3)
		case b.cpu.Features.AVX && n < 16: // vmovdqu [saved+64n], ymm
			to(saved+64*uint64(n), 0xc5, 0x7e|^(n>>3)&1<<7, 0x7f, 0x05|n&7<<3)
		}
	}
	if b.cpu.Features.AVX512BW {
		for n := range byte(8) { // kmovq [savedMask+8n], k
			to(savedMask+8*uint64(n), 0xc4, 0xe1, 0xf8, 0x91, 0x05|n<<3)
		}
	}
	to(savedX87, 0x48, 0x0f, 0xae, 0x05) // fxsave64
	e.Int3()
	im.Code = append(im.Code[:end:end], e.Bytes()...)
	copy(r.Child.Code()[im.Address-layout.Code:], im.Code)
	r.Refill()
	clear(r.Child.Log()[saved-layout.Log:])

	stop := require.Get(r.Child.Do(append(ahead, tracee.Run(im.Address, 1)), generous))(b.t)
	if stop.Signal != tracee.SIGTRAP || stop.Regs.RIP != im.End() {
		b.t.Fatalf("%s …: signal %d, code %d, address %#x at %#x of an image from %#x to %#x",
			r.Insts[0].Text(), stop.Signal, stop.Code, stop.Addr, stop.Regs.RIP, im.Address, im.End())
	}
	at := func(addr uint64, n int) []byte { return append([]byte(nil), r.Child.Log()[addr-layout.Log:][:n]...) }
	m := machine{
		gpr: stop.Regs.GPR, flags: stop.Regs.Flags & flagsSeen,
		vector: at(saved, 32*64), mask: at(savedMask, 64), legacy: at(savedX87, 512),
	}
	clear(m.legacy[fipInX87:fipPastX87])
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

// corpusSample returns every stride-th block of the development corpus, none on a machine without it.
func corpusSample(t *testing.T, stride int) (blocks [][]byte) {
	t.Helper()
	text, err := os.ReadFile("../../shared/corpus/blocks.csv")
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("the development corpus is not on this machine")
		return nil
	}
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; n%stride == 0 {
			code, _, _ := strings.Cut(strings.TrimSpace(line), ",")
			blocks = append(blocks, unhex(t, code))
		}
	}
	return blocks
}
