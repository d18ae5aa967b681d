package profiler

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/hostile"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// The CPU knows how wide an operand is, whether it is written and how it must be aligned:
// moved towards the end of the last page, an operand faults as soon as it does not fit, and on
// a read-only page when it is written. So the CPU can check the decoder's tables.

// operands lists instructions with one explicit operand at [rbx], or [rbx+N] for EVEX; registers do not vary.
var operands = sync.OnceValue(func() (list []asm.Inst) {
	type key struct {
		head          string
		opcode        byte
		mnemonic      string
		width, memory int
	}
	seen := map[key]bool{}
	try := func(opcode byte, modrm byte, tail []byte, head ...byte) {
		vex := len(head) >= 3 && (head[0] == 0xc4 || head[0] == 0x62)
		for reg := range byte(8) {
			if vex && reg > 1 && !bytes.Contains([]byte("\x71\x72\x73\xae\xc6\xc7\xf3"), []byte{opcode}) { // not a group
				break
			}
			code := slices.Concat(head, []byte{opcode, modrm | reg<<3}, tail)
			for range 8 { // an immediate, as far as there is one, and nops
				code = append(code, 0x90)
			}
			insts, err := asm.Decode(code)
			if err != nil || asm.Refuse(insts[:1]) != nil {
				continue
			}
			in := insts[0]
			m, ok := explicit(in)
			if !ok || m.Elements > 0 || m.BitOffset != asm.NoRegister && reg != 0 {
				continue
			}
			k := key{string(head), opcode, in.Mnemonic, m.Width, len(in.Mem)}
			if !seen[k] {
				seen[k] = true
				list = append(list, in)
			}
		}
	}
	for opcode := range 256 {
		op := byte(opcode)
		for _, prefix := range [][]byte{{}, {0x66}, {0xf3}, {0xf2}, {0x48}, {0x66, 0x48}, {0xf3, 0x48}, {0xf2, 0x48}} {
			for _, escape := range [][]byte{{}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}} {
				try(op, 0x03, nil, slices.Concat(prefix, escape)...)
			}
		}
		for wpp := range byte(8) { // W above pp
			w, pp := wpp>>2<<7, wpp&3
			for opcodeMap := byte(1); opcodeMap <= 3; opcodeMap++ {
				for l := range byte(2) {
					try(op, 0x03, nil, 0xc4, 0xe0|opcodeMap, w|0x78|l<<2|pp)
				}
			}
			for _, opcodeMap := range []byte{1, 2, 3, 5, 6} {
				for lb := range byte(6) { // length above broadcast
					try(op, 0x43, []byte{1}, 0x62, 0xf0|opcodeMap, w|0x7c|pp, lb>>1<<5|lb&1<<4|0x08)
				}
			}
		}
	}
	return list
})

// explicit returns the operand that rbx addresses.
func explicit(in asm.Inst) (asm.Mem, bool) {
	i := slices.IndexFunc(in.Mem, func(m asm.Mem) bool { return !m.Implicit && m.Base == asm.GPR(int(asm.RBX)) })
	if i < 0 {
		return asm.Mem{}, false
	}
	return in.Mem[i], true
}

// outcome is the result of running one instruction.
type outcome struct {
	absent     bool // SIGILL
	protection bool // a fault without an address: alignment, here
	fault      uint64
}

// page is where it faulted: wide operands are not always probed from their first byte on.
func (o outcome) page() uint64 { return o.fault &^ (layout.PageSize - 1) }

// probe runs an instruction with rbx at an address and mask in k1.
func (b bench) probe(in asm.Inst, rbx, mask uint64) outcome {
	b.t.Helper()
	e := asm.NewEmitter(b.timer.Images())
	e.Fninit()
	e.Ldmxcsr(layout.SlotMXCSR)
	if b.cpu.Features.AVX {
		e.Raw(0xc5, 0xfc, 0x57, 0xc0)       // vxorps ymm0, ymm0, ymm0
		e.Raw(0xc5, 0xfc, 0xc2, 0xc0, 0x0f) // vcmptrueps ymm0, ymm0, ymm0: a mask that enables all
	}
	if b.cpu.Features.AVX512BW {
		e.MovImm(asm.RAX, mask)
		e.Raw(0xc4, 0xe1, 0xfb, 0x92, 0xc8) // kmovq k1, rax
	}
	for r := range asm.Reg(16) {
		e.MovImm(r, map[asm.Reg]uint64{asm.RBX: rbx, asm.RCX: 1, asm.RSP: slidePage + 2048}[r])
	}
	e.Raw(in.Bytes...)
	e.JmpMem(layout.SlotReturn)
	copy(b.child.Code()[b.timer.Images()-layout.Code:], e.Bytes())
	clear(b.child.Frame(0))
	stop, err := b.child.Do([]tracee.Op{tracee.Run(b.timer.Images(), 1)}, generous)
	if err != nil {
		b.t.Fatalf("%s: %v", in.Text(), err)
	}
	switch {
	case stop.Done, stop.Signal == tracee.SIGFPE: // a division has read its operand
		return outcome{}
	case stop.Signal == tracee.SIGILL:
		return outcome{absent: true}
	case stop.Code == tracee.SiKernel:
		return outcome{protection: true}
	}
	return outcome{fault: stop.Addr}
}

// slidePage is a page before an unmapped one.
const slidePage = 0x1_2345_0000

// TestCPUJudgesOperands compares width, direction and alignment with the CPU.
func TestCPUJudgesOperands(t *testing.T) {
	b := openBench(t)
	if stop, err := b.child.Do([]tracee.Op{tracee.MapFrame(slidePage, 0)}, generous); err != nil || !stop.Done {
		t.Fatal(stop, err)
	}
	const readOnlyPage = layout.CodeEnd - layout.PageSize // the end of the code, which holds zeros
	const end, readOnly = slidePage + layout.PageSize, readOnlyPage + 1024
	judged, absent := 0, 0
	for i, in := range operands() {
		if testing.Short() && i%5 != 0 {
			continue
		}
		m, _ := explicit(in)
		at := func(addr uint64) outcome { return b.probe(in, addr-uint64(m.Disp), 0) }
		fits := at(end - uint64(m.Width))
		if fits.absent {
			absent++
			continue
		}
		judged++
		if vendorsDiffer(in) {
			continue
		}
		complain := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%x %s, %d bytes, write %v, align %d: "+format, append([]any{in.Bytes, in.Text(), m.Width, m.Write, in.Align}, args...)...)
		}
		aligned := m.Width%max(in.Align, 1) == 0
		if aligned && fits != (outcome{}) {
			complain("does not fit: %+v", fits)
		}
		if past := at(end - uint64(m.Width) + 1); past.page() != end && !(in.Align > 1 && past.protection) {
			complain("one byte further still fits: %+v", past)
		}
		if in.Align > 1 { // one alignment further, the last byte is past the end
			if past := at((end - uint64(m.Width) + uint64(in.Align)) &^ uint64(in.Align-1)); past.page() != end {
				complain("one alignment further still fits: %+v", past)
			}
			if half := at(slidePage + 1024 + uint64(in.Align/2)); !half.protection {
				complain("half an alignment does for it: %+v", half)
			}
		} else if odd := at(slidePage + 1025); odd != (outcome{}) {
			complain("an odd address does not do: %+v", odd)
		}
		if written := at(readOnly); (written.page() == readOnlyPage) != m.Write || written.protection {
			complain("on a read-only page: %+v", written)
		}
	}
	t.Logf("%d encodings judged, %d not on this CPU", judged, absent)
	if judged < 3000 && !testing.Short() {
		t.Error("too few encodings judged")
	}
}

// vendorsDiffer names what AMD's cores do otherwise than Intel's manual says, as a Zen 4 showed:
// movsxd with a 16-bit register reads four bytes, and the SHA instructions take any address.
func vendorsDiffer(in asm.Inst) bool {
	return cpuid.CPU.VendorID == cpuid.AMD && (strings.HasPrefix(in.Mnemonic, "sha") && in.Align > 1 ||
		in.Mnemonic == "movsxd" && in.Mem[0].Width == 2)
}

// TestCPUJudgesMasks compares the accesses that a mask suppresses with the CPU: on an unmapped page, they fault.
func TestCPUJudgesMasks(t *testing.T) {
	b := openBench(t)
	if !b.cpu.Features.AVX512BW {
		require.Skip(t, require.CPU, "this CPU has no AVX512BW")
	}
	judged, absent := 0, 0
	for i, plain := range operands() {
		if plain.Bytes[0] != 0x62 || testing.Short() && i%5 != 0 {
			continue
		}
		code := slices.Clone(plain.Bytes)
		code[3] |= 1 // aaa: k1
		insts, err := asm.Decode(code)
		if err != nil {
			continue // takes no mask
		}
		in := insts[0]
		m, ok := explicit(in)
		if !ok {
			t.Errorf("%s: no operand", in.Text())
			continue
		}
		if b.probe(in, slidePage, 0).absent {
			absent++
			continue
		}
		judged++
		for _, bit := range []int{-1, 0, 1, 2, 4, 8, 16, 32, 63} {
			mask := uint64(0)
			if bit >= 0 {
				mask = 1 << bit
			}
			got := b.probe(in, slidePage-uint64(m.Disp), mask).page() == slidePage
			want := m.Mask == asm.NoRegister || m.Masked(binary.LittleEndian.AppendUint64(nil, mask))
			require.Equal(t, fmt.Sprintf("%x %s, accesses by bit %d alone", code, in.Text(), bit), want, got)
		}
	}
	t.Logf("%d encodings judged, %d not on this CPU", judged, absent)
}

// fetched is the CPU's reaction to the first bytes of an instruction before unmapped memory.
type fetched int

const (
	wantsMore fetched = iota // it is not complete
	complete                 // it ran, or faulted for another reason than that
	absent                   // this CPU has no such instruction
	elsewhere                // the next instruction is not what follows it
)

// fetch runs bytes at the end of the dry run's code, before unmapped memory.
func (b bench) fetch(code []byte) fetched {
	b.t.Helper()
	start := layout.End - uint64(len(code))
	e := asm.NewEmitter(layout.DryRunCode)
	e.Fninit()
	for r := range asm.Reg(16) {
		e.MovImm(r, slidePage+layout.PageSize/2)
	}
	e.MovImm(asm.RCX, 1) // rep string operations end soon
	e.Jmp(start)
	copy(b.child.DryRunCode(), e.Bytes())
	copy(b.child.DryRunCode()[start-layout.DryRunCode:], code)
	stop, err := b.child.Try(nil, layout.DryRunCode, layout.DryRunCode, generous)
	if err != nil {
		b.t.Fatalf("% x: %v", code, err)
	}
	switch {
	case stop.Signal == tracee.SIGILL && stop.Regs.RIP == start:
		return absent
	case stop.Regs.RIP == start && stop.Signal == tracee.SIGSEGV && stop.Addr == layout.End:
		return wantsMore
	case stop.Regs.RIP == start || stop.Regs.RIP == layout.End:
		return complete
	}
	return elsewhere
}

// encodings returns a random instruction of each opcode of each map, with each kind of prefix.
func encodings(rng *rand.Rand) (list [][]byte) {
	try := func(head ...byte) {
		code := slices.Clone(head)
		for len(code) < 15 { // the longest that there is (SDM vol. 2, 2.3.11)
			code = append(code, byte(rng.Uint32()))
		}
		if first := hostile.First(code); first != nil {
			list = append(list, first)
		}
	}
	for opcode := range 256 {
		op := byte(opcode)
		for _, prefix := range []string{"", "\x66", "\xf2", "\xf3", "\x48", "\x66\x48", "\xf3\x48", "\x67", "\x66\x67", "\x67\x48",
			"\x66\xf2", "\xf3\x66", "\x41", "\x4f", "\x64", "\x2e", "\xf0", "\x66\x66\x66\x66\x66\x66"} {
			for _, escape := range []string{"", "\x0f", "\x0f\x38", "\x0f\x3a"} {
				try([]byte(prefix + escape + string([]byte{op}))...)
			}
		}
		for range 24 {
			p := byte(rng.Uint32())
			try(0xc5, p, op)
			try(0xc4, p&0xe0|byte(1+rng.IntN(3)), byte(rng.Uint32()), op)
			try(0x62, p&0xf0|byte(1+rng.IntN(6)), byte(rng.Uint32())|4, byte(rng.Uint32()), op)
		}
	}
	return list
}

// TestCPUJudgesLengths: if decoder and CPU disagreed on a length, an operand could hide a jump or a system call.
func TestCPUJudgesLengths(t *testing.T) {
	b := openBench(t)
	if stop, err := b.child.Do(append(tracee.UnmapAll(0), tracee.MapFrame(slidePage, 0)), generous); err != nil || !stop.Done {
		t.Fatal(stop, err)
	}
	rng := hostile.Seeded(t)
	judged, notHere := 0, 0
	for range hostile.Scaled(1, 60) {
		for i, code := range encodings(rng) {
			if testing.Short() && i%5 != 0 {
				continue
			}
			insts := require.Get(asm.Decode(code))(t)
			switch b.fetch(code) {
			case absent:
				notHere++
				continue
			case wantsMore:
				if !slices.ContainsFunc(insts[0].Mem, func(m asm.Mem) bool { return m.Base == asm.RIP }) { // whose operand may be what is not there
					t.Errorf("% x %s: the CPU reads on", code, insts[0].Text())
				}
			case elsewhere:
				t.Errorf("% x %s: the CPU goes elsewhere", code, insts[0].Text())
			}
			judged++
			if n := len(code) - 1; n > 0 && b.fetch(code[:n]) != wantsMore {
				t.Errorf("% x %s: the CPU needs only % x", code, insts[0].Text(), code[:n])
			}
		}
	}
	t.Logf("%d instructions judged, %d not on this CPU", judged, notHere)
	if judged < 5000 && !testing.Short() {
		t.Error("too few")
	}
}

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

// stackFault reports whether copies of a block with filled x87 registers fault, and the stack's depth afterwards.
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
	blocks := make([][]byte, 0, len(shapes)+1000)
	for _, in := range shapes {
		blocks = append(blocks, in.Bytes)
	}
	draw := rand.New(rand.NewPCG(87, 1))
	for range 1000 {
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
