package mapping

import (
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// bench is a live child for tests that prepare blocks.
type bench struct {
	t     *testing.T
	cpu   host.CPU
	timer *timing.TSC
	child *tracee.Tracee
}

func openBench(t *testing.T) *bench {
	t.Helper()
	cpu := host.Detect()
	b := &bench{t: t, cpu: cpu, timer: timing.NewUncalibrated(timing.Config{CPU: cpu, Init: initial.Paper()}), child: child(t)}
	b.attach()
	return b
}

// attach sets a child up as package profiler does.
func (b *bench) attach() {
	b.t.Helper()
	for _, slot := range []uint64{layout.SlotFlags, layout.DryRunFlags} {
		b.child.SetWord(slot, 0x202)
	}
	require.NoError(b.t, b.timer.Attach(b.t.Context(), b.child))
}

// open returns an arena with a live child.
func (b *bench) open() (Arena, error) {
	if !b.child.Alive() {
		b.child = child(b.t)
		b.attach()
	}
	return Arena{Child: b.child, ResetImage: b.timer.ResetImage(), Images: b.timer.Images(), Clock: b.timer.Clock()}, nil
}

// task returns a task with as many copies as the front end holds, which only checks frames that share a line.
func (b *bench) task(code []byte) Task {
	b.t.Helper()
	insts := require.Get(asm.Decode(code))(b.t)
	factors, _ := require.Get2(unroll.Choose(insts, b.cpu.FrontEnd))(b.t)
	memory := slices.ContainsFunc(insts, func(in asm.Inst) bool {
		return slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Write })
	})
	everything := harness.Reset{Vector: true, X87: true, MMX: true, MXCSR: true, Flags: true, Memory: memory}
	everything.Filled, _, _ = asm.X87Stack(insts)
	return Task{
		Open: b.open, Program: Program{Insts: insts, Factors: factors}, StoreBuffer: b.cpu.Core.StoreBuffer,
		Harness: harness.Harness{Reset: everything, Features: b.cpu.Features},
		Late:    func() bool { return false },
		Check: func(m *MappedBlock) (Findings, error) {
			if f := invariants.AliasFrame(m.Trace, b.cpu.Core); f.Rejection != nil {
				return Findings{}, f.Rejection
			}
			return Findings{}, nil
		},
	}
}

// begin maps a task in the paper's state on one frame and traces it.
func (b *bench) begin(t Task) (*MappedBlock, error) {
	b.t.Helper()
	place := require.Get(b.open())(b.t)
	t.Harness.Init = initial.Paper()
	for _, slot := range []uint64{layout.SlotMXCSR, layout.DryRunMXCSR} {
		place.Child.SetWord(slot, uint64(t.Harness.Init.MXCSR))
	}
	m, err := t.mapBlock(place, Plan{Insts: t.Program.Insts, Init: t.Harness.Init, Frames: 1, Limit: RunLimit, ResetImage: place.ResetImage})
	if err == nil {
		err = m.trace()
	}
	return m, err
}

// If the log holds too few copies, the longer image is run to find the words that it changes.
func TestRestoresWhatIsBeyondTheTrace(t *testing.T) {
	b := openBench(t)
	const copies = 400                                                           // of one word each
	task := b.task(require.Hex(t, "48ff03"+"4883c308"+strings.Repeat("90", 60))) // inc qword [rbx]; add rbx, 8; nops
	task.Program.Factors, task.Fixed = unroll.Factors{Short: 1, Long: copies}, true
	m, err := b.begin(task)
	if err == nil {
		err = m.addDirty(m.Short)
	}
	require.NoError(t, err)
	if m.Trace.Copies >= copies || len(m.Restore) != copies {
		t.Errorf("%d of %d copies traced, %d words are put back, want all %d", m.Trace.Copies, copies, len(m.Restore), copies)
	}
}

// A block that walks gets the copies that fit on steadyPages, in one attempt.
func TestWalkersGetFewerCopies(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		name, hex string
		want      unroll.Factors // or those that the front end allows
	}{
		{"a load that stays", "488b03", unroll.Factors{}},
		{"a load that moves a page each", "488b03" + "4881c300100000", unroll.Factors{Short: 4, Long: 20}},
		{"two pages each", "488b03" + "4881c300200000", unroll.Factors{Short: 4, Long: 20}},
		{"two loads on two pages each", "488b03" + "488b8b00100000" + "4881c300200000", unroll.Factors{Short: 2, Long: 10}},
	} {
		task := b.task(require.Hex(t, c.hex))
		want := task.Program.Factors
		if c.want != (unroll.Factors{}) {
			want = c.want
		}
		m, err := task.MapOnly([]initial.State{initial.Paper()})
		if err != nil || m.Factors != want || len(m.Pages) > steadyPages {
			t.Errorf("%s: %v copies on %d pages, want %v copies: %v", c.name, m.Factors, len(m.Pages), want, err)
		}
	}
}

// Mapping a block that is not measured must not take longer than mapping one that is.
func TestMapOnlyIsLimited(t *testing.T) {
	b := openBench(t)
	task := b.task(require.Hex(t, "488b03"+"488b8b00100000")) // mov rax, [rbx]; mov rcx, [rbx+0x1000]
	asked := 0
	task.Late = func() bool { asked++; return asked > 1 }
	m, err := task.MapOnly([]initial.State{initial.Paper(), initial.Paper()})
	if verdict.ReasonOf(err) != verdict.Timeout || len(m.Pages) != 1 || asked != 3 {
		t.Errorf("%d pages after asking %d times: %v; want the first state to end at the second page, and no other tried", len(m.Pages), asked, err)
	}
}
