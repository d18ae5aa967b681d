package invariants

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// small is a core whose limits are easy to reach, and predicted the same with way prediction.
var (
	small     = Core{L1DWays: 4, StoreBuffer: 3}
	predicted = Core{L1DWays: 4, StoreBuffer: 3, WayPredicted: true}
)

func insts(t *testing.T, code string) []asm.Inst {
	t.Helper()
	b := require.Hex(t, code)
	return require.Get(asm.Decode(b))(t)
}

func load(addr uint64, width int) asm.Access {
	return asm.Access{Addr: addr, Width: width, Elem: width, Read: true}
}

func store(addr uint64, width int) asm.Access {
	return asm.Access{Addr: addr, Width: width, Elem: width, Write: true}
}

func modify(addr uint64, width int) asm.Access {
	return asm.Access{Addr: addr, Width: width, Elem: width, Read: true, Write: true}
}

// rep makes a rep string operation of an access to one element.
func rep(a asm.Access, rounds int) asm.Access {
	a.Width *= rounds
	return a
}

// trace puts accesses on frames: pages[i] stands on frames[i]. A page that is not listed stands on a frame of its
// own.
func trace(t *testing.T, accesses []asm.Access, frames map[uint64]int) Trace {
	tr := Trace{Insts: insts(t, "90"), Copies: 1, Accesses: accesses, Frame: map[uint64]int{}}
	for _, a := range accesses {
		for p := a.Addr &^ within; p < a.Addr+uint64(a.Width); p += page {
			if f, ok := frames[p]; ok {
				tr.Frame[p] = f
			} else if _, ok := tr.Frame[p]; !ok {
				tr.Frame[p] = len(frames) + len(tr.Frame)
			}
		}
	}
	return tr
}

// oneFrame puts the pages of all accesses on frame 0.
func oneFrame(t *testing.T, accesses []asm.Access) map[uint64]int {
	frames := trace(t, accesses, nil).Frame
	for p := range frames {
		frames[p] = 0
	}
	return frames
}

func reasonOf(f Finding) verdict.Reason {
	if f.Rejection == nil {
		return ""
	}
	return f.Rejection.Reason
}

// P and Q are two pages, S a third.
const (
	P = 0x12345000
	Q = 0x22345000
	S = 0x32345000
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name   string
		access asm.Access
		splits bool
	}{
		{"8 bytes up to the line's end", load(P+56, 8), false},
		{"8 bytes, one past it", load(P+57, 8), true},
		{"one byte never", load(P+63, 1), false},
		{"64 bytes at a line", load(P+64, 64), false},
		{"64 bytes beside it", load(P+65, 64), true},
		{"across a page", store(P+4090, 8), true},
		{"up to the page's end", store(P+4088, 8), false},
		{"fxsave at a line", store(P+128, 512), false},
		{"fxsave, 16 bytes on", store(P+144, 512), true},
		{"rep movsq from an aligned address", rep(load(P+8, 8), 40), false},
		{"rep movsq from 4 beside: the eighth crosses", rep(load(P+4, 8), 8), true},
		{"rep movsq from 4 beside: the seventh does not", rep(load(P+4, 8), 7), false},
		{"rep stosw from an odd address within a line", rep(store(P+1, 2), 31), false},
		{"rep stosw from an odd address, one more", rep(store(P+1, 2), 32), true},
		{"rep movsb", rep(load(P+5, 1), 300), false},
	} {
		tr := trace(t, []asm.Access{load(P, 1), c.access}, nil)
		f := Misaligned(tr)
		require.Equal(t, c.name, c.splits, reasonOf(f) == verdict.Misaligned)
		require.Equal(t, c.name+", predicted", c.splits, Predict(tr, small).Splits > 0)
		if c.splits && *f.Rejection.Address != c.access.Addr {
			t.Errorf("%s: blames %#x", c.name, *f.Rejection.Address)
		}
	}
}

func TestAlias4K(t *testing.T) {
	s8 := store(P+0x600, 8)
	for _, c := range []struct {
		name     string
		accesses []asm.Access
		frames   map[uint64]int
		alias    bool
	}{
		{"a page and 7 bytes further", []asm.Access{s8, load(P+page+0x607, 8)}, nil, true},
		{"a page and 8 bytes further", []asm.Access{s8, load(P+page+0x608, 8)}, nil, false},
		{"a page further less 7", []asm.Access{s8, load(P+page+0x5f9, 8)}, nil, true},
		{"a page further less 8", []asm.Access{s8, load(P+page+0x5f8, 8)}, nil, false},
		{"the very address", []asm.Access{s8, load(P+0x600, 8)}, nil, false},
		{"a true partial overlap", []asm.Access{s8, load(P+0x607, 8)}, nil, false},
		{"the load is the earlier", []asm.Access{load(Q+0x600, 8), s8}, nil, false},
		{"two loads", []asm.Access{load(P+0x600, 8), load(Q+0x600, 8)}, nil, false},
		{"a modification loads before it stores", []asm.Access{modify(P+0x600, 8)}, nil, false},
		{"a modification loads", []asm.Access{s8, modify(Q+0x600, 8)}, nil, true},
		{"a modification stores", []asm.Access{modify(P+0x600, 8), load(Q+0x600, 8)}, nil, true},
		{"wide load, narrow store within", []asm.Access{store(P+0x63f, 1), load(Q+0x600, 64)}, nil, true},
		{"wide load, narrow store after", []asm.Access{store(P+0x640, 1), load(Q+0x600, 64)}, nil, false},
		{"wide store, narrow load within", []asm.Access{store(P+0x600, 64), load(Q+0x63f, 1)}, nil, true},
		{"wide store, narrow load before", []asm.Access{store(P+0x600, 64), load(Q+0x5ff, 1)}, nil, false},

		// The low 12 bits wrap around.
		{"a store across the page's end, a load at its start", []asm.Access{store(P+0xffc, 8), load(Q+0x003, 1)}, nil, true},
		{"the same, one byte further", []asm.Access{store(P+0xffc, 8), load(Q+0x004, 1)}, nil, false},
		{"a load across the page's end", []asm.Access{store(P+0x003, 1), load(Q+0xffc, 8)}, nil, true},
		{"the same, one byte further", []asm.Access{store(P+0x004, 1), load(Q+0xffc, 8)}, nil, false},

		// As many stores as the store buffer holds, three here.
		{"three stores ago", []asm.Access{s8, store(P, 8), store(P+8, 8), load(Q+0x600, 8)}, nil, true},
		{"four stores ago", []asm.Access{s8, store(P, 8), store(P+8, 8), store(P+16, 8), load(Q+0x600, 8)}, nil, false},
		{"loads do not count", []asm.Access{s8, load(P, 8), load(P, 8), load(P, 8), load(P, 8), load(Q+0x600, 8)}, nil, true},
		{"modifications do", []asm.Access{s8, modify(P, 8), modify(P, 8), modify(P, 8), load(Q+0x600, 8)}, nil, false},
		{"the ring has wrapped, four ago", []asm.Access{store(P, 8), store(P, 8), s8, store(P, 8), store(P, 8), store(P, 8), load(Q+0x600, 8)}, nil, false},

		// Pages on one frame are AliasFrame's.
		{"both pages on one frame", []asm.Access{s8, load(Q+0x600, 8)}, map[uint64]int{P: 0, Q: 0}, false},
		{"on two frames", []asm.Access{s8, load(Q+0x600, 8)}, map[uint64]int{P: 0, Q: 1}, true},

		// Rep string operations may span pages.
		{"rep stosq over the load's offset", []asm.Access{rep(store(P+0x100, 8), 8), load(Q+0x138, 8)}, nil, true},
		{"rep stosq up to the load's offset", []asm.Access{rep(store(P+0x100, 8), 7), load(Q+0x138, 8)}, nil, false},
		{"only the second page of rep stosq aliases, and is on another frame",
			[]asm.Access{rep(store(P+0xff8, 8), 2), load(Q+0x000, 8)}, map[uint64]int{P: 0, P + page: 1, Q: 0}, true},
		{"only the second page of rep stosq aliases, and is on the same frame",
			[]asm.Access{rep(store(P+0xff8, 8), 2), load(Q+0x000, 8)}, map[uint64]int{P: 0, P + page: 1, Q: 1}, false},
		{"rep stosq overlaps with one page and aliases with the next", []asm.Access{rep(store(P, 8), 1024), load(P, 8)}, nil, true},
	} {
		tr := trace(t, c.accesses, c.frames)
		require.Equal(t, c.name, c.alias, reasonOf(Alias4K(tr, small)) == verdict.Alias4K)
		require.Equal(t, c.name+", predicted", c.alias, Predict(tr, small).Alias4K > 0)
	}
}

func TestAliasFrame(t *testing.T) {
	for _, c := range []struct {
		name             string
		accesses         []asm.Access
		small, predicted bool
	}{
		{"store and load, one line, two pages", []asm.Access{store(P, 8), load(Q, 8)}, true, true},
		{"the load comes first", []asm.Access{load(P, 8), store(Q, 8)}, true, true},
		{"the store's page is used first and stored to last", []asm.Access{load(P, 8), load(Q, 8), store(P, 8)}, true, true},
		{"other bytes of the line", []asm.Access{store(P, 8), load(Q+56, 8)}, true, true},
		{"the next line", []asm.Access{store(P, 8), load(Q+64, 8)}, false, false},
		{"two stores", []asm.Access{store(P, 8), store(Q, 8)}, true, true},
		{"loads only", []asm.Access{load(P, 8), load(Q, 8)}, false, true},
		{"one page", []asm.Access{store(P, 8), load(P, 8)}, false, false},
		{"a modification", []asm.Access{load(P, 8), modify(Q, 8)}, true, true},
		{"a load across a line reaches the stored one", []asm.Access{store(P+64, 8), load(Q+57, 8)}, true, true},
		{"a load up to the line's end does not", []asm.Access{store(P+64, 8), load(Q+56, 8)}, false, false},
		{"a store far away does not make it worse", []asm.Access{load(P, 8), load(Q, 8), store(P+64, 8)}, false, true},
		{"fxsave covers eight lines", []asm.Access{store(P, 512), load(Q+511, 1)}, true, true},
		{"and no ninth", []asm.Access{store(P, 512), load(Q+512, 1)}, false, false},
		{"rep stosq", []asm.Access{rep(store(P, 8), 9), load(Q+64, 1)}, true, true},
		{"rep stosq, one less", []asm.Access{rep(store(P, 8), 8), load(Q+64, 1)}, false, false},
		{"a walk over two pages meets itself", []asm.Access{rep(store(P, 8), 513)}, true, true},
		{"a walk over one page does not", []asm.Access{rep(store(P, 8), 512)}, false, false},
	} {
		one := trace(t, c.accesses, oneFrame(t, c.accesses))
		require.Equal(t, c.name+", predicted", c.predicted, Predict(one, small).AliasFrame > 0)
		for _, core := range []struct {
			Core
			want bool
		}{{small, c.small}, {predicted, c.predicted}} {
			name := fmt.Sprintf("%s, way predicted %v", c.name, core.WayPredicted)
			require.Equal(t, name, core.want, reasonOf(AliasFrame(one, core.Core)) == verdict.AliasFrame)
			apart := trace(t, c.accesses, nil)
			require.Equal(t, name+", a frame per page", verdict.Reason(""), reasonOf(AliasFrame(apart, core.Core)))
		}
	}
}

// TestAliasFrameNamesBothPages: the access that completes the conflict may be to the page that came first.
func TestAliasFrameNamesBothPages(t *testing.T) {
	accesses := []asm.Access{load(P, 8), load(Q, 8), store(P, 8)}
	r := AliasFrame(trace(t, accesses, oneFrame(t, accesses)), small).Rejection
	if !strings.Contains(r.Detail, fmt.Sprintf("%#x", P)) || !strings.Contains(r.Detail, fmt.Sprintf("%#x", Q)) {
		t.Errorf("%v names pages other than %#x and %#x", r, P, Q)
	}
}

func TestResidency(t *testing.T) {
	columns := func(n int, offset uint64) (list []asm.Access) { // n pages, one line of each
		for i := range n {
			list = append(list, load(P+uint64(i)*page+offset, 8))
		}
		return list
	}
	var none, some [page / line]int
	some[0x600/line] = 1
	for _, c := range []struct {
		name     string
		accesses []asm.Access
		own      [page / line]int
		one      bool // one frame
		full     bool
	}{
		{"as many as ways", columns(4, 0x600), none, false, false},
		{"one more", columns(5, 0x600), none, false, true},
		{"one of ours", columns(4, 0x600), some, false, true},
		{"as many as ways with ours", columns(3, 0x600), some, false, false},
		{"ours is elsewhere", columns(4, 0x640), some, false, false},
		{"on one frame they are one line", columns(5, 0x600), some, true, false},
		{"a crossing access takes the next set too", append(columns(4, 0x640), load(S+0x63c, 8)), none, false, true},
		{"up to the line's end it does not", append(columns(4, 0x640), load(S+0x638, 8)), none, false, false},
		{"whole pages", []asm.Access{rep(load(P, 8), 4*512)}, none, false, false},
		{"whole pages and a word", []asm.Access{rep(load(P, 8), 4*512+1)}, none, false, true},
	} {
		tr := trace(t, c.accesses, nil)
		if c.one {
			tr.Frame = oneFrame(t, c.accesses)
		}
		require.Equal(t, c.name, c.full, reasonOf(L1DMiss(tr, small, c.own)) == verdict.L1DMiss)
		if c.own == none {
			require.Equal(t, c.name+", predicted", c.full, Predict(tr, small).L1DMisses > 0)
		}
	}
}

// What moves lines without accessing them leaves nothing to infer, and crowds no less. A block that flushes is rejected,
// whatever it accesses.
func TestResidencyCacheControl(t *testing.T) {
	crowd := make([]asm.Access, small.L1DWays+1)
	for i := range crowd {
		crowd[i] = load(P+uint64(i)*page, 8)
	}
	for hex, want := range map[string]string{
		"488b03": "inferred", "0f1f03": "inferred", "0faef8": "inferred", "0fae2b": "inferred", // mov, nop, sfence, xrstor
		"0fc303": "unchecked", "0f180b": "unchecked", "0f0d0b": "unchecked", "0f1c03": "unchecked", // movnti, prefetches, cldemote
		"0fae3b": "l1d_miss", "660fae3b": "l1d_miss", "660fae33": "l1d_miss", "90660fae33": "l1d_miss", // clflush, clflushopt, clwb
		"0f38f903": "l1d_miss", "480f38f903": "l1d_miss", // movdiri
	} {
		few, many := trace(t, crowd[1:], nil), trace(t, crowd, nil)
		few.Insts = insts(t, hex)
		many.Insts = few.Insts
		f := L1DMiss(few, small, [page / line]int{})
		require.Equal(t, few.Insts[0].Text(), want, string(f.Evidence.Kind)+string(reasonOf(f)))
		if f := L1DMiss(many, small, [page / line]int{}); reasonOf(f) != verdict.L1DMiss {
			t.Errorf("%s and a line too many: %+v", few.Insts[0].Text(), f)
		}
	}
}

// TestResidencyStreamed: a store past the caches takes the line from accesses to it, not from others.
func TestResidencyStreamed(t *testing.T) {
	blocks := [][]asm.Inst{
		insts(t, "0fe71b 488b03"),     // movntq [rbx], mm3; mov rax, [rbx]
		insts(t, "0fe71b 660f382a03"), // the same; movntdqa xmm0, [rbx], a load
	}
	access := func(inst int, addr uint64) asm.Access {
		return asm.Access{Inst: inst, Addr: addr, Width: 8, Elem: 8, Read: inst == 1, Write: inst == 0}
	}
	for _, c := range []struct {
		name   string
		load   uint64
		frames map[uint64]int
		want   verdict.Reason
	}{
		{"the same line", P + 56, map[uint64]int{P: 0}, verdict.L1DMiss},
		{"the next line", P + 64, map[uint64]int{P: 0}, ""},
		{"by another page of the frame", P + page, map[uint64]int{P: 0, P + page: 0}, verdict.L1DMiss},
		{"on another frame", P + page, map[uint64]int{P: 0, P + page: 1}, ""},
	} {
		for _, block := range blocks {
			tr := trace(t, []asm.Access{access(0, P), access(1, c.load)}, c.frames)
			tr.Insts = block
			require.Equal(t, block[1].Text()+", "+c.name, c.want, reasonOf(L1DMiss(tr, small, [page / line]int{})))
		}
	}
}

func TestForwarding(t *testing.T) {
	// Instructions 0 and 1 store through rax and rbx, 2 and 3 load through them, 4 and 5 modify, 6 loads through rax
	// + rcx, 7 through fs, 8 pushes what rax points below.
	block := insts(t, "488908 48890b 488b10 488b13 480108 480103 488b1408 64488b10 ff70f8")
	at := func(inst, mem int, addr uint64, width int) asm.Access {
		m := block[inst].Mem[mem]
		return asm.Access{Inst: inst, Mem: mem, Addr: addr, Width: width, Elem: width, Read: m.Read, Write: m.Write}
	}
	const A = P + 0x600
	for _, c := range []struct {
		name      string
		accesses  []asm.Access
		fed, self int // loads that are fed, and those by stores through other registers
	}{
		{"same register", []asm.Access{at(0, 0, A, 8), at(2, 0, A, 8)}, 1, 0},
		{"another register", []asm.Access{at(0, 0, A, 8), at(3, 0, A, 8)}, 1, 1},
		{"another register, another address", []asm.Access{at(0, 0, A, 8), at(3, 0, A+8, 8)}, 0, 0},
		{"one byte of overlap", []asm.Access{at(0, 0, A, 8), at(3, 0, A+7, 8)}, 1, 1},
		{"the load comes first", []asm.Access{at(3, 0, A, 8), at(0, 0, A, 8)}, 0, 0},
		{"the youngest store decides: the same register", []asm.Access{at(1, 0, A, 8), at(0, 0, A, 8), at(2, 0, A, 8)}, 1, 0},
		{"the youngest store decides: another register", []asm.Access{at(0, 0, A, 8), at(1, 0, A, 8), at(2, 0, A, 8)}, 1, 1},
		{"a younger store elsewhere does not decide", []asm.Access{at(1, 0, A, 8), at(0, 0, A+8, 8), at(2, 0, A, 8)}, 1, 1},
		{"an index makes another address", []asm.Access{at(0, 0, A, 8), at(6, 0, A, 8)}, 1, 1},
		{"so does a segment", []asm.Access{at(0, 0, A, 8), at(7, 0, A, 8)}, 1, 1},
		{"modifying again through one register", []asm.Access{at(4, 0, A, 8), at(4, 0, A, 8)}, 1, 0},
		{"modifying through two registers, twice", []asm.Access{at(4, 0, A, 8), at(5, 0, A, 8), at(4, 0, A, 8)}, 2, 2},
		{"within the store buffer", []asm.Access{at(0, 0, A, 8), at(0, 0, A+8, 8), at(0, 0, A+16, 8), at(3, 0, A, 8)}, 1, 1},
		{"no longer there", []asm.Access{at(0, 0, A, 8), at(0, 0, A+8, 8), at(0, 0, A+16, 8), at(0, 0, A+24, 8), at(3, 0, A, 8)}, 0, 0},
		{"the ring has wrapped: the youngest still decides",
			[]asm.Access{at(0, 0, A, 8), at(0, 0, A, 8), at(0, 0, A, 8), at(0, 0, A, 8), at(1, 0, A, 8), at(2, 0, A, 8)}, 1, 1},
		{"one instruction's push feeds its own load in the next copy",
			[]asm.Access{at(8, 0, A-8, 8), at(8, 1, A-8, 8), at(8, 0, A-8, 8)}, 1, 1},
	} {
		got := Forwarding(Trace{Insts: block, Accesses: c.accesses, Copies: 1}, small)
		require.Equal(t, c.name, Forwards{Fed: c.fed, Self: c.self}, got)
	}

	// Of two copies the second counts, with what the first stored.
	second := at(3, 0, A, 8)
	second.Copy = 1
	got := Forwarding(Trace{Insts: block, Copies: 2, Accesses: []asm.Access{at(0, 0, A, 8), at(3, 0, A, 8), second}}, small)
	require.Equal(t, "of two copies one", Forwards{Fed: 1, Self: 1}, got)
}

// TestForwardingByIndex: an index from a table that moves on, or a list, meets the store of the iteration before only
// because all words start equal.
func TestForwardingByIndex(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		inst      int // that modifies
		table     [2]uint64
		self      int
		apart     initial.Elements
	}{
		{"movzx eax, byte [rsi]; inc rsi; inc dword [rdi+rax*4]", "0fb606 48ffc6 ff0487", 2, [2]uint64{P, P + 1}, 1, initial.Elements{Width: 1, Step: 1}},
		{"the same place", "0fb606 90 ff0487", 2, [2]uint64{P, P}, 0, initial.Elements{}},
		{"a copy of the index, of bytes", "0fb606 89c3 ff041f", 2, [2]uint64{P, P + 1}, 1, initial.Elements{Width: 1, Step: 4}},
		{"a pointer", "488b06 4883c608 ff00", 2, [2]uint64{P, P + 8}, 1, initial.Elements{Width: 8, Step: 4}},
		{"another register", "0fb606 48ffc6 ff049f", 2, [2]uint64{P, P + 1}, 0, initial.Elements{}},
		{"a list", "488b00 90 ff4008", 2, [2]uint64{P, P}, 1, initial.Elements{}},
	} {
		block := insts(t, c.hex)
		tr := Trace{Insts: block, Copies: 2}
		for copy, from := range c.table {
			tr.Accesses = append(tr.Accesses, asm.Access{Copy: copy, Addr: from, Width: 1, Read: true},
				asm.Access{Copy: copy, Inst: c.inst, Addr: P + 0x600, Width: 4, Read: true, Write: true})
		}
		require.Equal(t, c.name, Forwards{Fed: 1, Self: c.self, Apart: c.apart}, Forwarding(tr, small))
	}
}

func TestNewPages(t *testing.T) {
	in := func(copy int, a asm.Access) asm.Access { a.Copy = copy; return a }
	for _, c := range []struct {
		name     string
		copies   int
		accesses []asm.Access
		want     int
	}{
		{"the same page", 2, []asm.Access{in(0, load(P, 8)), in(1, load(P, 8))}, 0},
		{"another page", 2, []asm.Access{in(0, load(P, 8)), in(1, load(Q, 8))}, 1},
		{"up to the page's end", 2, []asm.Access{in(0, load(P, 8)), in(1, load(P+page-8, 8))}, 0},
		{"one byte into the next", 2, []asm.Access{in(0, load(P, 8)), in(1, load(P+page-7, 8))}, 1},
		{"one byte into the next, from a page just seen", 2, []asm.Access{in(0, load(P, 8)), in(1, load(P, 8)), in(1, load(P+page-7, 8))}, 1},
		{"new in the first half", 4, []asm.Access{in(0, load(P, 8)), in(1, load(Q, 8)), in(2, load(P, 8)), in(3, load(Q, 8))}, 0},
		{"new in the second half's first copy", 4, []asm.Access{in(0, load(P, 8)), in(1, load(P, 8)), in(2, load(Q, 8)), in(3, load(P, 8))}, 1},
		{"one page counts once", 2, []asm.Access{in(0, load(P, 8)), in(1, load(Q, 8)), in(1, load(S, 8)), in(1, load(Q, 8))}, 2},
		{"a walk", 2, []asm.Access{in(0, rep(load(P, 8), 512)), in(1, rep(load(P+page, 8), 1024))}, 2},
		{"the second half stays on the page of the first's last access", 2,
			[]asm.Access{in(0, load(P, 8)), in(0, load(Q, 8)), in(1, load(Q, 8)), in(1, load(P, 8))}, 0},
	} {
		require.Equal(t, c.name, c.want, NewPages(Trace{Copies: c.copies, Accesses: c.accesses}))
	}
}

// TestExtended: accesses that advance by the same step go on, and others are not guessed.
func TestExtended(t *testing.T) {
	walk := func(steps ...uint64) (tr Trace) {
		addr := uint64(0x1000)
		for c, step := range steps {
			tr.Accesses = append(tr.Accesses, asm.Access{Copy: c, Addr: addr, Width: 8, Read: true},
				asm.Access{Copy: c, Mem: 1, Addr: 0x9000, Width: 4, Write: true})
			addr += step
		}
		tr.Copies = len(steps)
		return tr
	}
	got, ok := walk(0, 64, 8, 8, 8, 8, 8, 8).Extended(1024)
	last := got.Accesses[len(got.Accesses)-2:]
	if !ok || got.Copies != 1024 || len(got.Accesses) != 2048 || last[0].Addr != 0x1000+64+8*1021 || last[0].Copy != 1023 || last[1].Addr != 0x9000 {
		t.Errorf("ok %v, %d copies, %d accesses, the last %+v", ok, got.Copies, len(got.Accesses), last)
	}
	require.Equal(t, "pages", 4, got.Pages())
	zigzag := walk(0, 64, 0, 24, 0, 24, 0, 24, 0, 24, 0, 24)
	got, ok = zigzag.Extended(1024)
	if last := got.Accesses[len(got.Accesses)-2]; !ok || last.Addr != 0x1000+64+24*510 || last.Copy != 1023 {
		t.Errorf("steps of period 2: ok %v, the last %+v", ok, last)
	}
	for _, steps := range [][]uint64{{8, 8, 8, 8, 8, 16, 8, 8}, {8, 8}, {0, 24, 0, 24, 0, 24, 0, 25, 0}} {
		if _, ok := walk(steps...).Extended(1024); ok {
			t.Errorf("steps of %v are extended", steps)
		}
	}
}

// TestMayAlias: BHive's list asks for a byte that two pages share, and a load of it; it does not ask for a store, nor for a line.
func TestMayAlias(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b asm.Access
		may  bool
	}{
		{"two loads of one byte", load(P+0x100, 8), load(Q+0x107, 8), true},
		{"a store and a load", store(P+0x100, 8), load(Q+0x100, 8), true},
		{"two stores", store(P+0x100, 8), store(Q+0x100, 8), false},
		{"other bytes of one line", store(P+0x100, 8), load(Q+0x108, 8), false},
		{"one page", store(P+0x100, 8), load(P+0x100, 8), false},
		{"across the end of a page", store(P+0xffc, 8), load(P, 8), true},
	} {
		trace := Trace{Accesses: []asm.Access{test.a, test.b}, Frame: map[uint64]int{P: 0, Q: 0, P + page: 0}}
		require.Equal(t, test.name, test.may, MayAlias(trace))
	}
}
