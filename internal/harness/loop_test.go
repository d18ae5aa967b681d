package harness

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/unroll"
)

// TestBuildLoop decodes both forms with another decoder: registers and flags have their
// initial values at the first copy, and the branch leads there.
func TestBuildLoop(t *testing.T) {
	const copies, iterations = 5, 300
	for _, counter := range []unroll.Counter{{Reg: asm.R15}, {Reg: asm.RAX}, {Memory: true}} {
		for size := 1; size <= 40; size++ { // every place of the branch in its window
			block := append(bytes.Repeat(nop, size-1), 0x90)
			im := require.Get(Build(layout.Code+7, decode(t, block...), copies*iterations, &unroll.Loop{Bodies: unroll.Factors{Short: 1, Long: copies}, Turns: unroll.Factors{Short: iterations, Long: iterations}, Counter: counter}, plain))(t)
			if im.FirstCopy%64 != 0 || !bytes.HasPrefix(im.Code[im.FirstCopy-im.Address:], bytes.Repeat(block, copies)) {
				t.Fatalf("%v, %d bytes: the copies do not stand at %#x", counter, size, im.FirstCopy)
			}
			e := asm.NewEmitter(im.Address)
			Prologue(e, plain.Init, plain.Reset, plain.Features)
			before := im.Code[len(e.Bytes()) : im.FirstCopy-im.Address]
			got := read(t, e.PC(), before)
			want := []string{"MOV " + name32(counter.Reg) + ", 0x12c"}
			if counter.Memory {
				want = []string{"MOV EAX, 0x12c", "MOV [SlotLoop], RAX", "MOV EAX, 0x12345600"}
			}
			require.Equal(t, fmt.Sprintf("%v, ahead of the copies", counter), want, got)
			at := im.FirstCopy + uint64(copies*size)
			got = read(t, at, im.Code[at-im.Address:])[:2]
			want = []string{"DEC " + strings.ToUpper(counter.String()), "JNE first"}
			if counter.Memory {
				want[0] = "DEC [SlotLoop]"
			}
			require.Equal(t, fmt.Sprintf("%v, %d bytes, after the copies", counter, size), want, got)
			from, end, code := at, at, im.Code[at-im.Address:]
			var in x86asm.Inst
			for ; in.Op != x86asm.JNE; code = code[in.Len:] {
				in = require.Get(x86asm.Decode(code, 64))(t)
				from, end = end, end+uint64(in.Len)
			}
			if target := end + uint64(int64(in.Args[0].(x86asm.Rel))); target != im.FirstCopy {
				t.Errorf("%v, %d bytes: jumps to %#x, not to the first copy", counter, size, target)
			}
			if !counter.Memory {
				from -= decBytes
			}
			if from/32 != end/32 {
				t.Errorf("%v, %d bytes: the branch from %#x to %#x touches a 32-byte boundary", counter, size, from, end)
			}
		}
	}
}

// TestOneCode: the images of a loop that is one code differ in their entry alone, which stores their turns and jumps to where every
// further run starts.
func TestOneCode(t *testing.T) {
	const copies, short, long = 5, 16, 32
	for _, counter := range []unroll.Counter{{Reg: asm.R15}, {Memory: true}} {
		l := unroll.Loop{Bodies: unroll.Factors{Short: copies, Long: copies}, Turns: unroll.Factors{Short: short, Long: long}, Counter: counter, Own: 0.1}
		im := require.Get(Build(layout.Code+7, decode(t, nop5...), copies*short, &l, plain))(t)
		var again string
		for _, turns := range []int{short, (short + long) / 2, long} {
			alone := require.Get(Build(layout.Code+7, decode(t, nop5...), copies*turns, &l, plain))(t)
			other, ok := im.For(copies * turns)
			if !ok || other.Entry != alone.Entry || other.FirstCopy != im.FirstCopy || !bytes.Equal(alone.Code, im.Code) {
				t.Fatalf("%v: %d turns are other code: %v", counter, turns, ok)
			}
			code := im.Code[other.Entry-im.Address:]
			require.Equal(t, fmt.Sprintf("%v, entry for %d turns", counter, turns),
				[]string{fmt.Sprintf("MOV EAX, %#x", turns), "MOV [SlotTurns], RAX", "JMP first"}, read(t, other.Entry, code)[:3])
			at := other.Entry
			for range 3 {
				in := require.Get(x86asm.Decode(code, 64))(t)
				at, code = at+uint64(in.Len), code[in.Len:]
				if to, ok := in.Args[0].(x86asm.Rel); ok {
					at += uint64(int64(to))
				}
			}
			if again == "" {
				again = fmt.Sprintf("%#x", at)
			}
			require.Equal(t, "where the prologue starts", again, fmt.Sprintf("%#x", at))
			e := asm.NewEmitter(at)
			Prologue(e, plain.Init, plain.Reset, plain.Features)
			before := im.Code[int(at-im.Address)+len(e.Bytes()) : im.FirstCopy-im.Address]
			want := []string{"MOV R15, [SlotTurns]"}
			if counter.Memory {
				want = []string{"MOV RAX, [SlotTurns]", "MOV [SlotLoop], RAX", "MOV EAX, 0x12345600"}
			}
			require.Equal(t, fmt.Sprintf("%v, ahead of the copies", counter), want, read(t, e.PC(), before))
		}
		if _, ok := im.For(copies); ok {
			t.Errorf("%v: it has an entry for one turn", counter)
		}
		dry := require.Get(BuildDryRun(decode(t, nop5...), copies*long, &l, plain))(t)
		if dry.Entry != dry.Address {
			t.Errorf("%v: a dry run starts %d bytes into its code", counter, dry.Entry-dry.Address)
		}
	}
}

// name32 returns the name of a register's lower half.
func name32(r asm.Reg) string {
	return (x86asm.EAX + x86asm.Reg(r)).String()
}

// read disassembles code without its nops, with names for its addresses.
func read(t *testing.T, pc uint64, code []byte) (out []string) {
	t.Helper()
	for len(code) > 0 {
		in, err := x86asm.Decode(code, 64)
		if err != nil {
			t.Fatalf("% x: %v", code[:min(len(code), 15)], err)
		}
		pc, code = pc+uint64(in.Len), code[in.Len:]
		if in.Op == x86asm.NOP || in.Op == x86asm.XCHG {
			continue
		}
		s := in.Op.String()
		for i, a := range in.Args {
			if a == nil {
				break
			}
			text := a.String()
			switch a := a.(type) {
			case x86asm.Mem:
				slots := map[uint64]string{layout.SlotLoop: "[SlotLoop]", layout.SlotTurns: "[SlotTurns]"}
				if name, ok := slots[pc+uint64(int64(int32(a.Disp)))]; ok && a.Base == x86asm.RIP {
					text = name
				}
			case x86asm.Rel:
				text = "first"
			}
			s += map[bool]string{true: " ", false: ", "}[i == 0] + text
		}
		out = append(out, s)
	}
	return out
}

// The switch to the decoders is a fetch block that no op cache holds, and keeps the alignment.
func TestLeaveOpCache(t *testing.T) {
	f := plain
	f.Decoders = true
	insts := decode(t, nop5...)
	im := require.Get(Build(layout.Code, insts, 3, nil, f))(t)
	hot := buildAt(t, layout.Code, insts, 3)
	if im.FirstCopy != hot.FirstCopy+128 || im.FirstCopy%64 != 0 {
		t.Fatalf("the first copy is at %#x, from the op cache at %#x", im.FirstCopy, hot.FirstCopy)
	}
	before := im.Code[hot.FirstCopy-im.Address : im.FirstCopy-im.Address]
	require.Equal(t, "ahead of the copies", append([]byte{0x0f, 0xae, 0xf0}, bytes.Repeat(nop, 64)...), before[61:])
}

// TestOwnLoopVaries: both images of a loop lack the same numbers of iterations, run by run, which differ; a loop that
// must not vary lacks none.
func TestOwnLoopVaries(t *testing.T) {
	insts := decode(t, 0x48, 0xff, 0xc9, 0x75, 0xfb) // dec rcx; jnz
	const copies, short, long = 3, 100, 200
	for _, varied := range []int{0, 1, 16} {
		l := unroll.OwnLoop(copies, unroll.Exit{Reg: asm.RCX, Base: 5, Step: 2, Mask: ^uint64(0)}, unroll.Factors{})
		l.Varied = varied
		var lacks [2][]int
		for k, iterations := range []int{short, long} {
			im := require.Get(Build(layout.Code, insts, iterations*copies, &l, plain))(t)
			for i := range variedExits {
				value := binary.LittleEndian.Uint64(im.Code[im.Table-im.Address+8*uint64(i):])
				lacks[k] = append(lacks[k], iterations-int(value-5)/2/copies)
			}
		}
		seen := slices.Compact(slices.Sorted(slices.Values(lacks[0])))
		if !slices.Equal(lacks[0], lacks[1]) || len(seen) < varied*3/4 || seen[0] < 0 || slices.Max(seen) >= max(varied, 1) {
			t.Errorf("varied by %d: runs of the images lack %v and %v", varied, lacks[0], lacks[1])
		}
	}
}
