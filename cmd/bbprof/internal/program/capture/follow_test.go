package capture

import (
	"encoding/binary"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
)

// TestXSave: each component is read from where the layout says.
func TestXSave(t *testing.T) {
	l := xsaveLayout{2: 576, 5: 640 + 192, 6: 1024, 7: 1536}
	area := make([]byte, 2560)
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(area[at:], v) }
	binary.LittleEndian.PutUint16(area[0:], 0x37f)
	area[4] = 0x80
	binary.LittleEndian.PutUint32(area[24:], 0x1fa0)
	put(32, 7)             // st0
	put(512, 0xe7)         // no component is in its initial state
	put(160+16*3+8, 1)     // xmm3, upper half
	put(576+16*3, 2)       // ymm3
	put(1024+32*15+24, 3)  // zmm15, the highest word
	put(1536+64*15+56, 4)  // zmm31
	put(640+192+8*7, 0xff) // k7
	got := l.captured(debuggee.State{XSave: area, Flags: 0x246 | 1<<8 | 1<<16})
	want := initial.Captured{State: initial.State{Name: "captured", Fill: initial.Paper().Fill, MXCSR: 0x1fa0,
		Flags: 0x44}, X87: initial.X87{Control: 0x37f, Tags: 0x80}}
	want.X87.Registers[0][0] = 7
	want.Opmasks[7] = 0xff
	want.Vectors = []initial.Vector{{Reg: 3, Bits: 256}, {Reg: 15, Bits: 512}, {Reg: 31, Bits: 512}}
	want.Vectors[0].Words[1], want.Vectors[0].Words[2], want.Vectors[1].Words[7], want.Vectors[2].Words[7] = 1, 2, 3, 4
	require.Equal(t, "it", want, got)
	c := xsaveLayout{}.captured(debuggee.State{XSave: area[:576]})
	if c.Opmasks[7] != 0 || len(c.Vectors) != 1 || c.Vectors[0].Words != [8]uint64{1: 1} {
		t.Errorf("a CPU without AVX has AVX's registers: %v", c.Vectors)
	}
	l.captured(debuggee.State{XSave: area[:600]}) // truncated
	l.captured(debuggee.State{})
}
