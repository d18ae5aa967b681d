package profiler

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
)

func parseSet(t *testing.T, text string) initial.Set {
	t.Helper()
	return require.Get(initial.ParseSet(text))(t)
}

// TestSetStarts: a block starts with the set values, in registers of each kind and each encoding, and the
// next block does not.
func TestSetStarts(t *testing.T) {
	b := openBench(t)
	// Each writes a vector register that is not set, so that the others are restored.
	code, width, vectors := unhex(t, "660fefff"), 16, []int{0, 9} // pxor xmm7, xmm7
	masks := false
	switch {
	case b.cpu.Features.AVX512BW:
		code = unhex(t, "62010540efff"+"c4e1c447ff") // vpxord zmm31, zmm31, zmm31; kxorq k7, k7, k7
		width, vectors, masks = 64, []int{0, 9, 16, 29}, true
	case b.cpu.Features.AVX:
		code, width = unhex(t, "c5c5efff"), 32 // vpxor ymm7, ymm7, ymm7
	}
	text := "rax=0x1,rsp=0x12340008,r15=0x8000000000000001,cf=1,pf=0,af=1,zf=1,sf=0,of=1,mxcsr=0x7f80,k0=0x5,k6=0x6"
	bytes := func(reg int) (all []byte) { // of a register, the lowest first
		for i := range width {
			all = append(all, byte(reg+i+1))
		}
		return all
	}
	for _, reg := range vectors {
		digits := ""
		for _, v := range bytes(reg) {
			digits = fmt.Sprintf("%02x", v) + digits
		}
		text += fmt.Sprintf(",%s%d=0x%s", map[int]string{16: "xmm", 32: "ymm", 64: "zmm"}[width], reg, digits)
	}
	set := parseSet(t, text)
	for _, init := range []initial.State{set.Over(initial.Paper()), initial.Paper()} {
		m := require.Get(b.block(code, init, 1, 4))(t)
		got := b.run(m, b.build(m, 1))
		if !slices.Equal(got.gpr[:], init.GPR[:]) || got.flags != init.Flags {
			t.Errorf("set %q: registers %#x and flags %#x, want %#x and %#x", init.Set, got.gpr, got.flags, init.GPR, init.Flags)
		}
		if mxcsr := binary.LittleEndian.Uint32(got.legacy[24:]); mxcsr != init.MXCSR { // at 24 (SDM vol. 1, 10.5.1)
			t.Errorf("set %q: mxcsr %#x, want %#x", init.Set, mxcsr, init.MXCSR)
		}
		for reg := range max(vectors[len(vectors)-1], 15) {
			there, want := got.vector[64*reg:][:width], make([]byte, width)
			if width == 16 {
				there = got.legacy[160+16*reg:][:width] // xmm0 is at 160 (SDM vol. 1, table 10-2)
			}
			if init.Set != "" && slices.Contains(vectors, reg) {
				want = bytes(reg)
			}
			if !slices.Equal(there, want) {
				t.Errorf("set %q: vector register %d holds %x, want %x", init.Set, reg, there, want)
			}
		}
		for k := 0; masks && k < 7; k++ {
			if mask := binary.LittleEndian.Uint64(got.mask[8*k:]); mask != init.Opmasks[k] {
				t.Errorf("set %q: k%d holds %#x, want %#x", init.Set, k, mask, init.Opmasks[k])
			}
		}
	}
}

// TestSetIsMapped: a block gets the pages that set registers address.
func TestSetIsMapped(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		text, hex, set string
		page           uint64
	}{
		{"mov rax, [rsi]", "488b06", "rsi=0x23450010", 0x2345_0000},
		{"mov rax, [rsi]; and eax, -16; mov rcx, [rax]", "488b06 83e0f0 488b08", "fill=0x34560018", 0x3456_0000},
		{"movq rax, xmm3; mov rcx, [rax]", "66480f7ed8 488b08", "xmm3=0x45670000", 0x4567_0000},
		{"mov rdx, fs:[8]", "64488b142508000000", "fs_base=0x20000000", 0x2000_0000},
		{"mov rdx, gs:[16]", "65488b142510000000", "gs_base=0x30000000", 0x3000_0000},
		{"cmovz rbx, rcx; mov rax, [rbx]", "480f44d9 488b03", "zf=1,rcx=0x56780000", 0x5678_0000},
		{"mov rdx, fs:[8]", "64488b142508000000", "", 0x2345_6000},
	} {
		init := initial.Paper()
		if c.set != "" {
			init = parseSet(t, c.set).Over(init)
		}
		m, err := b.block(unhex(t, compact(c.hex)), init, 1, 4)
		if err != nil {
			t.Errorf("%s with %s: %v", c.text, c.set, err)
			continue
		}
		if last := m.Pages[len(m.Pages)-1].Addr; last != c.page {
			t.Errorf("%s with %s: page %#x, want %#x", c.text, c.set, last, c.page)
		}
	}
}

// TestSetOverrules: a block's own Set comes before the Options', and that before -init and -ftz.
func TestSetOverrules(t *testing.T) {
	s := &session{states: initial.States()[1:], opts: Options{NoFTZ: true, Set: parseSet(t, "rdi=1,rsi=2")}}
	j := s.job(Block{Setup: Setup{Set: parseSet(t, "rsi=3,mxcsr=0x9fc0")}})
	for i, init := range j.states {
		if init.GPR[7] != 1 || init.GPR[6] != 3 || init.GPR[0] != s.states[i].GPR[0] || init.MXCSR != 0x9fc0 {
			t.Errorf("%s: %+v", init.Name, init)
		}
	}
	if s.job(Block{}).states[0].GPR[6] != 2 {
		t.Error("a block's set is that of the next")
	}
	paper := initial.Paper()
	if j := s.job(Block{Setup: Setup{Init: &paper}}); j.states[0].Set != "" || j.states[0].MXCSR != initial.DefaultMXCSR {
		t.Errorf("a set-up's own state is changed: %+v", j.states[0])
	}
}
