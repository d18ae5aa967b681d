package profiler

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/stat"
)

func TestPlanPutBack(t *testing.T) {
	const far = 1 << 40
	for _, c := range []struct {
		name, hex string
		change    map[asm.Reg]uint64 // what a copy adds
		want      string             // the code; "" is none
		start     map[asm.Reg]uint64 // beside the change, what the first copy starts with
		twice     string             // "" is whatever it is
	}{
		{"a pointer that walks", "488b07" + "4883c708", map[asm.Reg]uint64{asm.RDI: 8}, "488dbff8ffffff", nil, "488dbff0ffffff" + "488dbf08000000"},
		{"a counter that no address depends on", "488b07" + "48ffc1", map[asm.Reg]uint64{asm.RCX: 1}, "", nil, ""},
		{"a register that is written before it is read", "4889c7" + "488b07", map[asm.Reg]uint64{asm.RDI: 8}, "", nil, ""},
		{"an index that a counter feeds", "488b04cf" + "4801d1" + "48ffc2", map[asm.Reg]uint64{asm.RCX: 8, asm.RDX: 1}, "488d89f8ffffff" + "488d92ffffffff", nil, ""},
		{"a list, far", "488b3f", map[asm.Reg]uint64{asm.RDI: far}, "4a8d7c3f00", map[asm.Reg]uint64{asm.R15: 1<<64 - far}, ""},
		{"a pointer that the copies do not wait for", "8b07" + "4889f7", map[asm.Reg]uint64{asm.RDI: far}, "bf00700000", nil, ""},
		{"a push", "50", map[asm.Reg]uint64{asm.RSP: 1<<64 - 8}, "488da42408000000", nil, ""},
		{"a divisor", "48ffc9" + "31d2" + "48f7f1", map[asm.Reg]uint64{asm.RCX: 1}, "488d89ffffffff", nil, ""},
		{"nothing changed", "488b07" + "4883c708" + "4883ef08", nil, "", nil, ""},
		{"no register is free", "488b3f" + "4801c8" + "4801da" + "4801f5" + "4d01c8" + "4d01d3" + "4d01e5" + "4d01f7", map[asm.Reg]uint64{asm.RDI: far}, "", nil, ""},
	} {
		insts, err := asm.Decode(unhex(t, c.hex))
		if err != nil {
			t.Fatal(err)
		}
		before := &initial.Captured{Address: 0x40_0000}
		for r := range before.GPR {
			before.GPR[r] = 0x7000
		}
		after := *before
		for r, by := range c.change {
			after.GPR[r] += by
		}
		p, ok := planPutBack(insts, before, &after)
		if got := hex.EncodeToString(p.code); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %s, %t; want %q", c.name, got, ok, c.want)
			continue
		}
		if !ok {
			continue
		}
		if got := hex.EncodeToString(p.twice); c.twice != "" && got != c.twice {
			t.Errorf("%s: twice %s, want %s", c.name, got, c.twice)
		}
		for r, v := range c.start {
			if p.start.GPR[r] != v {
				t.Errorf("%s: %v starts with %#x, want %#x", c.name, r, p.start.GPR[r], v)
			}
		}
		// Once and twice come to the captured registers, and none other of the block's changes.
		for _, one := range []struct {
			code  []byte
			start *initial.Captured
		}{{p.code, p.start}, {p.twice, p.again}} {
			if diff := cmp.Diff(before.GPR[:8], execute(t, one.code, one.start)); diff != "" {
				t.Errorf("%s: %x comes to (-want +got)\n%s", c.name, one.code, diff)
			}
			if one.start.Address+uint64(len(one.code)) != before.Address {
				t.Errorf("%s: the block stands at %#x", c.name, one.start.Address+uint64(len(one.code)))
			}
		}
	}
}

// execute follows the moves and leas of a put-back.
func execute(t *testing.T, code []byte, start *initial.Captured) []uint64 {
	t.Helper()
	regs := asm.Regs{GPR: start.GPR}
	insts, err := asm.Decode(code)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range insts {
		switch b := in.Bytes; {
		case in.Mnemonic == "lea":
			d := int64(int32(uint32(b[len(b)-1]) << 24))
			if len(b) >= 7 {
				d = int64(int32(uint32(b[len(b)-4]) | uint32(b[len(b)-3])<<8 | uint32(b[len(b)-2])<<16 | uint32(b[len(b)-1])<<24))
			}
			reg, base := b[2]>>3&7|b[0]>>2&1<<3, b[2]&7|b[0]&1<<3
			v := regs.GPR[base] + uint64(d)
			if b[2]&7 == 4 {
				if base = b[3]&7 | b[0]&1<<3; b[3]>>3&7|b[0]>>1&1<<3 != 4 {
					v = regs.GPR[base] + regs.GPR[b[3]>>3&7|b[0]>>1&1<<3]
				} else {
					v = regs.GPR[base] + uint64(d)
				}
			}
			regs.GPR[reg] = v
		case b[0]&0xf8 == 0xb8:
			regs.GPR[b[0]&7] = uint64(b[1]) | uint64(b[2])<<8
		default:
			t.Fatalf("put back by %s", in.Text())
		}
	}
	return regs.GPR[:8]
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name        string
		once, twice stat.Estimate
		set         float64
		low, high   float64
	}{
		{"free", stat.Estimate{Value: 5, Half: 0.01}, stat.Estimate{Value: 5, Half: 0.01}, 0, 4.99, 5.01},
		{"all of it costs", stat.Estimate{Value: 5}, stat.Estimate{Value: 6}, 0, 4, 5},
		{"twice costs more than all", stat.Estimate{Value: 1}, stat.Estimate{Value: 3}, 0, 0, 1},
		{"twice is faster", stat.Estimate{Value: 5}, stat.Estimate{Value: 4.9}, 0, 5, 5},
		{"the wait decides", stat.Estimate{Value: 6}, stat.Estimate{Value: 7}, 0.5, 5, 5},
		{"the wait decides in part", stat.Estimate{Value: 6}, stat.Estimate{Value: 7}, 5.5, 5, 5.5},
		{"all else decides", stat.Estimate{Value: 6}, stat.Estimate{Value: 7}, 6.1, 5, 6},
	} {
		if e := within(c.once, c.twice, stat.Estimate{Value: c.set}); math.Abs(e.Low()-c.low) > 1e-9 || math.Abs(e.High()-c.high) > 1e-9 {
			t.Errorf("%s: %.3f to %.3f, want %.3f to %.3f", c.name, e.Low(), e.High(), c.low, c.high)
		}
	}
}
