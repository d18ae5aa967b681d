package rewrite

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

func decode(t *testing.T, digits string) []asm.Inst {
	t.Helper()
	return require.Get(asm.Decode(require.Hex(t, digits)))(t)
}

func texts(t *testing.T, code []byte) (list []string) {
	t.Helper()
	for _, in := range require.Get(asm.Decode(code))(t) {
		list = append(list, in.Text())
	}
	return list
}

func TestApply(t *testing.T) {
	insts := decode(t, "4801c8 488b0d10000000 4801ca") // add; mov rcx, [rip+0x10], which is [0x1a]; add
	for _, c := range []struct {
		name   string
		change Change
		want   []string
	}{
		{"nothing", Change{}, []string{"add rax, rcx", "mov rcx, qword ptr [rip+0x10]", "add rdx, rcx"}},
		{"left out", Change{Replace: map[int][]byte{0: nil}}, []string{"mov rcx, qword ptr [rip+0x13]", "add rdx, rcx"}},
		{"replaced", Change{Replace: map[int][]byte{0: Nop(1)}}, []string{"nop", "mov rcx, qword ptr [rip+0x12]", "add rdx, rcx"}},
		{"in front", Change{Before: map[int][][]byte{1: {Nop(1), Nop(1)}}},
			[]string{"add rax, rcx", "nop", "nop", "mov rcx, qword ptr [rip+0xe]", "add rdx, rcx"}},
	} {
		require.Equal(t, c.name, c.want, texts(t, c.change.Apply(insts)))
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
	for _, c := range []struct {
		hex, want string
	}{
		{"488b0b", "mov qword ptr [rbx+0x80], r9"},
		{"8b4c8b10", "mov dword ptr [rbx+rcx*4+0x90], r9d"},
		{"0fb60c24", "mov byte ptr [rsp+0x80], r9b"},
		{"660301", "mov word ptr [rcx+0x80], r9w"},
		{"4b8b0ce3", "mov qword ptr [r11+r12*8+0x80], r9"},
		{"8b0c2500100000", "mov dword ptr [0x1080], r9d"},
		{"64488b042528000000", "mov qword ptr fs:[0xa8], r9"},
		{"0f5803", "vmovups xmmword ptr [rbx+0x80], xmm10"},
		{"c4c17c580424", "vmovups ymmword ptr [r12+0x80], ymm10"},
		{"488b0d10000000", ""}, // relative to rip
		{"f348a5", ""},
		{"678b0b", ""},
	} {
		in := decode(t, c.hex)[0]
		got := ""
		if code, ok := storeTo(&in, &in.Mem[0], 9, 10, 0x80); ok {
			got = strings.Join(texts(t, code), "; ")
		}
		require.Equal(t, in.Text(), c.want, got)
	}
}
