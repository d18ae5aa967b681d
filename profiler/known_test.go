package profiler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
)

// ready is a block on one frame in the paper's state, before it is mapped.
func (b bench) readied(code []byte) *run {
	b.t.Helper()
	r := b.newRun(Block{Code: code})
	if err := errors.Join(r.decode(), r.refuse(), r.choose()); err != nil {
		b.t.Fatal(err)
	}
	r.allowed = r.allow(time.Minute)
	r.plan = mapper.Plan{Insts: r.insts, Init: r.inits[0], Frames: 1, Limit: runLimit, Late: r.allowed.over, Fresh: r.fresh}
	return r
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
		r := b.readied(unhex(t, c.hex))
		all := r.factors
		if err := r.prepareWith(r.inits[0], true); err != nil && !c.fewerCopies {
			t.Errorf("%s: %v", c.name, err)
		}
		if r.mapping.Stops != 1 || (r.factors != all) != c.fewerCopies || !c.fewerCopies && (len(r.mapping.Pages) != c.pages || r.plan.Frames != c.pages) {
			t.Errorf("%s: %d stops for %d pages on %d frames, %v copies of %v", c.name, r.mapping.Stops, len(r.mapping.Pages), r.plan.Frames, r.factors, all)
		}
	}
}

// A block whose addresses follow from its registers is mapped without a fault, in the pages and by
// the steps for which it would have asked. One that walks on too far is told how far with a few.
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
		r := b.readied(unhex(t, c.hex))
		factors := r.factors
		if err := r.mapAndConfirm(); err != nil {
			t.Fatal(err)
		}
		asked, copies := r.mapping.Pages, r.factors
		r.factors = factors
		before := r.spent().Stops
		r.known = r.foreseen()
		if err := r.mapAndConfirm(); err != nil {
			t.Fatal(err)
		}
		stops := r.spent().Stops - before
		if r.mapping.Stops != c.stops || !slices.Equal(r.mapping.Pages, asked) || r.factors != copies {
			t.Errorf("%s: %d stops, pages %+v, want %+v; %v copies, want %v", c.name, r.mapping.Stops, r.mapping.Pages, asked, r.factors, copies)
		}
		// Too many pages; all of these in as many copies as there may be, traced; and what they leave.
		if copies != factors && stops > 6 {
			t.Errorf("%s: %d stops", c.name, stops)
		}
	}
}

// Whatever mapping begins with, it ends with the pages that the block asks for, in the order and by
// the steps in which it does.
func TestWrongPagesToBeginWith(t *testing.T) {
	b := openBench(t)
	rng := seeded(t)
	check := func(code []byte) (pages int) {
		r := b.readied(code)
		factors := r.factors
		if r.mapAndConfirm() != nil {
			return 0
		}
		asked, copies := r.mapping.Pages, r.factors
		begin := func(known []mapper.Page) {
			r.known, r.factors = known, factors
			err := r.mapAndConfirm()
			if err != nil || r.factors != copies || !slices.Equal(r.mapping.Pages, asked) || !slices.Equal(r.result.Mapping, r.mapping.Pages) && r.opts.Detail {
				t.Errorf("%x begins with %+v and ends with %+v, not %+v: %v", code, known, r.mapping.Pages, asked, err)
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
			other[i].Inst, other[i].Copy, other[i].Fault = len(r.insts)-1, 1, other[i].Addr+0x800
		}
		begin(other)
		return len(asked)
	}
	// Loads of three pages; one instruction on two of them; a load that moves a page each.
	for _, h := range []string{"488b03" + "488b8b00100000" + "488b9300200000", "488dbb00100000" + "48a5", "488b03" + "4881c300100000"} {
		check(unhex(t, h))
	}
	several := 0
	for range scaled(150, 20_000) {
		code := hostile.ValidBlock(rng)
		insts, err := asm.Decode(code)
		if err != nil || asm.Refuse(insts) != nil {
			continue
		}
		if err := b.ready(); err != nil {
			t.Fatal(err)
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
	rng := seeded(t)
	const copies = 7
	complete, words := 0, 0
	check := func(code []byte, frames int) {
		r, rejection := b.mapped(code, b.inits[:1], frames, copies)
		if rejection != nil || r.trace() != nil || r.findStored() != nil || !r.reset.Memory || !r.complete {
			return
		}
		complete++
		r.child.SetRestore(nil)
		for n := 1; n <= copies; n++ {
			im, err := unroll.Build(r.long.End(), r.insts, n, r.frame())
			if err != nil {
				t.Fatal(err)
			}
			r.place(im)
			r.plan.Refill(r.child)
			if err := r.plan.RunOnce(r.child, im); err != nil {
				t.Fatalf("%x: %v", code, err)
			}
			for _, w := range r.mapping.Dirty(r.child, r.plan.Init) {
				words++
				if !slices.Contains(r.dirty, w) {
					t.Errorf("%x: %d copies change the word at %#x, which is not among %#x", code, n, w, r.dirty)
				}
			}
		}
	}
	check(unhex(t, "48ff4340"+"48f75348"), 1)     // inc qword [rbx+0x40]; not qword [rbx+0x48]
	check(unhex(t, "48894b08"+"48ff4b08"), 1)     // mov [rbx+8], rcx; dec qword [rbx+8]
	check(unhex(t, "0fae4340"+"dd7b08d97b10"), 1) // fxsave [rbx+0x40]; …
	for _, own := range ownBlocks(t) {
		if insts, err := asm.Decode(own.code); err == nil && asm.Refuse(insts) == nil {
			check(own.code, 1+rng.IntN(3))
		}
	}
	for range scaled(200, 50_000) {
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
		r := b.readied(unhex(t, hex))
		if err := errors.Join(r.mapAndConfirm(), r.findStored()); err != nil {
			t.Fatal(err)
		}
		if r.complete != complete {
			t.Errorf("%s: complete is %v, %d words", hex, r.complete, len(r.dirty))
		}
	}
	// More copies than can be traced.
	r := b.readied(unhex(t, strings.Repeat("488903", 10)))
	r.factors = unroll.Factors{Short: 1, Long: 2000}
	r.opts.Unroll = &r.factors
	if err := errors.Join(r.mapAndConfirm(), r.findStored()); err != nil {
		t.Fatal(err)
	}
	if r.complete {
		t.Errorf("complete, with %d of %d copies traced", r.tracing.Copies, r.factors.Long)
	}
}
