package harness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/arch/x86/x86asm"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// decode decodes valid instructions.
func decode(t testing.TB, code ...byte) []asm.Inst {
	t.Helper()
	return require.Get(asm.Decode(code))(t)
}

var (
	nop  = []byte{0x90}
	nop2 = []byte{0x66, 0x90}
	nop5 = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}
)

// plain is the smallest harness.
var plain = Harness{Init: initial.Paper(), Clock: TSC}

func buildAt(t *testing.T, at uint64, insts []asm.Inst, copies int) Image {
	t.Helper()
	return require.Get(Build(at, insts, copies, nil, plain))(t)
}

func TestBuildLayout(t *testing.T) {
	block := slices.Concat(nop5, []byte{0x48, 0x01, 0xd8}) // nop; add rax, rbx
	insts := decode(t, block...)
	for _, at := range []uint64{layout.Code, layout.Code + 1, layout.Code + 63, layout.Code + 64} {
		for _, copies := range []int{1, 2, 48} {
			im := buildAt(t, at, insts, copies)
			if im.Address%64 != 0 || im.Address < at || im.Address >= at+64 || im.FirstCopy%64 != 0 || im.FirstCopy < im.Address || im.Copies != copies {
				t.Errorf("at %#x: prologue at %#x, first copy at %#x", at, im.Address, im.FirstCopy)
			}
			require.Equal(t, "end", im.Address+uint64(len(im.Code)), im.End())
			e := asm.NewEmitter(im.FirstCopy)
			e.Raw(bytes.Repeat(block, copies)...)
			Epilogue(e, im.Address, TSC)
			require.Equal(t, fmt.Sprintf("%d copies and the epilogue", copies), e.Bytes(), im.Code[im.FirstCopy-im.Address:])
		}
	}
}

// TestStoresDrained: only an image of a block that stores waits for its stores before it ends.
func TestStoresDrained(t *testing.T) {
	insts := decode(t, 0x48, 0x89, 0x03) // mov [rbx], rax
	for _, stores := range []bool{false, true} {
		h := plain
		h.Reset.Memory = stores
		im := require.Get(Build(layout.Code, insts, 3, nil, h))(t)
		end := im.FirstCopy + 3*3
		e := asm.NewEmitter(end)
		if stores {
			e.LockNot(layout.SlotScratch)
		}
		Epilogue(e, im.Address, TSC)
		require.Equal(t, fmt.Sprint("after the copies, stores ", stores), e.Bytes(), im.Code[end-im.Address:])
	}
}

// TestLeadNops: the first copy keeps its place whatever the number of nops before it.
func TestLeadNops(t *testing.T) {
	insts := decode(t, 0x48, 0x01, 0xd8) // add rax, rbx
	for _, offset := range []int{0, 1, 16, 63} {
		for _, n := range []int{0, 15, 16, 23, 64} {
			h := plain
			h.Offset, h.LeadNops = offset, n
			im := require.Get(Build(layout.Code, insts, 3, nil, h))(t)
			bytes, want := offset, (offset+8)/9
			if n > 0 {
				bytes, want = 64+offset, n
			}
			first := int(im.FirstCopy - im.Address)
			nops, err := asm.Decode(im.Code[first-bytes : first])
			if err != nil || len(nops) != want || int(im.FirstCopy)%64 != offset {
				t.Errorf("offset %d, %d nops: %d of them in %d bytes before %#x: %v", offset, n, len(nops), bytes, im.FirstCopy, err)
			}
		}
	}
}

func TestLocate(t *testing.T) {
	insts := decode(t, append(append([]byte{}, nop5...), nop2...)...) // 7 bytes
	im := buildAt(t, layout.Code+5, insts, 3)
	type place struct {
		copy, offset int
		ok           bool
	}
	for addr, want := range map[uint64]place{
		im.Address: {}, im.FirstCopy - 1: {}, im.FirstCopy: {0, 0, true}, im.FirstCopy + 6: {0, 6, true}, im.FirstCopy + 7: {1, 0, true},
		im.FirstCopy + 20: {2, 6, true}, im.FirstCopy + 21: {}, im.End(): {}, 0: {}, math.MaxUint64: {}, // 21: the epilogue
	} {
		copy, offset, ok := im.Locate(addr)
		require.Equal(t, fmt.Sprintf("first copy%+d", int64(addr-im.FirstCopy)), want, place{copy, offset, ok}, cmp.AllowUnexported(place{}))
	}
	if _, _, ok := (Image{}).Locate(0); ok {
		t.Error("an image of nothing holds an address")
	}
}

// ripLoad is mov rax, [rip+disp], followed by the bytes that may follow a displacement.
func ripLoad(disp int32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{0x48, 0x8b, 0x05}, uint32(disp))
}

// In every copy, every rip-relative operand has the target that it has at Home, according to another decoder.
func TestRelocation(t *testing.T) {
	imm := append(binary.LittleEndian.AppendUint32([]byte{0xc7, 0x05}, 0x40), 1, 0, 0, 0) // mov dword [rip+0x40], 1
	lea := binary.LittleEndian.AppendUint32([]byte{0x48, 0x8d, 0x0d}, 0xffff_f000)        // lea rcx, [rip-0x1000]
	block := append(append(append(append([]byte{}, nop...), ripLoad(0x1000)...), imm...), lea...)
	insts := decode(t, block...)
	const at = layout.Code + 0x8_0000
	im := buildAt(t, at, insts, 20)
	code, pc, found := im.Code[im.FirstCopy-im.Address:], im.FirstCopy, 0
	for copy := range 20 {
		for i, want := range []uint64{
			0,
			layout.Home + 1 + 7 + 0x1000,
			layout.Home + 8 + 10 + 0x40,
			layout.Home + 18 + 7 - 0x1000,
		} {
			in, err := x86asm.Decode(code, 64)
			if err != nil || in.Len != len(insts[i].Bytes) {
				t.Fatalf("copy %d, instruction %d: %v, %v", copy, i, in, err)
			}
			code, pc = code[in.Len:], pc+uint64(in.Len)
			for _, a := range in.Args {
				if m, ok := a.(x86asm.Mem); ok && m.Base == x86asm.RIP {
					found++
					require.Equal(t, fmt.Sprintf("copy %d: %v", copy, in), want, pc+uint64(int64(int32(m.Disp))))
				}
			}
		}
	}
	require.Equal(t, "operands", 60, found)
	require.Equal(t, "the block itself", ripLoad(0x1000), insts[1].Bytes)
}

// The first copy adds most to a displacement, so it limits displacements forward to 32 bits;
// backwards none is too far, because Home is above the code.
func TestRelocationReach(t *testing.T) {
	im := buildAt(t, layout.Code, decode(t, nop...), 1)
	home := int64(layout.Home - im.FirstCopy)
	furthest := math.MaxInt32 - home
	for disp, ok := range map[int64]bool{furthest: true, furthest + 1: false, math.MaxInt32: false, math.MinInt32: true} {
		_, err := Build(layout.Code, decode(t, ripLoad(int32(disp))...), 2, nil, plain)
		r, rejected := errors.AsType[*verdict.Rejection](err)
		if (err == nil) != ok || rejected == ok || rejected && (r.Reason != verdict.Unmappable || r.Inst == nil || r.Inst.Index != 0) {
			t.Errorf("%#x: %v, want unmappable %v", disp, err, !ok)
		}
	}
	// Every copy, anywhere in the code region, can reach the distance that package layout promises.
	if reach := math.MaxInt32 - int64(layout.Home-layout.Code); reach>>20 < 1792 {
		t.Errorf("reach is %d MiB", reach>>20)
	}
}

// In a dry run, code that belongs to a masked access's instruction touches its pages first.
func TestDryRunTouchesMasked(t *testing.T) {
	insts := decode(t, append(append([]byte{}, nop5...), 0xc4, 0xe2, 0x75, 0x2c, 0x07, 0x66, 0x90)...) // nop; vmaskmovps ymm0, ymm1, [rdi]; nop
	im := require.Get(BuildDryRun(insts, 3, nil, plain))(t)
	touches := []byte{0x40, 0x0f, 0xae, 0xbf, 0, 0, 0, 0, 0x40, 0x0f, 0xae, 0xbf, 31, 0, 0, 0} // rex clflush [rdi], [rdi+31]
	want := slices.Concat(nop5, touches, insts[1].Bytes, insts[2].Bytes)
	require.Equal(t, "copies", bytes.Repeat(want, 3), im.Code[im.FirstCopy-im.Address:][:3*len(want)])
	offsets := slices.Concat([]int{0, 1, 2, 3, 4}, slices.Repeat([]int{5}, len(touches)), []int{5, 6, 7, 8, 9, 10, 11})
	for d := range 3 * len(want) {
		copy, offset, ok := im.Locate(im.FirstCopy + uint64(d))
		if !ok || copy != d/len(want) || offset != offsets[d%len(want)] {
			t.Errorf("byte %d is byte %d of copy %d, %v; want %d of %d", d, offset, copy, ok, offsets[d%len(want)], d/len(want))
		}
	}
	if _, _, ok := im.Locate(im.FirstCopy + uint64(3*len(want))); ok {
		t.Error("what follows the copies is located in them")
	}
}
