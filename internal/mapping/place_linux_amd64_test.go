package mapping

import (
	"bytes"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// TestCodeOffset: both images' first copies have the set-up's offset, as copies in a row and as a loop.
func TestCodeOffset(t *testing.T) {
	b := openBench(t)
	place := require.Get(b.open())(t)
	insts := require.Get(asm.Decode(require.Hex(t, "4801c0")))(t)
	loop := &unroll.Loop{Bodies: unroll.Factors{Short: 16, Long: 48}, Turns: unroll.Factors{Short: 2, Long: 2}, Counter: unroll.Counter{Reg: asm.R15}}
	for _, decoders := range []bool{false, true} {
		for _, program := range []Program{{Insts: insts, Factors: unroll.Factors{Short: 16, Long: 48}}, {Insts: insts, Factors: loop.Iterations(), Loop: loop}} {
			for _, offset := range []int{0, 1, 9, 63, 64, 1000, 4095} {
				m := MappedBlock{ImageBuilder: ImageBuilder{place, program,
					harness.Harness{Init: initial.Paper(), Features: b.cpu.Features, Decoders: decoders}, &offset}}
				for _, start := range []int{0, 16} {
					require.Get(m.Replicates([]int{start}, 0, place.Clock))(t)
					for _, im := range []harness.Image{m.Short, m.Long} {
						if got := int(im.FirstCopy % layout.PageSize); got != offset {
							t.Errorf("decoders %v, loop %v: first copy of %d at %d, want %d", decoders, program.Loop != nil, im.Copies, got, offset)
						}
						if at := im.FirstCopy - im.Address; !bytes.HasPrefix(im.Code[at:], insts[0].Bytes) {
							t.Errorf("no copy at First: % x", im.Code[at:at+3])
						}
					}
				}
			}
		}
	}
}

// TestOneCode: the images of a loop that is one code, and that of the third number of turns, have the same copies and run as often as they say.
func TestOneCode(t *testing.T) {
	b := openBench(t)
	m := require.Get(b.task(require.Hex(t, "4801c0")).Prepare([]initial.State{initial.Paper()}))(t)
	front := b.cpu.FrontEnd
	front.ByPlace = true
	loop, _, err := m.AsLoop(front, 6, false, nil)
	require.NoError(t, err)
	pairs := require.Get(loop.Replicates([]int{0, 16}, 0, loop.Clock))(t)
	third, ok, err := loop.Midpoint(loop.Clock)
	if err != nil || !ok || len(pairs) != 2 {
		t.Fatalf("%d replicates, a third number: %v, %v", len(pairs), ok, err)
	}
	last := pairs[1]
	for _, im := range []harness.Image{last[1], third} {
		if im.FirstCopy != last[0].FirstCopy || im.Entry == last[0].Entry || im.End() != last[0].End() {
			t.Errorf("copies at %#x, entry %#x; of the shorter image %#x, %#x", im.FirstCopy, im.Entry, last[0].FirstCopy, last[0].Entry)
		}
	}
	anywhere, offset := loop.CodeBytes(), 0
	loop.Offset = &offset
	if there := loop.CodeBytes(); there > anywhere {
		t.Errorf("%d bytes of code, at an offset %d", anywhere, there)
	}
	if next, end := last[0].Address, pairs[0][0].End(); next < end {
		t.Errorf("the second replicate starts at %#x, and the first ends at %#x", next, end)
	}
}

// The images of a child run follow each other, each in the sets of L1I that it would have alone, so that
// the code size holds for each of them.
func TestReplicates(t *testing.T) {
	offset := 48
	b := openBench(t)
	for _, c := range []struct {
		name    string
		code    []byte
		offset  *int
		factors unroll.Factors // as chosen if 0
		shift   uint64         // from one replicate to the next
		fit     int
	}{
		{"a load", require.Hex(t, "488b03"), nil, unroll.Factors{}, 16 * startStep, 2},
		{"a load at an offset", require.Hex(t, "488b03"), &offset, unroll.Factors{}, 0, 2},
		{"no room for a second", slices.Repeat([]byte{0x90}, 1000), nil, unroll.Factors{Short: 500, Long: 900}, 16 * startStep, 1},
	} {
		task := b.task(c.code)
		task.Offset = c.offset
		if c.factors != (unroll.Factors{}) {
			task.Program.Factors, task.Fixed = c.factors, true
		}
		m := require.Get(task.Prepare([]initial.State{initial.Paper()}))(t)
		pairs := require.Get(m.Replicates([]int{0, 16}, 0, m.Clock))(t)
		if len(pairs) != c.fit {
			t.Fatalf("%s: %d replicates, want %d", c.name, len(pairs), c.fit)
		}
		mustRotate(t, c.name, m, pairs)
		code := m.CodeBytes()
		third, ok, err := m.Midpoint(m.Clock)
		if err != nil || ok != (c.fit > 1) {
			t.Fatalf("%s: a third number: %v, %v", c.name, ok, err)
		}
		if !ok {
			continue
		}
		first, second := pairs[0], pairs[1]
		if second[0].Address < first[1].End() || third.Address < second[1].End() {
			t.Errorf("%s: images overlap: %#x–%#x, %#x–%#x, %#x", c.name, first[0].Address, first[1].End(), second[0].Address, second[1].End(), third.Address)
		}
		require.Equal(t, c.name, c.shift, (second[0].Address-first[0].Address)%layout.PageSize)
		require.Equal(t, c.name+", the third number", uint64(0), (third.Address-second[1].Address)%layout.PageSize)
		for i, im := range []harness.Image{second[0], second[1], third, first[0], first[1]} {
			want := uint64(16) // of the second replicate
			if c.offset != nil {
				want = uint64(offset)
			}
			if (c.offset != nil || i < 2) && im.FirstCopy%64 != want%64 {
				t.Errorf("%s: a first copy at %#x, want %d bytes into a line", c.name, im.FirstCopy, want)
			}
		}
		// As if the second replicate were the only one.
		require.Get(m.Replicates([]int{16}, 0, m.Clock))(t)
		require.Equal(t, c.name+", alone", code, m.CodeBytes())
	}
}

// mustRotate: pass 1 has pages of its own at the same page offsets; a pass without room uses those of pass 0.
func mustRotate(t *testing.T, name string, m *MappedBlock, first [][2]harness.Image) {
	t.Helper()
	end := first[len(first)-1][1].End()
	areas := max(int((layout.CodeEnd-m.Images)/m.area), 1)
	for _, pass := range []int{1, areas - 1, areas, 0} {
		pairs, err := m.Replicates([]int{0, 16}, pass, m.Clock)
		if err != nil || len(pairs) != len(first) {
			t.Fatalf("%s, pass %d: %d replicates: %v", name, pass, len(pairs), err)
		}
		moved := pairs[0][0].Address - first[0][0].Address
		if other := pass%areas != 0; moved%layout.PageSize != 0 || (moved != 0) != other || other && pairs[0][0].Address < end {
			t.Errorf("%s: the images of pass %d stand %#x after those of pass 0, which end at %#x", name, pass, moved, end)
		}
	}
}

// A block repeats its addresses if all copies of the second half have the accesses of the copy before.
func TestStays(t *testing.T) {
	onPage := Mapping{Pages: []mapper.Page{{Addr: 0x1000}}}
	trace := func(addrs ...uint64) invariants.Trace { // one access a copy
		tr := invariants.Trace{Copies: len(addrs)}
		for i, a := range addrs {
			tr.Accesses = append(tr.Accesses, asm.Access{Copy: i, Addr: a, Width: 8, Read: true})
		}
		return tr
	}
	for _, c := range []struct {
		name    string
		mapping Mapping
		trace   invariants.Trace
		want    bool
	}{
		{"no memory", Mapping{}, invariants.Trace{}, true},
		{"one place", onPage, trace(0x1000, 0x1000, 0x1000, 0x1000), true},
		{"a walk", onPage, trace(0x1000, 0x1008, 0x1010, 0x1018), false},
		{"settled from the second half on", onPage, trace(0x1000, 0x1008, 0x1008, 0x1008), true},
		{"settled too late", onPage, trace(0x1000, 0x1000, 0x1008, 0x1008, 0x1010, 0x1010), false},
		{"moves at the end", onPage, trace(0x1000, 0x1000, 0x1000, 0x1001), false},
		{"one copy shows nothing", onPage, trace(0x1000), false},
		{"accesses that the trace leaves out", onPage, invariants.Trace{Copies: 4}, false},
	} {
		m := MappedBlock{Mapping: c.mapping, Trace: c.trace}
		require.Equal(t, c.name, c.want, m.repeatsAddresses())
	}
	changes := trace(0x1000, 0x1000)
	changes.Accesses[1].Write = true
	if (&MappedBlock{Mapping: onPage, Trace: changes}).repeatsAddresses() {
		t.Error("a read that becomes a write is not seen")
	}
}

// Images that leave no room for a traced copy are too large, also where a captured state takes more than a page of each image.
func TestNoRoomToTrace(t *testing.T) {
	b := openBench(t)
	captured := &initial.Captured{Address: 0x40_1000, Pages: []initial.Page{{Address: 0x50_0000, Writable: true}}}
	captured.GPR[asm.RDI], captured.MXCSR = 0x50_0000, initial.DefaultMXCSR
	for i := range 32 {
		captured.Vectors = append(captured.Vectors, initial.Vector{Reg: i, Bits: 512, Words: [8]uint64{7: 1}})
	}
	for _, c := range []struct {
		hex              string
		reset            harness.Reset
		prepare          func(Task) (*MappedBlock, error)
		least, most, gap uint64 // bytes
	}{
		{"488b03", harness.Reset{}, func(t Task) (*MappedBlock, error) { return t.Prepare([]initial.State{initial.Paper()}) }, 1000, 8000, 1000},
		{"48ff07", harness.Reset{Memory: true, Vector: true}, func(t Task) (*MappedBlock, error) { return t.PrepareCaptured(captured) }, 18000, 24000, 500},
	} {
		code, traced := require.Hex(t, c.hex), false
		for room := c.least; room <= c.most; room += c.gap { // with what stands around the copies
			const short = 1000
			task := b.task(code)
			task.Harness.Reset = c.reset
			task.Program.Factors = unroll.Factors{Short: short, Long: int(layout.CodeEnd-b.timer.Images()-room)/len(code) - short}
			task.Fixed = true
			_, err := c.prepare(task)
			if err != nil && (traced || verdict.ReasonOf(err) != verdict.CodeExceedsL1I) || err == nil && room == c.least {
				t.Errorf("%s, %d bytes are left: %v", c.hex, room, err)
			}
			traced = err == nil
		}
		if !traced {
			t.Errorf("%s: nowhere is there room", c.hex)
		}
	}
}
