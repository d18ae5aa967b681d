//go:build ignore

// This program writes blocks-own.csv: blocks with what compilers rarely put into a corpus of
// scalar programs. It needs the GNU assembler; its output is the same every time.
//
//	go run testdata/blocks-own.go > testdata/blocks-own.csv
package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// family is a set of blocks: each <a|b|c> in the template stands for one of them, % for x, y
// or z throughout, and all combinations that the assembler accepts are blocks.
type family struct {
	needs  string // CPU features by the names of package cpuid, "-" for any x86-64
	expect string // "runs", or the reason of the rejection
	text   string
}

var families = []family{
	// AVX-512: masks, zeroing, broadcasts, compressed displacements, all lengths, registers above 15.
	{"AVX512F AVX512VL", "runs", "vpadd<d|q> %mm0<|{k1}|{k1}{z}>, %mm17, %mm2"},
	{"AVX512F AVX512VL", "runs", "<vpaddd|vaddps|vfmadd231ps> %mm16<|{k3}>, %mm1, <[rbx]|[rbx+0x40]|[r12+r13*1-0x80]|[rip+0x40]>"},
	{"AVX512F AVX512VL", "runs", "vpternlog<d|q> %mm16<|{k3}>, %mm1, <[rbx]|fs:[0x40]|[ebx+0x40]>, 0x96"},
	{"AVX512F", "runs", "<vpaddd|vmulps|vpmulld|vpermi2d> zmm<0|31>, zmm1, dword ptr <[rbx+4]|[rbx+0x1fc]>{1to16}"},
	{"AVX512F", "runs", "<vpaddq|vmulpd|vporq|vfnmadd213pd> zmm<0|31>{k2}, zmm1, qword ptr <[rbx+8]|[rbx-0x400]>{1to8}"},
	{"AVX512F AVX512VL", "runs", "vaddps <xmm1, xmm2, dword ptr [rbx]{1to4}|ymm1, ymm2, dword ptr [rbx]{1to8}|" +
		"xmm1{k1}, xmm2, dword ptr [rbx+0x1fc]{1to4}>"},
	{"AVX512F AVX512VL AVX512BW", "runs", "mov eax, 0x5a5a; kmovw k1, eax; vmovdqu<8|16|32|64> %mm18<{k1}|{k1}{z}>, <[rbx]|[rbx+0x40]>"},
	{"AVX512F AVX512VL AVX512BW", "runs", "mov eax, 0x5a5a; kmovw k1, eax; vmovdqu<8|16|32|64> <[rbx]|[rbx+0x40]>{k1}, %mm18"},
	{"AVX512F AVX512VL", "runs", "vmov<aps|dqa32|dqa64|ntps> [rbx+0x40], %mm<3|29>"},
	{"AVX512F AVX512VL", "runs", "vmov<aps|upd|dqa32|ntdqa> %mm<3|29>, [rbx+0x80]"},
	{"AVX512F", "runs", "v<add|mul|sub|div|max|sqrt>s<s|d> xmm0<|{k1}{z}>, xmm16, xmm5"},
	{"AVX512F", "runs", "vmovss xmm0{k1}, dword ptr [rbx+4]; vmovsd [rbx+8]{k1}, xmm0"},
	{"AVX512F", "runs", "v<add|mul>ps zmm0, zmm1, zmm2, {<rn|rd|ru|rz>-sae}"},
	{"AVX512F AVX512VL", "runs", "vp<cmp|cmpu><d|q> k2<|{k1}>, %mm0, <%mm1|[rbx]>, 1"},
	{"AVX512F AVX512BW AVX512VL", "runs", "vptest<m|nm><b|w|d|q> k3, %mm0, [rbx]"},
	{"AVX512F AVX512VL", "runs", "vcmp<ps|pd> k4{k5}, %mm3, [rbx+0x40], 2"},
	{"AVX512F", "runs", "k<and|or|xor|xnor|andn>w k1, k2, k3; kortestw k1, k1"},
	{"AVX512F AVX512BW", "runs", "kmov<b|w|d|q> k1, [rbx]; kmov<b|w|d|q> [rbx+8], k1"},
	{"AVX512F AVX512BW AVX512DQ", "runs", "<knotb k1, k2|knotw k1, k2|knotd k3, k4|knotq k5, k6|kshiftlb k1, k2, 3|kshiftrw k1, k2, 3|" +
		"kshiftld k1, k2, 3|kshiftrq k1, k2, 3>"},
	{"AVX512F AVX512BW", "runs", "kunpck<bw|wd|dq> k1, k2, k3; kadd<w|d|q> k4, k1, k1"},
	{"AVX512F AVX512VL", "runs", "vpmov<|s|us><qb|qw|qd|db|dw> [rbx]<|{k1}>, %mm2"},
	{"AVX512F AVX512BW AVX512VL", "runs", "vpmovzx<bw|bd|bq|wd|wq|dq> %mm2, <xmm3|[rbx+0x20]>"},
	{"AVX512F AVX512VL", "runs", "mov eax, 0x25; kmovw k1, eax; v<pcompressd|compressps> [rbx]{k1}, %mm1"},
	{"AVX512F AVX512VL", "runs", "mov eax, 0x25; kmovw k1, eax; v<pexpandd|expandpd> %mm1{k1}{z}, [rbx]"},
	{"AVX512F AVX512DQ AVX512VL", "runs", "vextract<f32x4|i64x2> [rbx+0x10], <y|z>mm1, 1"},
	{"AVX512F AVX512DQ", "runs", "v<insertf32x4|inserti64x2> zmm0<|{k1}>, zmm1, [rbx], 1; vextractf64x4 [rbx+0x40], zmm0, 1"},
	{"AVX512F AVX512DQ", "runs", "vbroadcast<ss zmm1, dword ptr|sd zmm2, qword ptr|f32x4 zmm3, xmmword ptr|i64x4 zmm4, ymmword ptr|" +
		"i32x2 zmm5, qword ptr> [rbx]"},
	{"AVX512F", "runs", "v<rndscale|getmant>p<s|d> zmm0, [rbx], 1"},
	{"AVX512F", "runs", "v<getexp|rcp14|rsqrt14|sqrt>p<s|d> zmm0, [rbx]"},
	{"AVX512F AVX512DQ", "runs", "v<range|fixupimm>p<s|d> zmm0, zmm1, [rbx], 4"},
	{"AVX512F", "runs", "vscalefp<s|d> zmm0, zmm1, [rbx]; valign<d|q> zmm3, zmm0, [rbx+0x40], 3"},
	{"AVX512CD AVX512VL", "runs", "vp<conflict|lzcnt><d|q> %mm0, [rbx]"},
	{"AVX512BW AVX512VL", "runs", "vp<addb|subw|maxub|avgw|mulhrsw|shufb|unpcklbw|sadbw|maddwd|permw> %mm0, %mm1, [rbx]"},
	{"AVX512VNNI AVX512VL", "runs", "vpdp<busd|wssd|busds> %mm0, %mm17, [rbx]"},
	{"AVX512F", "runs", "vcvt<dq2ps|ps2dq|tps2dq|ps2udq|udq2ps> zmm0, [rbx]; vcvt<ps2pd zmm1|dq2pd zmm1|udq2pd zmm1>, ymmword ptr [rbx]"},
	{"AVX512F", "runs", "vcvtsi2s<s|d> xmm16, xmm17, <rax|qword ptr [rbx]>; vcvtts<s|d>2si rax, xmm18"},
	{"AVX512F", "runs", "vp<sll|srl|sra><d|q> zmm0, zmm1, <7|xmm2|xmmword ptr [rbx]>"},
	{"AVX512F", "runs", "vp<rol|ror><d|q> zmm0, <zmm1|[rbx]>, 7; vp<sllv|srav><d|q> zmm1, zmm0, [rbx]"},

	// Gathers and scatters.
	{"AVX512F AVX512VL", "runs", "kxnorw k1, k0, k0; v<pgatherdd|gatherdps> %mm0{k1}, [rbx+%mm1*<1|4>+<0|0x40>]"},
	{"AVX512F", "runs", "mov eax, 0x1b; kmovw k1, eax; v<pgatherdq|gatherdpd> zmm0{k1}, [rbx+ymm17*8]"},
	{"AVX512F", "runs", "mov eax, 0x1b; kmovw k1, eax; v<pgatherqd|gatherqps> ymm0{k1}, [rbx+zmm17*8+0x20]"},
	{"AVX512F AVX512VL", "runs", "kxnorw k2, k0, k0; v<pscatterdd|scatterdps> [rbx+%mm30*<1|2>-0x40]{k2}, %mm3"},
	{"AVX512F AVX512VL", "runs", "kxnorw k2, k0, k0; v<pscatterqq|scatterqpd> [rbx+%mm30*8]{k2}, %mm3"},
	{"AVX2", "runs", "vpcmpeqd <xmm2, xmm2, xmm2|ymm2, ymm2, ymm2>; v<pgatherdd|gatherdps> <xmm0, [rbx+xmm1*4+8], xmm2|ymm0, [rbx+ymm1*2-8], ymm2>"},
	{"AVX2", "runs", "vpcmpeqd ymm12, ymm12, ymm12; v<pgatherdq|gatherdpd> ymm0, [rbx+xmm9*<1|8>], ymm12"},
	{"AVX2", "runs", "vpcmpeqd xmm12, xmm12, xmm12; v<pgatherqd|gatherqps> xmm0, [rbx+ymm9*4], xmm12"},
	{"AVX2", "runs", "v<pgatherdd|gatherdps> xmm0, [rbx+xmm1*4], xmm2"},

	// Masked by a vector.
	{"AVX2", "runs", "vpcmpeqd ymm1, ymm1, ymm1; v<maskmovps|maskmovpd|pmaskmovd|pmaskmovq> <xmm0, xmm1, [rbx]|" +
		"ymm0, ymm1, [rbx]|[rbx], xmm1, xmm0|[rbx], ymm1, ymm0>"},
	{"AVX", "runs", "v<maskmovps|maskmovpd> <xmm0, xmm1, [rbx]|[rbx], ymm1, ymm0>"},
	{"-", "runs", "pcmpeqd xmm1, xmm1; maskmovdqu <xmm0|xmm9>, xmm1"},
	{"-", "runs", "pcmpeqd mm1, mm1; maskmovq <mm0|mm7>, mm1"},

	// Rip-relative.
	{"-", "runs", "<mov rax, |add rax, |xor ecx, |cmp edx, |test edi, |imul r8, |movzx esi, word ptr |movsxd r9, dword ptr |" +
		"cmovz rbx, >[rip+<0|0x40|-0x200>]"},
	{"-", "runs", "<mov [rip+0x80], rax|add dword ptr [rip+0x80], 0x1234|mov word ptr [rip+0x80], 7|inc byte ptr [rip+0x80]|" +
		"lock xadd [rip+0x80], rcx|push qword ptr [rip+0x80]; pop rax|lea rax, [rip+0x80]|" +
		"shl qword ptr [rip+0x80], 3|sete byte ptr [rip+0x80]>"},
	{"-", "runs", "<movaps xmm0, [rip+0x39]|movups [rip+0x40], xmm0|pshufd xmm0, [rip+0x37], 0x1b|" +
		"mulsd xmm0, qword ptr [rip+0x40]|cvtsi2sd xmm0, dword ptr [rip+0x40]>"},
	{"AVX", "runs", "<vaddps ymm0, ymm1, [rip+0x40]|vmovups [rip+0x40], ymm0|vpshufd xmm0, [rip+0x40], 0x1b|vblendps ymm0, ymm1, [rip+0x40], 5>"},
	{"-", "runs", "mov eax, [eip+0x40]"},

	// String operations.
	{"-", "runs", "<movs|stos|lods|scas|cmps><b|w|d|q>"},
	{"-", "runs", "std; <movs|stos|lods|scas><b|q>; cld"},
	{"-", "runs", "mov ecx, <0|1|5|100>; rep <movs|stos|lods><b|w|d|q>"},
	{"-", "runs", "mov ecx, <0|3|9>; <repe|repne> <cmps|scas><b|d|q>"},
	{"-", "runs", "std; mov ecx, 7; rep <movs|stos><b|d>; cld"},
	{"-", "runs", "<fs|gs> lods<b|w|d|q>"},
	{"-", "runs", "mov ecx, 3; addr32 rep <movsb|stosd>"},
	{"-", "too_many_pages", "mov ecx, 0x12345600; rep stosb"},

	// x87, balanced.
	{"-", "runs", "fld <dword|qword|tbyte> ptr [rbx]; <fadd|fmul|fsub|fsubr|fdiv|fdivr> <dword|qword> ptr [rbx+8]; " +
		"fstp <dword|qword|tbyte> ptr [rbx+0x10]"},
	{"-", "runs", "fild <word|dword|qword> ptr [rbx]; <fiadd|fimul|ficom> <word|dword> ptr [rbx+8]; fistp <word|dword|qword> ptr [rbx+0x10]"},
	{"-", "runs", "<fchs|fabs|fsqrt|frndint|fsin|fcos|f2xm1|ftst|fxam|fprem|fprem1|fscale>"},
	{"-", "runs", "<fld1|fldz|fldpi|fldl2e|fldl2t|fldlg2|fldln2>; <faddp|fmulp|fsubp|fsubrp|fdivp|fdivrp> st(1), st"},
	{"-", "runs", "<fadd|fmul|fxch|fcom|fucom|fcomi|fucomi|fcmovb|fcmovnu|fst> <st(1)|st(3)>"},
	{"-", "runs", "fld1; <fyl2x|fpatan|fyl2xp1>"},
	{"-", "runs", "<fptan|fsincos|fxtract>; fstp st(0)"},
	{"-", "runs", "fld st(<0|2>); <fcompp|fucompp>; fld1"},
	{"-", "runs", "<fnstcw [rbx]|fldcw [rbx]|fnstsw [rbx]|fnstsw ax|fnclex|fnop|fwait|fnstenv [rbx]|fnsave [rbx]|fninit|fincstp; fdecstp>"},
	{"-", "runs", "fld1; fbstp [rbx]; fbld [rbx]; fstp st(0)"},
	{"-", "x87_stack", "<fld1|fstp st(0)|fld qword ptr [rbx]>"},

	// MMX.
	{"-", "runs", "movq mm0, [rbx]; <paddb|psubw|pmaddwd|pmullw|pand|pcmpeqb|psrlq|packuswb|punpcklbw> mm0, <mm1|[rbx+8]>; movq [rbx+0x10], mm0"},
	{"-", "runs", "<movd mm3, eax|movd [rbx], mm3|movntq [rbx], mm4|pshufw mm0, [rbx], 0x1b|cvtpi2ps xmm0, [rbx]|" +
		"cvtps2pi mm0, [rbx]|pmovmskb eax, mm1|pinsrw mm1, [rbx], 2>"},
	{"-", "runs", "paddb mm0, mm1; emms"},

	// fs and gs.
	{"-", "runs", "<mov rax, |add rcx, |movzx edx, byte ptr |cmp rdi, ><fs:[0x28]|gs:[0]|fs:[rbx]|gs:[rcx*4+8]|fs:[eax]>"},
	{"-", "runs", "<mov fs:[0x40], rax|xor dword ptr gs:[rbx], 5|push qword ptr fs:[0x28]; pop rcx|movups xmm0, gs:[0x30]>"},

	// Odd addressing: bits, tables, the stack.
	{"-", "runs", "xlatb"},
	{"-", "runs", "<bt|bts|btr|btc> <word ptr [rbx], cx|dword ptr [rbx], ecx|qword ptr [rbx], rcx|qword ptr [rbx], 63>"},
	{"-", "runs", "mov ecx, <0x100|-3>; lock bts dword ptr [rbx], ecx"},
	{"-", "runs", "<push|pop> <rax|rsp|r12|ax|qword ptr [rbx]|qword ptr [rsp+8]|word ptr [rsp]>"},
	{"-", "runs", "<push 1|push 0x12345678|pushw 7|pushf|push rbp; mov rbp, rsp; leave|mov rbp, rsp; leave; push rax|push fs|pop rax; push rax>"},
	{"-", "runs", "pushf; <pop rax|popf>"},
	{"-", "runs", "popf"},
	{"-", "runs", "xchg <al, [rbx]|[rbx+8], rcx|rax, r8>; <cmpxchg [rbx], rcx|lock cmpxchg [rbx], ecx|xadd [rbx], al|" +
		"cmpxchg8b [rbx]|lock inc qword ptr [rbx]>"},
	{"CX16", "runs", "<|lock >cmpxchg16b [rbx]"},
	{"-", "runs", "<fxsave|fxsave64> [rbx]"},
	{"-", "runs", "fxsave [rbx]; fxrstor [rbx]"},
	{"-", "runs", "<stmxcsr [rbx]|stmxcsr [rbx]; ldmxcsr [rbx]|movnti [rbx], eax|movntps [rbx], xmm0|" +
		"movntdq [rbx+0x10], xmm1|sfence|lfence|mfence|clflush [rbx]|prefetcht0 [rbx]|pause>"},

	// BMI, ADX and other extensions of the general registers.
	{"BMI1", "runs", "<andn rax, rbx, [rbx]|bextr eax, [rbx], ecx|blsi rax, [rbx+8]|blsr ecx, [rip+0x40]|blsmsk rdx, fs:[0x40]|" +
		"tzcnt rax, [rbx]|andn eax, ebx, ecx>"},
	{"BMI2", "runs", "<pdep rax, rbx, [rbx]|pext eax, ecx, [rbx]|bzhi rax, [rbx], rcx|mulx r8, r9, [rbx]|rorx rax, [rbx], 7|" +
		"shlx eax, [rbx], ecx|sarx rax, [rip+0x40], rbx|shrx rax, fs:[0x40], rdx>"},
	{"ADX", "runs", "<adcx|adox> <rax, rbx|r8d, ecx|rax, [rbx]|ecx, [rip+0x40]>"},
	{"-", "runs", "<popcnt|lzcnt|bsf|bsr> <rax, rbx|rcx, [rbx]|r8w, [rip+0x40]|edx, fs:[0x40]>"},
	{"-", "runs", "<movbe eax, [rbx]|movbe [rbx], rcx|crc32 eax, byte ptr [rbx]|crc32 rax, qword ptr [rip+0x40]|bswap r9|" +
		"shld [rbx], rax, 5|shrd dword ptr [rbx], ecx, cl|rcl qword ptr [rbx], 3|sahf|lahf|cmc|cbw|cqo>"},
	{"AESNI CLMUL", "runs", "<aesenc|aesdeclast|aesimc> xmm0, [rbx]; pclmulqdq xmm0, [rbx+0x10], 0x11"},
	{"-", "runs", "<pcmpistri|pcmpestrm> xmm0, [rbx], 0xc; <pblendvb|blendvps> xmm1, [rbx]; <mpsadbw|dppd> xmm2, [rbx], 1"},
	{"-", "runs", "<movhps xmm0, [rbx]|movlpd [rbx], xmm0|movddup xmm0, [rbx]|insertps xmm0, [rbx], 0x10|" +
		"extractps [rbx], xmm0, 2|pextrb [rbx], xmm1, 3|pinsrq xmm2, [rbx], 1|lddqu xmm3, [rbx+1]|" +
		"movntdqa xmm4, [rbx]|movq [rbx], xmm5>"},
	{"AVX", "runs", "<vzeroupper|vzeroall|vbroadcastss ymm0, [rbx]|vextractf128 [rbx+0x10], ymm0, 1|" +
		"vinsertf128 ymm1, ymm1, [rbx], 1|vstmxcsr [rbx]|vpermilps ymm0, [rbx], 0x1b|vtestps ymm0, [rbx]|" +
		"vmovntdq [rbx+0x20], ymm2>"},
	{"F16C", "runs", "vcvtph2ps ymm0, [rbx]; vcvtps2ph [rbx+0x40], ymm0, 0"},
	{"FMA3", "runs", "vf<madd132|msub213|nmadd231><ss xmm0, xmm1, dword ptr|pd ymm0, ymm1,> [rbx]"},

	// What does not run, and why.
	{"-", "sigfpe", "xor ecx, ecx; div ecx"},
	{"-", "unaligned_operand", "and rbx, -16; movaps xmm0, [rbx+8]"},
	{"-", "unmappable", "mov rbx, -8; mov rax, [rbx]"},
	{"-", "unmappable", "mov rbx, 0x8000000000000000; mov rax, [rbx]"},
	{"-", "sigbus", "push 0x40246; popf; mov rax, [rbx+1]"},
	{"-", "nondeterministic", "<rdtsc|cpuid|rdrand rax>"},
	{"-", "syscall", "syscall"},
	{"-", "sigsegv", "mov dword ptr [rbx], 0xffff0000; ldmxcsr [rbx]"}, // reserved bits
	{"-", "privileged", "cli"},
}

func main() {
	dir, err := os.MkdirTemp("", "blocks-own")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fmt.Println("hex,expect,needs,text")
	seen := map[string]bool{}
	for _, f := range families {
		n := 0
		for _, text := range f.blocks() {
			code := assemble(dir, text)
			if code == nil || seen[string(code)] {
				continue
			}
			seen[string(code)] = true
			n++
			fmt.Printf("%x,%s,%s,%q\n", code, f.expect, f.needs, text)
		}
		if n == 0 {
			log.Fatalf("nothing of %q assembles", f.text)
		}
	}
}

// blocks expands a template.
func (f family) blocks() (list []string) {
	if !strings.Contains(f.text, "%") {
		return expand(f.text)
	}
	for _, length := range []string{"x", "y", "z"} {
		list = append(list, expand(strings.ReplaceAll(f.text, "%", length))...)
	}
	return list
}

func expand(text string) (list []string) {
	from, to := strings.Index(text, "<"), strings.Index(text, ">")
	if from < 0 {
		return []string{text}
	}
	for choice := range strings.SplitSeq(text[from+1:to], "|") {
		list = append(list, expand(text[:from]+choice+text[to+1:])...)
	}
	return list
}

// assemble gives a block's bytes, nil if the assembler refuses it.
func assemble(dir, text string) []byte {
	object := filepath.Join(dir, "block.o")
	as := exec.Command("as", "--64", "-o", object, "-")
	as.Stdin = strings.NewReader(".intel_syntax noprefix\n" + strings.ReplaceAll(text, ";", "\n") + "\n")
	var complaint bytes.Buffer
	as.Stderr = &complaint
	if err := as.Run(); err != nil {
		if complaint.Len() == 0 {
			log.Fatal(err) // no assembler, not a refusal
		}
		return nil
	}
	file, err := elf.Open(object)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	code, err := file.Section(".text").Data()
	if err != nil {
		log.Fatal(err)
	}
	return code
}
