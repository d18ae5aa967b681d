package profiler

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// TestSetupsInTurn: one session prepares blocks in one set-up after the other, and each gets its own.
func TestSetupsInTurn(t *testing.T) {
	b := openBench(t)
	b.opts = b.opts.WithDefaults()
	moved := initial.Paper()
	moved.GPR[asm.RBX] += layout.PageSize
	moved.FSBase += layout.PageSize
	for _, c := range []struct {
		name   string
		setup  Setup
		word   uint64 // at rax
		frames int
	}{
		{"default", Setup{}, 0, 1},
		{"subnormals", Setup{NoFTZ: true}, 2 * 0x12345600, 1},
		{"default again", Setup{}, 0, 1},
		{"the load's page on a frame of its own, the first", Setup{Init: &moved, Frames: 2, NoFTZ: true}, 0x12345600, 2},
		{"both on one", Setup{Init: &moved, Frames: 1, Tolerate: []verdict.Reason{verdict.AliasFrame}}, 0, 1},
	} {
		// movsd xmm0, [rbx+8]; addsd xmm0, xmm0; movsd [rax], xmm0: 0x12345600 is a subnormal
		m := require.Get(b.prepareBlock(Block{require.Hex(t, "f20f104308 f20f58c0 f20f1100"), c.setup}))(t)
		m.Refill()
		require.NoError(t, m.Plan.RunOnce(m.Child, m.Long))
		base := initial.Paper().FSBase
		if c.setup.Init != nil {
			base = moved.FSBase
		}
		word := binary.LittleEndian.Uint64(m.Child.Frame(0)[m.Plan.Init.GPR[0]%layout.PageSize:])
		if word != c.word || m.Plan.Frames != c.frames || m.Plan.Init.FSBase != base {
			t.Errorf("%s: %#x at rax, %d frames, fs base %#x", c.name, word, m.Plan.Frames, m.Plan.Init.FSBase)
		}
	}
}

// TestNoMapping: without pages the first access ends the block, and a block without accesses runs.
func TestNoMapping(t *testing.T) {
	b := openBench(t)
	for hex, reason := range map[string]verdict.Reason{"90488b03": verdict.SIGSEGV, "4801c0": ""} {
		require.NoError(t, b.ready())
		_, err := b.prepareBlock(Block{Code: require.Hex(t, hex), Setup: Setup{NoMapping: true}})
		if r := rejectionOf(t, err); r.Reason != reason || reason != "" && (r.Inst == nil || r.Inst.Index != 1) {
			t.Errorf("%s: %v, want %q", hex, err, reason)
		}
	}
}

// TestManyPages: a block is timed on the largest number of pages, mapped again in each child run.
func TestManyPages(t *testing.T) {
	r := undisturbed(t, start(t, Options{Budget: 300 * time.Millisecond}), Block{
		Code: require.Hex(t, "488b03 4881c300100000"), // mov rax, [rbx]; add rbx, 4096
		Setup: Setup{Unroll: &unroll.Factors{Short: mapping.MaxPages / 2, Long: mapping.MaxPages}, Frames: 1,
			Tolerate: []verdict.Reason{verdict.AliasFrame, verdict.L1DMiss, verdict.DTLBMiss, verdict.Nonlinear, verdict.Unstable}},
	}, func(r Result) bool { return !r.Reason.Noise() && r.Reason != verdict.Timeout }) // of a second for so many faults
	if r.Status != OK || r.Pages != mapping.MaxPages {
		t.Errorf("%v, %d pages", r.Err(), r.Pages)
	}
}

// TestCheck: the same rules check the common fields of options and set-ups.
func TestCheck(t *testing.T) {
	of := func(short, long int) *unroll.Factors { return &unroll.Factors{Short: short, Long: long} }
	good := []Setup{{}, {FrontEnd: Decode}, {Frames: layout.MaxFrames}, {Unroll: of(0, 2)}, {Mode: Both, FrontEnd: Decode}, {CodeOffset: new(0)},
		{CodeOffset: new(layout.PageSize - 1)}, {LeadNops: leastLeadNops}, {LeadNops: mostLeadNops}}
	for says, bad := range map[string][]Setup{
		`no front end is called "x"`: {{FrontEnd: "x"}},
		`no mode is called "x"`:      {{Mode: "x"}},
		"there are 1 to":             {{Frames: layout.MaxFrames + 1}, {Frames: -1}},
		"-1":                         {{Unroll: of(-1, 2)}},
		"must exceed":                {{Unroll: of(2, 2)}},
		"one image alone":            {{Unroll: of(0, 2), Mode: Loop}},
		"op cache":                   {{Mode: Loop, FrontEnd: Decode}},
		"not within a page":          {{CodeOffset: new(-1)}, {CodeOffset: new(layout.PageSize)}},
		"there are 15 to 64":         {{LeadNops: leastLeadNops - 1}, {LeadNops: mostLeadNops + 1}},
		"":                           good,
	} {
		for _, s := range bad {
			errs := []error{s.Check()}
			if s.CodeOffset == nil && s.LeadNops == 0 { // options have neither
				errs = append(errs, Options{Mode: s.Mode, FrontEnd: s.FrontEnd, Frames: s.Frames, Unroll: s.Unroll}.Check())
			}
			for _, err := range errs {
				if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%+v: %v, want %q", s, err, says)
				}
			}
		}
	}
	for _, bad := range []Options{{Mode: "x"}, {Budget: -1}, {Precision: math.NaN()}, {Precision: -0.01}, {Precision: 1}, {Precision: math.Inf(1)}} {
		if _, err := New(t.Context(), bad); err == nil {
			t.Errorf("New accepts %+v", bad)
		}
	}
	b := openBench(t) // one image alone is not timed as a loop, whichever of the two asks for that
	b.opts = Options{Mode: Loop}.WithDefaults()
	if _, err := b.profile(Block{Code: []byte{0x90}, Setup: Setup{Unroll: of(0, 8)}}); err == nil || !strings.Contains(err.Error(), "one image alone") {
		t.Errorf("mode loop: %v", err)
	}
}

// TestSetStarts: a block starts with the set values, in registers of each kind, and the next block does not.
func TestSetStarts(t *testing.T) {
	b := openBench(t)
	// Each writes a vector register that is not set, so that the others are restored.
	code, width, vectors := require.Hex(t, "660fefff"), 16, []int{0, 9} // pxor xmm7, xmm7
	masks := false
	switch {
	case b.cpu.Features.AVX512BW:
		code = require.Hex(t, "62010540efff"+"c4e1c447ff") // vpxord zmm31, zmm31, zmm31; kxorq k7, k7, k7
		width, vectors, masks = 64, []int{0, 9, 16, 29}, true
	case b.cpu.Features.AVX:
		code, width = require.Hex(t, "c5c5efff"), 32 // vpxor ymm7, ymm7, ymm7
	}
	text := "rax=0x1,rsp=0x12340008,r15=0x8000000000000001,cf=1,pf=0,af=1,zf=1,sf=0,of=1,mxcsr=0x7f80,k0=0x5,k6=0x6"
	for _, reg := range vectors {
		digits := ""
		for i := range width {
			digits = fmt.Sprintf("%02x", reg+i+1) + digits
		}
		text += fmt.Sprintf(",%s%d=0x%s", map[int]string{16: "xmm", 32: "ymm", 64: "zmm"}[width], reg, digits)
	}
	set := require.Get(initial.ParseSet(text))(t)
	for _, init := range []initial.State{set.Over(initial.Paper()), initial.Paper()} {
		m := require.Get(b.block(code, init, 1, 4))(t)
		got := b.run(m, b.build(m, 1))
		if init.Opmasks[7] = 0; !masks {
			init.Opmasks = got.Opmasks
		}
		require.Equal(t, init.Set, []any{init.GPR, init.Flags, init.MXCSR, init.Opmasks, init.Vectors},
			[]any{got.GPR, got.Flags, got.MXCSR, got.Opmasks, got.Vectors}, cmpopts.EquateEmpty())
	}
}

// TestSetIsMapped: a block gets the pages that set registers address.
func TestSetIsMapped(t *testing.T) {
	b := openBench(t)
	for set, c := range map[string]struct {
		hex  string
		page uint64
	}{
		"":                    {"64488b142508000000", 0x2345_6000},   // mov rdx, fs:[8]
		"fs_base=0x20000000":  {"64488b142508000000", 0x2000_0000},   // the same
		"gs_base=0x30000000":  {"65488b142510000000", 0x3000_0000},   // mov rdx, gs:[16]
		"rsi=0x23450010":      {"488b06", 0x2345_0000},               // mov rax, [rsi]
		"fill=0x34560018":     {"488b06 83e0f0 488b08", 0x3456_0000}, // mov rax, [rsi]; and eax, -16; mov rcx, [rax]
		"xmm3=0x45670000":     {"66480f7ed8 488b08", 0x4567_0000},    // movq rax, xmm3; mov rcx, [rax]
		"zf=1,rcx=0x56780000": {"480f44d9 488b03", 0x5678_0000},      // cmovz rbx, rcx; mov rax, [rbx]
	} {
		init := initial.Paper()
		if set != "" {
			init = require.Get(initial.ParseSet(set))(t).Over(init)
		}
		m := require.Get(b.block(require.Hex(t, c.hex), init, 1, 4))(t)
		require.Equal(t, set, c.page, m.Pages[len(m.Pages)-1].Addr)
	}
}

// TestSetOverrules: a block's own Set comes before the Options', and that before -init and -ftz.
func TestSetOverrules(t *testing.T) {
	set := func(text string) initial.Set { return require.Get(initial.ParseSet(text))(t) }
	s := &session{states: initial.States()[1:], opts: Options{NoFTZ: true, Set: set("rdi=1,rsi=2")}}
	for i, init := range s.job(Block{Setup: Setup{Set: set("rsi=3,mxcsr=0x9fc0")}}).states {
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

// prepareBlock takes a block through the steps before timing.
func (s *session) prepareBlock(b Block) (*mapping.MappedBlock, error) {
	j := s.job(b)
	p, err := s.start(&j)
	if err != nil {
		return &mapping.MappedBlock{}, err
	}
	return s.prepare(j, p.insts, p.factors)
}

// Typical addresses of programs.
const (
	pieCode     = 0x5555_5555_5123
	staticCode  = 0x40_1123
	libraryCode = 0x7fff_f7e5_4321
	heapPage    = 0x5555_5576_8000
	stackPage   = 0x7fff_ffff_d000
)

// somewhere returns a state with random registers, at an address, with pages of random bytes.
func somewhere(rng *rand.Rand, address uint64, pages ...uint64) *initial.Captured {
	c := &initial.Captured{Address: address}
	c.Name, c.Fill = initial.CapturedName, initial.Paper().Fill
	for i := range c.GPR {
		c.GPR[i] = rng.Uint64()
	}
	for i := range c.Opmasks {
		c.Opmasks[i] = rng.Uint64()
	}
	c.FSBase, c.GSBase, c.MXCSR, c.Flags = stackPage+0x100, 0, 0x1fa0|uint32(rng.IntN(4))<<13, 0x202|rng.Uint64()&0x8d5
	for reg := range 32 {
		v := initial.Vector{Reg: reg, Bits: []int{128, 256, 512}[rng.IntN(3)]}
		for i := range v.Bits / 64 {
			v.Words[i] = rng.Uint64()
		}
		c.Vectors = append(c.Vectors, v)
	}
	c.X87 = initial.X87{Control: 0x37f, Status: uint16(rng.IntN(8))<<11 | 0x4500, Tags: byte(rng.Uint32())}
	for i := range c.X87.Registers {
		binary.LittleEndian.PutUint64(c.X87.Registers[i][:], 1<<63|rng.Uint64())
		binary.LittleEndian.PutUint16(c.X87.Registers[i][8:], uint16(rng.Uint32()))
	}
	for _, at := range pages {
		p := initial.Page{Address: at, Writable: true}
		for i := range p.Data {
			p.Data[i] = byte(rng.Uint32())
		}
		c.Pages = append(c.Pages, p)
	}
	return c
}
