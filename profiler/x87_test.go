package profiler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// x87Shapes lists all x87 instructions: each register form, and each memory form at [rbx].
func x87Shapes(t *testing.T) (shapes []asm.Inst) {
	t.Helper()
	for opcode := byte(0xd8); opcode >= 0xd8 && opcode <= 0xdf; opcode++ {
		for modrm := 3; modrm < 0x100; modrm++ {
			if modrm < 0xc0 && modrm&0xc7 != 3 {
				continue
			}
			// The alias d9 d8+i of fstp pops even nothing without a fault; frstpm, db e5, was
			// the 80287's alone.
			if opcode == 0xd9 && modrm&^7 == 0xd8 || opcode == 0xdb && modrm == 0xe5 {
				continue
			}
			if insts, err := asm.Decode([]byte{opcode, byte(modrm)}); err == nil {
				shapes = append(shapes, insts[0])
			}
		}
	}
	if len(shapes) < 400 {
		t.Fatalf("only %d shapes", len(shapes))
	}
	return shapes
}

// stackFault runs copies of a block with some x87 registers filled and reports whether the
// CPU raised a stack fault, and the depth of the stack afterwards.
func (b bench) stackFault(code []byte, filled, copies int) (fault bool, depth int) {
	b.t.Helper()
	insts := require.Get(asm.Decode(code))(b.t)
	r := &mapping.MappedBlock{Plan: mapping.Plan{Insts: insts, Init: initial.Paper(), Frames: 1}}
	r.Insts = insts
	r.Arena = require.Get(b.arena())(b.t)
	r.Harness = harness.Harness{Init: r.Plan.Init, Reset: harness.Reset{X87: true, Filled: filled}, Features: b.cpu.Features}
	image := require.Get(harness.Build(r.Images, insts, copies, nil, harnessOf(r)))(b.t)
	m := b.run(r, image)
	const stackFlag = 1 << 6 // SF of the status word, sticky (SDM vol. 1, 8.1.3)
	status := m.X87.Status
	return status&stackFlag != 0, (x87Depth - int(status>>11&7)) % x87Depth
}

const x87Depth = 8

// TestX87AgainstCPU compares X87Stack with the stack-fault flag, for every instruction and
// for blocks of several. (Among 20,000 blocks the only difference is an fptan of more than
// 2^63, which pushes nothing.)
func TestX87AgainstCPU(t *testing.T) {
	b := openBench(t)
	page := initial.Paper().GPR[asm.RBX] &^ (layout.PageSize - 1)
	require.Get(b.child.Do([]tracee.Op{tracee.MapFrame(page, 0)}, generous))(t)
	shapes := x87Shapes(t)
	blocks := make([][]byte, 0, len(shapes)+2000)
	for _, in := range shapes {
		blocks = append(blocks, in.Bytes)
	}
	draw := rand.New(rand.NewPCG(87, 1))
	for range 2000 {
		var code []byte
		for range 2 + draw.IntN(5) {
			code = append(code, shapes[draw.IntN(len(shapes))].Bytes...)
		}
		blocks = append(blocks, code)
	}
	steadyOnes, checked := 0, 0
	for _, code := range blocks {
		insts := require.Get(asm.Decode(code))(t)
		if has(insts, "frstor", "fldenv", "fldcw", "fninit", "fnsave", "fnclex") { // the stack from memory, or its flag cleared
			continue
		}
		checked++
		text := ""
		for i := range insts {
			text += insts[i].Text() + "; "
		}
		needs, net, steady := asm.X87Stack(insts)
		least := -1
		for filled := 0; filled <= x87Depth && least < 0; filled++ {
			copies := 9
			if !steady {
				copies = 1
			}
			if fault, depth := b.stackFault(code, filled, copies); !fault {
				least = filled
				if want := (filled + copies*net + 9*x87Depth*2) % x87Depth; depth != want {
					t.Errorf("%s: %d deep after %d copies, want %d", text, depth, copies, want)
				}
			}
		}
		if steady {
			steadyOnes++
		} else if fault, _ := b.stackFault(code, max(least, 0), 9); least >= 0 && !fault {
			t.Errorf("%s: 9 copies find no fault with %d filled, and are called unsteady", text, least)
		}
		// fxam accepts an empty register, but X87Stack fills one.
		if least >= 0 && least != needs && !has(insts, "fxam") {
			t.Errorf("%s: the CPU needs %d filled, X87Stack says %d (steady %v)", text, least, needs, steady)
		}
		if least < 0 && steady {
			t.Errorf("%s: the CPU faults with any number filled, X87Stack says %d", text, needs)
		}
	}
	t.Logf("%d blocks, %d of them steady", checked, steadyOnes)
}

// has reports whether one of the instructions is among these.
func has(insts []asm.Inst, mnemonics ...string) bool {
	return slices.ContainsFunc(insts, func(in asm.Inst) bool { return slices.Contains(mnemonics, in.Mnemonic) })
}
