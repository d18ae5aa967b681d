package mapping

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// Known pages are there before the first run, in their order, and none of them costs a stop.
func TestMapBeginsWithKnownPages(t *testing.T) {
	p, im := plan(t)
	p.Frames = 2
	p.Known = []mapper.Page{{Addr: 0x5000, Frame: 1}, {Addr: 0x3000}, {Addr: 0x9000}}
	c := &fake{t: t, image: im, script: []tracee.Stop{fault(im, tracee.SIGSEGV, tracee.SegvMapErr, 0x7008)}}
	m, err := mapPages(c, p, im)
	if err != nil {
		t.Fatal(err)
	}
	first := []tracee.Op{tracee.UnmapBelow(), tracee.UnmapAbove(), tracee.MapFrame(0x5000, 0), tracee.MapFrame(0x3000, 1), tracee.MapFrame(0x9000, 0)}
	if m.Stops != 2 || len(c.lists) != 2 || !equal(c.lists[0], first) || !equal(c.lists[1], []tracee.Op{tracee.MapFrame(0x7000, 1)}) {
		t.Errorf("%d stops: %v", m.Stops, c.lists)
	}
	if want := []mapper.Page{{Addr: 0x5000}, {Addr: 0x3000, Frame: 1}, {Addr: 0x9000}, {Addr: 0x7000, Frame: 1, Fault: 0x7008}}; m.Known != 3 || !slices.Equal(m.Pages, want) {
		t.Errorf("%d known of %+v", m.Known, m.Pages)
	}
}

// A rejection is that of a block that begins with no page: it names the pages that it asked for.
func TestRejectedWithKnownPages(t *testing.T) {
	p, im := plan(t)
	p.Known = []mapper.Page{{Addr: 0x3000}}
	for name, script := range map[string][]tracee.Stop{
		"a fault that no page helps against": {fault(im, tracee.SIGFPE, 1, 0), fault(im, tracee.SIGSEGV, tracee.SegvMapErr, 0x7000), fault(im, tracee.SIGFPE, 1, 0)},
		"a known page cannot be mapped":      {{FailedOp: 2, Errno: 1}, fault(im, tracee.SIGSEGV, tracee.SegvMapErr, 0x7000), fault(im, tracee.SIGFPE, 1, 0)},
	} {
		c := &fake{t: t, image: im, script: script}
		m, err := mapPages(c, p, im)
		rejected(t, err, verdict.SIGFPE)
		if m.Known != 0 || len(m.Pages) != 1 || m.Pages[0].Addr != 0x7000 || m.Stops != 3 || !equal(c.lists[1], tracee.UnmapAll(0)) {
			t.Errorf("%s: %+v, lists %v", name, m, c.lists)
		}
	}
}

// A list holds so many steps; pages beyond that are asked for.
func TestMoreKnownPagesThanFit(t *testing.T) {
	p, im := plan(t)
	p.Pages = 2 * layout.MaxDryRunOps
	for i := range uint64(layout.MaxDryRunOps) {
		p.Known = append(p.Known, mapper.Page{Addr: i * layout.PageSize})
	}
	c := &fake{t: t, image: im}
	if m, err := mapPages(c, p, im); err != nil || m.Known != len(m.Pages) || len(c.lists[0]) != layout.MaxDryRunOps-1 {
		t.Errorf("%v, %d of %d pages, %d steps", err, m.Known, len(m.Pages), len(c.lists[0]))
	}
}

// A known page is kept if the block asks for it, and then says at which step.
func TestConfirm(t *testing.T) {
	// mov rax, [rbx]; mov [rcx], rdx; movsq; vmovups ymm0, [rbx]; fxsave [rbx]
	p, _ := plan(t, 0x48, 0x8b, 0x03, 0x48, 0x89, 0x11, 0x48, 0xa5, 0xc5, 0xfc, 0x10, 0x03, 0x0f, 0xae, 0x03)
	at := func(copy, inst, mem int, addr uint64, width int) asm.Access {
		return asm.Access{Copy: copy, Inst: inst, Mem: mem, Addr: addr, Width: width, Elem: width}
	}
	a := mapper.Page{Addr: 0x3000, Inst: 0, Fault: 0x3008}
	b := mapper.Page{Addr: 0x5000, Inst: 1, Fault: 0x5010}
	other := mapper.Page{Addr: 0x7000, Inst: 1, Fault: 0x7000}
	for _, c := range []struct {
		name     string
		frames   int
		known    []mapper.Page
		found    []mapper.Page
		accesses []asm.Access
		want     []mapper.Page
		ok       bool
	}{
		{"none", 1, nil, []mapper.Page{a}, nil, []mapper.Page{a}, true},
		{"all as known", 1, []mapper.Page{a, b}, nil, []asm.Access{at(0, 0, 0, 0x3008, 8), at(0, 1, 0, 0x5010, 8)}, []mapper.Page{a, b}, true},
		{"and others in between", 1, []mapper.Page{a, b}, []mapper.Page{{Addr: 0x9000, Inst: 2}},
			[]asm.Access{at(0, 0, 0, 0x3008, 8), at(0, 0, 0, 0x9000, 8), at(0, 1, 0, 0x5010, 8)}, []mapper.Page{a, b, {Addr: 0x9000, Inst: 2}}, true},
		{"at another step", 1, []mapper.Page{a}, nil, []asm.Access{at(1, 1, 0, 0x3ff8, 8), at(2, 0, 0, 0x3008, 8)}, []mapper.Page{{Addr: 0x3000, Copy: 1, Inst: 1, Fault: 0x3ff8}}, true},
		{"by the last bytes of a page", 1, []mapper.Page{a}, nil, []asm.Access{at(0, 0, 0, 0x3ff9, 8)}, nil, false},
		{"after one that was found", 1, []mapper.Page{b}, []mapper.Page{a}, []asm.Access{at(0, 1, 0, 0x5010, 8)}, []mapper.Page{a, b}, true},
		{"the same on two frames", 2, []mapper.Page{b}, []mapper.Page{a}, []asm.Access{at(0, 1, 0, 0x5010, 8)}, []mapper.Page{a, b}, false},
		{"in another order", 1, []mapper.Page{b, a}, nil, []asm.Access{at(0, 0, 0, 0x3008, 8), at(0, 1, 0, 0x5010, 8)}, []mapper.Page{a, b}, true},
		{"first in a way that does not tell where", 1, []mapper.Page{a}, nil, []asm.Access{at(0, 2, 0, 0x3008, 8), at(0, 2, 1, 0x3020, 8), at(1, 0, 0, 0x3008, 8)}, nil, false},
		{"not touched", 1, []mapper.Page{a, other, b}, nil, []asm.Access{at(0, 0, 0, 0x3008, 8), at(0, 1, 0, 0x5010, 8)}, []mapper.Page{a, b}, false},
		{"touched not even by the next byte", 1, []mapper.Page{a}, nil, []asm.Access{at(0, 0, 0, 0x2ff8, 8)}, nil, false},
		{"one instruction on two pages, as before", 1, []mapper.Page{{Addr: 0x3000, Inst: 2, Fault: 0x3008}, {Addr: 0x5000, Inst: 2, Fault: 0x5010}}, nil,
			[]asm.Access{at(0, 2, 0, 0x3008, 8), at(0, 2, 1, 0x5010, 8)}, []mapper.Page{{Addr: 0x3000, Inst: 2, Fault: 0x3008}, {Addr: 0x5000, Inst: 2, Fault: 0x5010}}, true},
		{"and one of them new", 1, []mapper.Page{{Addr: 0x3000, Inst: 2, Fault: 0x3008}}, []mapper.Page{{Addr: 0x5000, Inst: 2, Fault: 0x5010}},
			[]asm.Access{at(0, 2, 0, 0x3008, 8), at(0, 2, 1, 0x5010, 8)}, []mapper.Page{{Addr: 0x5000, Inst: 2, Fault: 0x5010}}, false},
		{"and not as before", 1, []mapper.Page{{Addr: 0x3000, Inst: 2, Fault: 0x3010}}, nil, []asm.Access{at(0, 2, 0, 0x3008, 8), at(0, 2, 1, 0x3020, 8)}, nil, false},
		{"32 bytes", 1, []mapper.Page{a}, nil, []asm.Access{at(0, 3, 0, 0x3020, 32)}, []mapper.Page{{Addr: 0x3000, Inst: 3, Fault: 0x3020}}, true},
		{"512 bytes, in whatever order", 1, []mapper.Page{a}, nil, []asm.Access{at(0, 4, 0, 0x3040, 512)}, nil, false},
	} {
		m := Mapping{Known: len(c.known)}
		for i, q := range slices.Concat(c.known, c.found) {
			q.Frame = i % c.frames
			m.Pages = append(m.Pages, q)
		}
		p.Frames = c.frames
		ok := m.confirm(p, c.accesses)
		for i := range m.Pages {
			m.Pages[i].Frame = 0
		}
		if d := cmp.Diff(c.want, m.Pages, cmpopts.EquateEmpty()); ok != c.ok || d != "" {
			t.Errorf("%s: %v, want %v; pages -want +got:\n%s", c.name, ok, c.ok, d)
		}
	}
}

// Each word once, by the first page on its frame, whichever page it was stored through.
func TestStored(t *testing.T) {
	m := Mapping{Pages: []mapper.Page{{Addr: 0x9000, Frame: 0}, {Addr: 0x3000, Frame: 1}, {Addr: 0x5000, Frame: 0}}}
	store := func(addr uint64, width int) asm.Access { return asm.Access{Addr: addr, Width: width, Write: true} }
	for _, c := range []struct {
		name     string
		accesses []asm.Access
		earlier  []uint64
		want     []uint64
	}{
		{"nothing", nil, nil, nil},
		{"an earlier list", nil, []uint64{0x3008, 0x9010}, []uint64{0x3008, 0x9010}},
		{"a load", []asm.Access{{Addr: 0x3000, Width: 8, Read: true}}, nil, nil},
		{"a byte", []asm.Access{store(0x300f, 1)}, nil, []uint64{0x3008}},
		{"across two words", []asm.Access{store(0x300f, 2)}, nil, []uint64{0x3008, 0x3010}},
		{"up to the next word", []asm.Access{store(0x3008, 8)}, nil, []uint64{0x3008}},
		{"by another page of the frame", []asm.Access{store(0x5ff8, 8), store(0x9ff8, 8)}, []uint64{0x9ff8}, []uint64{0x9ff8}},
		{"across two pages, the upper not mapped", []asm.Access{store(0x3ff8, 16)}, nil, []uint64{0x3ff8}},
		{"many at once", []asm.Access{store(0x9ff0, 16), store(0x3000, 24)}, nil, []uint64{0x3000, 0x3008, 0x3010, 0x9ff0, 0x9ff8}},
		{"beyond all pages", []asm.Access{store(0x7000, 8)}, nil, nil},
	} {
		if got := m.reached(c.accesses, c.earlier, false); !slices.Equal(got, c.want) {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	if got := (Mapping{}).reached([]asm.Access{store(0, 8)}, nil, false); got != nil {
		t.Errorf("without a page: %#x", got)
	}
}
