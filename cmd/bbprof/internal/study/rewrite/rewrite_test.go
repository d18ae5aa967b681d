package rewrite

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

func decode(t *testing.T, digits string) []asm.Inst {
	t.Helper()
	return require.Get(asm.Decode(require.Hex(t, digits)))(t)
}

func text(t *testing.T, code []byte) string {
	t.Helper()
	return asm.Text(require.Get(asm.Decode(code))(t))
}

func TestApply(t *testing.T) {
	insts := decode(t, "4801c8 488b0d10000000 4801ca") // add; mov rcx, [rip+0x10], which is [0x1a]; add
	for _, c := range []struct {
		name   string
		change Change
		want   string
	}{
		{"nothing", Change{}, "add rax, rcx; mov rcx, qword ptr [rip+0x10]; add rdx, rcx"},
		{"left out", Change{Replace: map[int][]byte{0: nil}}, "mov rcx, qword ptr [rip+0x13]; add rdx, rcx"},
		{"replaced", Change{Replace: map[int][]byte{0: Nop(1)}}, "nop; mov rcx, qword ptr [rip+0x12]; add rdx, rcx"},
		{"in front", Change{Before: map[int][][]byte{1: {Nop(1), Nop(1)}}},
			"add rax, rcx; nop; nop; mov rcx, qword ptr [rip+0xe]; add rdx, rcx"},
	} {
		require.Equal(t, c.name, c.want, text(t, c.change.Apply(insts)))
	}
	// rip-relative operands keep their target wherever they end up
	code := Change{Copies: 3, Spread: [][]byte{Nop(1), Nop(8), Nop(1)}}.Apply(insts)
	moved := require.Get(asm.Decode(code))(t)
	require.Equal(t, "instructions", 3*3+3, len(moved))
	for _, in := range moved {
		if in.RIPDisp > 0 {
			if at := int64(in.Offset+len(in.Bytes)) + in.Mem[0].Disp; at != 0x1a {
				t.Errorf("%s at %d reaches %#x, not 0x1a", in.Text(), in.Offset, at)
			}
		}
	}
}

// TestStore: a store writes the bytes that the instruction loads.
func TestStore(t *testing.T) {
	for _, row := range require.Table(t, "stores.txt") {
		in := decode(t, row[0])[0]
		got := ""
		if code, ok := storeTo(&in, &in.Mem[0], 9, 10, 0x80); ok {
			got = text(t, code)
		}
		require.Equal(t, in.Text(), row[1], got)
	}
}

func TestEncode(t *testing.T) {
	for want, code := range map[string][]byte{
		"lea r15, [r9]":        Encode("lea r64, m", Pointer(9, 0), 15, 0),
		"lea rcx, [r12+0x8]":   Encode("lea r64, m", Pointer(12, 8), 1, 0),
		"test rcx, r9":         Encode("test r64, r64", asm.Address{}, 1, 9),
		"movaps xmm9, xmm10":   MovVector(9, 10, asm.State{}),
		"vmovaps xmm1, xmm10":  MovVector(1, 10, asm.State{VEX: true}),
		"vmovaps ymm9, ymm1":   MovVector(9, 1, asm.State{VEX: true, VectorBits: 256}),
		"vmovaps zmm9, zmm1":   MovVector(9, 1, asm.State{VEX: true, VectorBits: 512}),
		"vmovaps ymm17, ymm30": MovVector(17, 30, asm.State{VEX: true, VectorBits: 256}),
	} {
		require.Equal(t, "code", want, text(t, code))
	}
}
