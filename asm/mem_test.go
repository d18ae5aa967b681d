package asm

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// describe writes an access on one line, for tables and golden files: direction and width, then the address, then
// whatever else is set.
func describe(m Mem) string {
	var parts []string
	part := func(on bool, format string, args ...any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	part(m.Base != NoRegister, "%v", m.Base)
	part(m.Index != NoRegister, "%v*%d", m.Index, m.Scale)
	part(m.BitOffset != NoRegister, "%v bits of %d", m.BitOffset, m.Bits)
	part(m.Disp != 0 || len(parts) == 0, "%#x", m.Disp)
	direction := map[[2]bool]string{{true, false}: "r", {false, true}: "w", {true, true}: "rw"}[[2]bool{m.Read, m.Write}]
	segment := []string{"", "fs:", "gs:"}[m.Segment]
	parts = []string{fmt.Sprintf("%s%d %s[%s]", direction, m.Width, segment, strings.Join(parts, "+"))}
	part(m.AddrSize != 64, "addr%d", m.AddrSize)
	part(m.Implicit, "implicit")
	part(m.String, "%s", []string{"string", "rep", "repe", "repne"}[m.Repeat])
	part(m.Elements != 0, "%d elements, index %d", m.Elements, m.IndexSize)
	part(m.Mask != NoRegister, "mask %v", m.Mask)
	return strings.Join(parts, " ")
}

// mustDecode decodes a block of a test table.
func mustDecode(t *testing.T, hexBytes string) []Inst {
	t.Helper()
	block := require.Get(hex.DecodeString(strings.ReplaceAll(hexBytes, " ", "")))(t)
	return require.Get(Decode(block))(t)
}

func TestMemoryAccesses(t *testing.T) {
	for _, tt := range []struct {
		hex, text string
		mem       []string
	}{
		// Explicit, by direction.
		{"488b4308", "mov rax, qword ptr [rbx+0x8]", []string{"r8 [rbx+0x8]"}},
		{"8803", "mov byte ptr [rbx], al", []string{"w1 [rbx]"}},
		{"4801448b80", "add qword ptr [rbx+rcx*4-0x80], rax", []string{"rw8 [rbx+rcx*4+-0x80]"}},
		{"3903", "cmp dword ptr [rbx], eax", []string{"r4 [rbx]"}},
		{"668503", "test word ptr [rbx], ax", []string{"r2 [rbx]"}},
		{"0f9403", "sete byte ptr [rbx]", []string{"w1 [rbx]"}},
		{"f7 23", "mul dword ptr [rbx]", []string{"r4 [rbx]"}},
		{"0fb603", "movzx eax, byte ptr [rbx]", []string{"r1 [rbx]"}},
		{"f00fc103", "lock xadd dword ptr [rbx], eax", []string{"rw4 [rbx]"}},
		{"480fc70b", "cmpxchg16b xmmword ptr [rbx]", []string{"rw16 [rbx]"}},
		{"67 8b4424f0", "mov eax, dword ptr [esp-0x10]", []string{"r4 [rsp+-0x10] addr32"}},
		{"a1 8877665544332211", "mov eax, dword ptr [0x1122334455667788]", []string{"r4 [0x1122334455667788]"}},
		// Addresses that nothing accesses.
		{"0f1f440000", "nop dword ptr [rax+rax*1]", nil},
		{"0f1803", "prefetchnta byte ptr [rbx]", nil},
		{"0f0d0b", "prefetchw byte ptr [rbx]", nil},
		{"89c0", "mov eax, eax", nil},
		// A flush faults as a load of a byte does.
		{"0fae3b", "clflush byte ptr [rbx]", []string{"r1 [rbx]"}},
		// The stack: what is pushed was read before; pop to memory addresses with the new rsp.
		{"6650", "push ax", []string{"w2 [rsp+-0x2] implicit"}},
		{"6aff", "push 0xffffffffffffffff", []string{"w8 [rsp+-0x8] implicit"}},
		{"ff7008", "push qword ptr [rax+0x8]", []string{"r8 [rax+0x8]", "w8 [rsp+-0x8] implicit"}},
		{"ff742408", "push qword ptr [rsp+0x8]", []string{"r8 [rsp+0x8]", "w8 [rsp+-0x8] implicit"}},
		{"58", "pop rax", []string{"r8 [rsp] implicit"}},
		{"8f03", "pop qword ptr [rbx]", []string{"r8 [rsp] implicit", "w8 [rbx]"}},
		{"8f442408", "pop qword ptr [rsp+0x8]", []string{"r8 [rsp] implicit", "w8 [rsp+0x10]"}},
		{"668f0424", "pop word ptr [rsp]", []string{"r2 [rsp] implicit", "w2 [rsp+0x2]"}},
		{"9c", "pushf", []string{"w8 [rsp+-0x8] implicit"}},
		{"c9", "leave", []string{"r8 [rbp] implicit"}},
		{"0fa0", "push fs", []string{"w8 [rsp+-0x8] implicit"}},
		{"ff10", "call qword ptr [rax]", []string{"r8 [rax]", "w8 [rsp+-0x8] implicit"}},
		{"c3", "ret", []string{"r8 [rsp] implicit"}},
		// String operations. A segment prefix moves the source alone.
		{"a4", "movs byte ptr [rdi], byte ptr [rsi]", []string{"r1 [rsi] implicit string", "w1 [rdi] implicit string"}},
		{"f3 64 48a5", "rep movs qword ptr [rdi], qword ptr fs:[rsi]", []string{"r8 fs:[rsi] implicit rep", "w8 [rdi] implicit rep"}},
		{"f3 67 ab", "rep stos dword ptr [edi], eax", []string{"w4 [rdi] addr32 implicit rep"}},
		{"f3a6", "repe cmps byte ptr [rsi], byte ptr [rdi]", []string{"r1 [rsi] implicit repe", "r1 [rdi] implicit repe"}},
		{"f266af", "repne scas ax, word ptr [rdi]", []string{"r2 [rdi] implicit repne"}},
		{"f2ac", "repne lods al, byte ptr [rsi]", []string{"r1 [rsi] implicit rep"}},
		{"d7", "xlat", []string{"r1 [rbx+al*1] implicit"}},
		// A register bit offset moves the address; an immediate does not.
		{"480fa303", "bt qword ptr [rbx], rax", []string{"r8 [rbx+rax bits of 64]"}},
		{"660fab0b", "bts word ptr [rbx], cx", []string{"rw2 [rbx+rcx bits of 16]"}},
		{"0fba2b23", "bts dword ptr [rbx], 0x23", []string{"rw4 [rbx]"}},
		// x87 and state.
		{"d903", "fld dword ptr [rbx]", []string{"r4 [rbx]"}},
		{"db2b", "fld tbyte ptr [rbx]", []string{"r10 [rbx]"}},
		{"db3b", "fstp tbyte ptr [rbx]", []string{"w10 [rbx]"}},
		{"df33", "fbstp tbyte ptr [rbx]", []string{"w10 [rbx]"}},
		{"d933", "fnstenv [rbx]", []string{"w28 [rbx]"}},
		{"66d933", "fnstenv [rbx]", []string{"w14 [rbx]"}},
		{"6648d933", "fnstenv [rbx]", []string{"w28 [rbx]"}}, // REX.W wins, as the CPU showed
		{"dd33", "fnsave [rbx]", []string{"w108 [rbx]"}},
		{"66dd23", "frstor [rbx]", []string{"r94 [rbx]"}},
		{"0fae03", "fxsave [rbx]", []string{"w512 [rbx]"}},
		{"0fae0b", "fxrstor [rbx]", []string{"r512 [rbx]"}},
		{"0fae1b", "stmxcsr dword ptr [rbx]", []string{"w4 [rbx]"}},
		// SSE and AVX.
		{"f20f1003", "movsd xmm0, qword ptr [rbx]", []string{"r8 [rbx]"}},
		{"0f1703", "movhps qword ptr [rbx], xmm0", []string{"w8 [rbx]"}},
		{"660f3a140305", "pextrb byte ptr [rbx], xmm0, 0x5", []string{"w1 [rbx]"}},
		{"660f3a210310", "insertps xmm0, dword ptr [rbx], 0x10", []string{"r4 [rbx]"}},
		{"0f6003", "punpcklbw mm0, dword ptr [rbx]", []string{"r4 [rbx]"}},
		{"c5fc5803", "vaddps ymm0, ymm0, ymmword ptr [rbx]", []string{"r32 [rbx]"}},
		{"c5fbf0 03", "vlddqu xmm0, xmmword ptr [rbx]", []string{"r16 [rbx]"}},
		{"c4e27d2003", "vpmovsxbw ymm0, xmmword ptr [rbx]", []string{"r16 [rbx]"}},
		{"0ff7c1", "maskmovq mm0, mm1", []string{"w8 [rdi] implicit mask mm1"}},
		{"66 65 67 0ff7c1", "maskmovdqu xmm0, xmm1", []string{"w16 gs:[rdi] addr32 implicit mask v1"}},
		{"c4e2752e03", "vmaskmovps ymmword ptr [rbx], ymm1, ymm0", []string{"w32 [rbx] mask v1"}},
		{"c4e2f18c03", "vpmaskmovq xmm0, xmm1, xmmword ptr [rbx]", []string{"r16 [rbx] mask v1"}},
		{"c4e26990040b", "vpgatherdd xmm0, dword ptr [rbx+xmm1*1], xmm2", []string{"r4 [rbx+v1*1] 4 elements, index 4 mask v2"}},
		{"c4e2ed90440b10", "vpgatherdq ymm0, qword ptr [rbx+xmm1*1+0x10], ymm2", []string{"r8 [rbx+v1*1+0x10] 4 elements, index 4 mask v2"}},
		// EVEX: disp8 counts in the width of the access.
		{"62f17c485801", "vaddps zmm0, zmm0, zmmword ptr [rcx]", []string{"r64 [rcx]"}},
		{"62f17c48584301", "vaddps zmm0, zmm0, zmmword ptr [rbx+0x40]", []string{"r64 [rbx+0x40]"}},
		{"62f17c585843ff", "vaddps zmm0, zmm0, dword ptr [rbx-0x4]{1to16}", []string{"r4 [rbx+-0x4]"}},
		{"62f1ff08104301", "vmovsd xmm0, qword ptr [rbx+0x8]", []string{"r8 [rbx+0x8]"}},
		{"62f17cc9104301", "vmovups zmm0{k1}{z}, zmmword ptr [rbx+0x40]", []string{"r64 [rbx+0x40] mask k1"}},
		{"62f27d4a8a4301", "vcompressps zmmword ptr [rbx+0x4]{k2}, zmm0", []string{"w64 [rbx+0x4] mask k2"}},
		{"62f27e48314301", "vpmovdb xmmword ptr [rbx+0x10], zmm0", []string{"w16 [rbx+0x10]"}},
		{"62f27d49a0440b01", "vpscatterdd dword ptr [rbx+zmm1*1+0x4]{k1}, zmm0", []string{"w4 [rbx+v1*1+0x4] 16 elements, index 4 mask k1"}},
		{"62f2fd4193440b01", "vgatherqpd zmm0{k1}, qword ptr [rbx+zmm17*1+0x8]", []string{"r8 [rbx+v17*1+0x8] 8 elements, index 8 mask k1"}},
		{"62f27d4993440b01", "vgatherqps ymm0{k1}, dword ptr [rbx+zmm1*1+0x4]", []string{"r4 [rbx+v1*1+0x4] 8 elements, index 8 mask k1"}},
		{"c4e1f99003", "kmovd k0, dword ptr [rbx]", []string{"r4 [rbx]"}},
	} {
		in := mustDecode(t, tt.hex)[0]
		var got []string
		for _, m := range in.Mem {
			got = append(got, describe(m))
		}
		require.Equal(t, tt.hex, append([]string{tt.text}, tt.mem...), append([]string{in.Text()}, got...))
	}
}

func TestAlign(t *testing.T) {
	for want, codes := range map[int]string{
		// mov, between registers, movups, movdqu, lddqu, addss, pcmpistri, palignr and movntq of mmx, cvtps2pd, vaddps, cmpxchg8b
		0: "488903 0f28c1 0f1003 f30f6f03 f20ff003 f30f5803 660f3a630300 0f3a0f0300 0fe703 0f5a03 c5fc5803 0fc70b",
		// movaps, movdqa, addps, palignr, movntps, cvtpd2ps, cvttpd2pi, vmovaps, cmpxchg16b, fxsave
		16: "0f2803 660f6f03 0f5803 660f3a0f0300 0f2b03 660f5a03 660f2c03 c5f82803 480fc70b 0fae03",
		32: "c5fc2803 c5fde703 c4e27d2a03",     // vmovaps, vmovntdq, vmovntdqa
		64: "62f17c482803 62f17c492803 0fae23", // vmovaps, masked too, xsave
	} {
		for code := range strings.FieldsSeq(codes) {
			if in := mustDecode(t, code)[0]; in.Align != want {
				t.Errorf("%s %s: align %d, want %d", code, in.Text(), in.Align, want)
			}
		}
	}
}

// FuzzAccesses: what a log holds is read without a failure, whatever it is. Counts of repeated instructions are
// lengths, and none of them may become a loop or an allocation.
func FuzzAccesses(f *testing.F) {
	for _, seed := range []string{"488b03", "f3a4", "f3a6", "c4e26990048b", "660ff7c1", "480fa303", "d7", "fdf348ab"} {
		code := require.Get(hex.DecodeString(seed))(f)
		f.Add(code, []byte{1, 2, 3})
		f.Add(code, bytes.Repeat([]byte{0xff}, 64))
	}
	f.Fuzz(func(t *testing.T, code, log []byte) {
		insts, err := Decode(code)
		if err != nil || Refuse(insts) != nil || len(insts) > 64 {
			return
		}
		p, err := NewProbe(insts, Features{AVX: true, AVX512: true, AVX512BW: true}, 0)
		if err != nil {
			return
		}
		const copies = 3
		log = append(log, make([]byte, copies*p.LogSize())...)
		for _, a := range p.Accesses(log, copies, &Regs{}) {
			if a.Copy < 0 || a.Copy >= copies || a.Inst < 0 || a.Inst >= len(insts) {
				t.Errorf("%x: %+v", code, a)
			}
		}
	})
}
