package mapping

import (
	"encoding/csv"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
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
	if err := b.timer.Attach(b.child); err != nil {
		b.t.Fatal(err)
	}
}

// open gives a place with a live child.
func (b *bench) open() (Place, error) {
	if !b.child.Alive() {
		b.child = child(b.t)
		b.attach()
	}
	return Place{Child: b.child, Fresh: b.timer.Fresh(), Images: b.timer.Images(), Clock: b.timer.Clock()}, nil
}

// task is a block with as many copies as the front end holds, of which only frames that share a line
// are judged.
func (b *bench) task(code []byte) Task {
	b.t.Helper()
	insts, err := asm.Decode(code)
	if err != nil {
		b.t.Fatal(err)
	}
	factors, _, err := unroll.Choose(insts, b.cpu.FrontEnd)
	if err != nil {
		b.t.Fatal(err)
	}
	memory := slices.ContainsFunc(insts, func(in asm.Inst) bool {
		return slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Write })
	})
	everything := harness.Reset{Vector: true, X87: true, MMX: true, MXCSR: true, Flags: true, Memory: memory}
	everything.Filled, _, _ = asm.X87Stack(insts)
	t := Task{
		Open: b.open, Program: Program{Insts: insts, Factors: factors}, StoreBuffer: b.cpu.Core.StoreBuffer,
		Harness: harness.Harness{Reset: everything, Features: b.cpu.Features},
		Late:    func() bool { return false },
		Judge: func(m *Mapped) (Judged, error) {
			if f := invariants.AliasFrame(m.Trace, b.cpu.Core); f.Rejection != nil {
				return Judged{}, f.Rejection
			}
			return Judged{}, nil
		},
	}
	return t.withProbe()
}

// begin maps a task in the paper's state on one frame, beginning with some pages, and traces it.
func (b *bench) begin(t Task, known []mapper.Page) (*Mapped, error) {
	b.t.Helper()
	place, err := b.open()
	if err != nil {
		b.t.Fatal(err)
	}
	t.Harness.Init = initial.Paper()
	for _, slot := range []uint64{layout.SlotMXCSR, layout.DryRunMXCSR} {
		place.Child.SetWord(slot, uint64(t.Harness.Init.MXCSR))
	}
	return t.confirmed(place, Plan{Insts: t.Program.Insts, Init: t.Harness.Init, Frames: 1, Limit: RunLimit, Fresh: place.Fresh}, known)
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	code, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// An attempt with more frames, or with fewer copies, finds its pages at once.
func TestAttemptsBeginWithWhatIsKnown(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		name, hex   string
		pages       int
		fewerCopies bool
	}{
		{"two stores on one frame", "488903" + "48898b00100000", 2, false},
		{"a load that moves a page each", "488b03" + "4881c300100000", 24, true},
	} {
		task := b.task(unhex(t, c.hex))
		all := task.Program.Factors
		m, err := task.Prepare([]initial.State{initial.Paper()})
		if err != nil && !c.fewerCopies {
			t.Errorf("%s: %v", c.name, err)
		}
		if m.Stops != 1 || (m.Factors != all) != c.fewerCopies || !c.fewerCopies && (len(m.Pages) != c.pages || m.Plan.Frames != c.pages) {
			t.Errorf("%s: %d stops for %d pages on %d frames, %v copies of %v", c.name, m.Stops, len(m.Pages), m.Plan.Frames, m.Factors, all)
		}
	}
}

// A block whose addresses follow from its registers is mapped without a fault, in the pages and by
// the steps for which it would have asked. One that advances too far learns how far with a few.
func TestForeseenPages(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		name, hex string
		stops     int
	}{
		{"a load", "488b03", 1},
		{"a pointer from memory", "488b03" + "488b8800200000", 1},
		{"pushes and pops, beyond a page", "50" + "51" + "5b", 1},
		{"a load that moves by a line", "488b03" + "4883c340", 1},
		{"and by four pages", "488b03" + "4881c300400000", 1},
		{"one more page by a pointer that is not followed", "480fc8" + "480fc8" + "488b8800200000" + "488b03", 2},
	} {
		task := b.task(unhex(t, c.hex))
		asked, err := b.begin(task, nil)
		if err != nil {
			t.Fatal(err)
		}
		before := b.child.Spent().Stops
		m, err := b.begin(task, task.foreseen(initial.Paper()))
		if err != nil {
			t.Fatal(err)
		}
		stops := b.child.Spent().Stops - before
		if d := cmp.Diff(asked.Pages, m.Pages); m.Stops != c.stops || d != "" || m.Factors != asked.Factors {
			t.Errorf("%s: %d stops; %v copies, want %v; pages: %s", c.name, m.Stops, m.Factors, asked.Factors, d)
		}
		// Too many pages; all of these in as many copies as there may be, traced; and what they leave.
		if asked.Factors != task.Program.Factors && stops > 6 {
			t.Errorf("%s: %d stops", c.name, stops)
		}
	}
}

// Whatever mapping begins with, it ends with the pages that the block asks for, in the order and by
// the steps in which it does.
func TestWrongPagesToBeginWith(t *testing.T) {
	b := openBench(t)
	rng := hostile.Seeded(t)
	check := func(code []byte) (pages int) {
		task := b.task(code)
		first, err := b.begin(task, nil)
		if err != nil {
			return 0
		}
		asked := first.Pages
		begin := func(known []mapper.Page) {
			m, err := b.begin(task, known)
			if d := cmp.Diff(asked, m.Pages); err != nil || m.Factors != first.Factors || d != "" {
				t.Errorf("%x begins with %+v: %v; %s", code, known, err, d)
			}
		}
		unasked := mapper.Page{Addr: 0x7f00_0000_0000}
		begin([]mapper.Page{unasked})
		begin(append([]mapper.Page{unasked}, asked...))
		var many []mapper.Page
		for i := range uint64(steadyPages) {
			many = append(many, mapper.Page{Addr: unasked.Addr + i*0x1000})
		}
		begin(many)                                                                // and with one more there are too many
		if half := len(asked) / 2; half > 0 && asked[0].Inst != asked[half].Inst { // one instruction's pages only ever come in its own order
			begin(slices.Concat(asked[half:], asked[:half]))
		}
		begin(asked[len(asked)/2:])
		other := slices.Clone(asked)
		for i := range other {
			other[i].Inst, other[i].Copy, other[i].Fault = len(task.Program.Insts)-1, 1, other[i].Addr+0x800
		}
		begin(other)
		return len(asked)
	}
	// Loads of three pages; one instruction on two of them; a load that moves a page each.
	for _, h := range []string{"488b03" + "488b8b00100000" + "488b9300200000", "488dbb00100000" + "48a5", "488b03" + "4881c300100000"} {
		check(unhex(t, h))
	}
	several := 0
	for range hostile.Scaled(150, 20_000) {
		code := hostile.ValidBlock(rng)
		insts, err := asm.Decode(code)
		if err != nil || asm.Refuse(insts) != nil {
			continue
		}
		if _, net, steady := asm.X87Stack(insts); net != 0 || !steady {
			continue
		}
		if _, _, err := unroll.Choose(insts, b.cpu.FrontEnd); err != nil {
			continue
		}
		if check(code) > 1 {
			several++
		}
	}
	t.Logf("%d random blocks with several pages", several)
	if several < 10 {
		t.Error("too few")
	}
}

// What any number of copies leaves changed is put back.
func TestEveryChangedWordIsPutBack(t *testing.T) {
	b := openBench(t)
	rng := hostile.Seeded(t)
	const copies = 7
	complete, words := 0, 0
	check := func(code []byte, frames int) {
		task := b.task(code)
		task.Program.Factors, task.Fixed, task.Frames = unroll.Factors{Short: 1, Long: copies}, true, frames
		task.Judge = func(*Mapped) (Judged, error) { return Judged{}, nil }
		m, err := task.Prepare([]initial.State{initial.Paper()})
		if err != nil || !m.Harness.Reset.Memory || !m.complete {
			return
		}
		complete++
		m.Child.SetRestore(nil, nil)
		for n := 1; n <= copies; n++ {
			im, err := m.image(m.Long.End(), n)
			if err != nil {
				t.Fatal(err)
			}
			m.put(im)
			m.Refill()
			if err := m.Plan.RunOnce(m.Child, im); err != nil {
				t.Fatalf("%x: %v", code, err)
			}
			for _, w := range m.dirty(m.Child, m.Plan) {
				words++
				if !slices.Contains(m.Restore, w) {
					t.Errorf("%x: %d copies change the word at %#x, which is not among %#x", code, n, w, m.Restore)
				}
			}
		}
	}
	check(unhex(t, "48ff4340"+"48f75348"), 1)     // inc qword [rbx+0x40]; not qword [rbx+0x48]
	check(unhex(t, "48894b08"+"48ff4b08"), 1)     // mov [rbx+8], rcx; dec qword [rbx+8]
	check(unhex(t, "0fae4340"+"dd7b08d97b10"), 1) // fxsave [rbx+0x40]; …
	for _, code := range ownBlocks(t) {
		if insts, err := asm.Decode(code); err == nil && asm.Refuse(insts) == nil {
			check(code, 1+rng.IntN(3))
		}
	}
	for range hostile.Scaled(200, 50_000) {
		check(hostile.ValidBlock(rng), 1+rng.IntN(3))
	}
	t.Logf("%d blocks, %d changed words", complete, words)
	if complete < 30 {
		t.Error("too few")
	}
}

// A block that stores what is there already is asked what it changes.
func TestStoresOfWhatIsThere(t *testing.T) {
	b := openBench(t)
	for hex, complete := range map[string]bool{
		"48ff03":       true,  // inc qword [rbx]
		"488903":       false, // mov [rbx], rax, which is the fill
		"48890b48ff03": true,  // mov [rbx], rcx; inc qword [rbx]
		"50":           false, // push rax
	} {
		m, err := b.begin(b.task(unhex(t, hex)), nil)
		if err == nil {
			err = m.findStored()
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.complete != complete {
			t.Errorf("%s: complete is %v, %d words", hex, m.complete, len(m.Restore))
		}
	}
	// More copies than can be traced.
	task := b.task(unhex(t, strings.Repeat("488903", 10)))
	task.Program.Factors, task.Fixed = unroll.Factors{Short: 1, Long: 2000}, true
	m, err := b.begin(task, nil)
	if err == nil {
		err = m.findStored()
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.complete {
		t.Errorf("complete, with %d of %d copies traced", m.Trace.Copies, m.Factors.Long)
	}
}

// ownBlocks are those of testdata/blocks-own.csv.
func ownBlocks(t *testing.T) (blocks [][]byte) {
	t.Helper()
	f, err := os.Open("../../testdata/blocks-own.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		blocks = append(blocks, unhex(t, row[0]))
	}
	return blocks
}

// A block that walks gets the copies that steadyPages do for, in one go.
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
		task := b.task(unhex(t, c.hex))
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
