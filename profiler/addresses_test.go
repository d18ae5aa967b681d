package profiler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// describe writes a load of 4 bytes, 0x40 beyond the paper's register value, as "r4+40", and a rep store as "w2×3-4".
func describe(accesses []asm.Access, from int) string {
	base := initial.Paper().GPR[asm.RBX]
	var s []string
	for _, a := range accesses {
		if a.Inst < from {
			continue
		}
		d := map[bool]string{true: "r"}[a.Read] + map[bool]string{true: "w"}[a.Write] + fmt.Sprint(a.Elem)
		if a.Width != a.Elem {
			d += fmt.Sprintf("×%d", a.Width/a.Elem)
		}
		switch offset := int64(a.Addr - base); {
		case a.Addr >= layout.Home:
			d += fmt.Sprintf(" home%+x", a.Addr-layout.Home)
		case a.Addr-initial.Paper().FSBase < 1<<16:
			d += fmt.Sprintf(" fs%+x", a.Addr-initial.Paper().FSBase)
		default:
			d += fmt.Sprintf("%+x", offset)
		}
		s = append(s, d)
	}
	return strings.Join(s, " ")
}

// TestAddresses compares the log of operands that single steps cannot follow with addresses computed by hand.
func TestAddresses(t *testing.T) {
	// The doublewords 0x40, -0x80, 0x1000 and 8 at [rbx], seen as indices.
	const indices = "c70340000000 c7430480ffffff c7430800100000 c7430c08000000"
	const (
		always = iota
		avx2
		avx512
	)
	b := openBench(t)
	for _, c := range []struct {
		name, hex string
		from      int // ignore accesses of earlier instructions
		needs     int
		want      string
	}{
		// Gathers and scatters: an access for each enabled element, at base + index · scale.
		{"vpgatherdd xmm0, [rbx+xmm1*2+0x100], all but the lowest", indices + "c5fa6f0b c5e976d2 c5e973fa04 c4e26990844b00010000", 7, avx2,
			"r4+0 r4+2100 r4+110"},
		{"vpgatherqd xmm0, [rbx+xmm1], of two quadwords", "48c70340000000 48c7430880ffffff c5fa6f0b c5e976d2 c4e26991040b", 4, avx2, "r4+40 r4-80"},
		{"vpgatherdq ymm0, fs:[rbx+xmm1*8-0x12345600]", "c5f1efc9 c5ed76d2 64c4e2ed9084cb00aacbed", 2, avx2, "r8 fs+0 r8 fs+0 r8 fs+0 r8 fs+0"},
		{"vgatherqps xmm0, [rbx+ymm1*4] with its four elements", "c5f157c9 c5ed76d2 c4e26d93048b", 2, avx2, "r4+0 r4+0 r4+0 r4+0"},
		{"vgatherdpd ymm0, [ebx+xmm1*8], index -1", "c5f176c9 c5ed76d2 67c4e2ed9204cb", 2, avx2, "r8-8 r8-8 r8-8 r8-8"},
		{"vpgatherdd xmm0, [rbx+xmm1*4], the top bit of element 1 alone", "c7431080000000 c7431400000080 c5fa6f5310 c4e26990048b", 3, avx2, "r4+0"},
		{"vpgatherdd xmm0, [rbx+xmm9*2], xmm10", "b820000000 c5796ec8 c7431000000080 c57a6f5310 c4a22990044b", 4, avx2, "r4+40"},
		{"vpgatherdd without a mask bit", "c5e9efd2 c4e26990040b", 0, avx2, ""},
		{"vpgatherdd xmm0{k1}, [rbx+xmm1*2+0x40], elements 0 and 2, compressed displacement",
			indices + "c5fa6f0b b805000000 c5f892c8 62f27d0990444b10", 7, avx512,
			"r4+c0 r4+2040"},
		{"vpscatterdd [rbx+xmm17*2+0x40]{k3}, xmm16, elements 1 and 3", indices + "62e17e086f0b b80a000000 c5f892d8 62e27d03a0444b10", 7, avx512,
			"w4-c0 w4+50"},
		{"vpgatherqq zmm0{k1}, [rbx+zmm31*8+0x80], element 0", "b801000000 c5f892c8 62b2fd419144fb10", 2, avx512, "r8+80"},

		// Masked: whole, or not at all. Only the mask's bits for elements that are there count.
		{"vmovdqu32 xmm0{k1}, [rbx], bits above", "b8f0000000 c5f892c8 62f17e096f03", 0, avx512, ""},
		{"vmovdqu32 xmm0{k1}, [rbx], the last", "b808000000 c5f892c8 62f17e096f03", 0, avx512, "r16+0"},
		{"vmovss [rbx]{k1}, xmm0, bit 1", "b802000000 c5f892c8 62f17e091103", 0, avx512, ""},
		{"vmovss [rbx]{k1}, xmm0, bit 0", "b801000000 c5f892c8 62f17e091103", 0, avx512, "w4+0"},
		{"vpaddq zmm0{k1}, zmm1, [rbx]{1to8}, bit 8", "b800010000 c5f892c8 62f1f559d403", 0, avx512, ""},
		{"vpaddq zmm0{k1}, zmm1, [rbx]{1to8}, bit 7", "b880000000 c5f892c8 62f1f559d403", 0, avx512, "r8+0"},
		{"vmaskmovps xmm0, xmm1, [rbx], bit 7", "b880000000 c5f96ec8 c4e2712c03", 0, avx2, ""},
		{"vmaskmovps xmm0, xmm1, [rbx], bit 31", "b800000080 c5f96ec8 c4e2712c03", 0, avx2, "r16+0"},
		{"vmaskmovpd xmm0, xmm1, [rbx], bit 31", "b800000080 c5f96ec8 c4e2712d03", 0, avx2, ""},
		{"vpmaskmovd [rbx], xmm1, xmm0, bit 31", "b800000080 c5f96ec8 c4e2718e03", 0, avx2, "w16+0"},
		{"maskmovdqu xmm0, xmm1, bit 7", "b880000000 660f6ec8 660ff7c1", 0, always, "w16+0"},
		{"maskmovdqu xmm0, xmm1, all other bits", "b87f7f7f7f 660f6ec8 660ff7c1", 0, always, ""},
		{"maskmovq mm0, mm1, bit 7", "b880000000 0f6ec8 0ff7c1 0f77", 0, always, "w8+0"},
		{"maskmovq mm0, mm1, all other bits", "b87f7f7f7f 0f6ec8 0ff7c1 0f77", 0, always, ""},

		// String operations: the lowest address, and how many elements.
		{"movsq", "48a5", 0, always, "r8+0 w8+0"},
		{"lodsq gs:[rsi]", "6548ad", 0, always, fmt.Sprintf("r8%+x", initial.Paper().GSBase)},
		{"rep movsq, 3", "b903000000 f348a5", 0, always, "r8×3+0 w8×3+0"},
		{"std; rep stosw, 3; cld", "b903000000 fd 66f3ab fc", 0, always, "w2×3-4"},
		{"std; stosd; cld; stosd", "fd ab fc ab", 0, always, "w4+0 w4-4"},
		{"std; rep stosd, 2; cld; rep stosd, 2", "b902000000 fd f3ab fc b902000000 f3ab", 0, always, "w4×2-4 w4×2-8"},
		{"rep movsb, none", "b900000000 f3a4", 0, always, ""},
		{"rep movsb, one", "b901000000 f3a4", 0, always, "r1+0 w1+0"},
		{"repe cmpsb, 5 equal", "b905000000 f3a6", 0, always, "r1×5+0 r1×5+0"},
		{"repe cmpsb of 5, the third differs", "b905000000 488d7f40 c6470277 f3a6", 3, always, "r1×3+0 r1×3+40"},
		{"repne scasb of 9, the fourth is equal", "b909000000 b012 f2ae", 2, always, "r1×4+0"},
		{"rep lodsd, ecx under 67", "48b90200000001000000 67f3ad", 0, always, "r4×2+0"},

		// Addresses that depend on more than base and index.
		{"xlatb, al = 0xff", "b0ff d7", 0, always, "r1+ff"},
		{"xlatb, al = 0", "d7", 0, always, "r1+0"},
		{"bt [rbx], rcx = -1", "48c7c1ffffffff 480fa30b", 0, always, "r8-8"},
		{"bts qword [rbx], 64", "48c7c140000000 480fab0b", 0, always, "rw8+8"},
		{"bts qword [rbx], 63", "48c7c13f000000 480fab0b", 0, always, "rw8+0"},
		{"btr dword [rbx], -33", "b9dfffffff 0fb30b", 0, always, "rw4-8"},
		{"btc word [rbx], cx = -32768", "b900800000 660fbb0b", 0, always, "rw2-1000"},
		{"bt [rax+0x40], rax, which the log borrows", "480fa34040", 0, always, "r8+2468b00"},
		{"pop [rax], which the log borrows", "488d4040 8f00", 0, always, "r8+0 w8+40"},
		{"mov ecx, [eax+ebx], eax = -8", "48c7c0f8ffffff 678b0c18", 0, always, "r4-8"},
		{"mov ecx, [eax+ebx], with more than eax in rax", "48b80800000001000000 678b0c18", 0, always, "r4+8"},
		{"mov rdx, [rip+0x100]", "488b1500010000", 0, always, "r8 home+10a"},
		{"lea rax, [rip]; mov rcx, [rax]", "488d0500000000 488b08", 0, always, "r8 home+a"},
		{"pop [rsp+8]", "8f442408", 0, always, "r8+0 w8+10"},
		{"push [rsp+8]", "ff742408", 0, always, "r8+8 w8-8"},
		{"leave", "c9", 0, always, "r8+0"},
	} {
		if has := host.Detect(); c.needs == avx512 && !has.Features.AVX512 || c.needs == avx2 && !has.Features.AVX {
			t.Logf("%s: not on this CPU", c.name)
			continue
		}
		const touch = "f60300" // test byte [rbx], 0: without any page nothing is traced
		r, err := b.block(unhex(t, touch+c.hex), initial.Paper(), layout.MaxFrames, 1)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		require.Equal(t, c.name, c.want, describe(r.Trace.Accesses, c.from+1))
		if d, ok := b.sameState(r); !ok || d != "" {
			t.Errorf("%s: plain and instrumented: %s", c.name, d)
		}
	}
}

// The pages of a masked access are mapped for any mask. So it takes about as long with all elements suppressed as with none, and without
// the microcode assist for a suppressed fault, which takes 36 to 330 cycles on Redwood Cove.
func TestMaskedAccesses(t *testing.T) {
	require.Slow(t)
	const assist = 20 // fewer cycles than any assist takes
	// Microcode takes other times from one layout to the next, which is not what is tested.
	p := start(t, Options{Budget: 100 * time.Millisecond, Tolerate: []verdict.Reason{verdict.Nonlinear}})
	const avx, avx512 = "AVX2", "AVX512BW"
	const none, all, allYMM = "c5f447c9", "c5f446c9", "c5f576c9" // kxorw k1, k1, k1; kxnorw k1, k1, k1; vpcmpeqd ymm1, ymm1, ymm1
	for _, c := range []struct{ name, none, all, hex, needs string }{
		{"vmovups zmm0{k1}{z}, [rdi]", none, all, "62f17cc91007", avx512},
		{"vmovups [rdi]{k1}, zmm0", none, all, "62f17c491107", avx512},
		{"vaddps zmm0{k1}, zmm0, [rdi]{1to16}", none, all, "62f17c595807", avx512},
		{"vexpandps zmm0{k1}, [rdi]", none, all, "62f27d498807", avx512},
		{"vcompressps [rdi]{k1}, zmm0", none, all, "62f27d498a07", avx512},
		{"vpmovqd [rdi]{k1}, zmm0", none, all, "62f27e493507", avx512},
		{"vgatherdps zmm0{k1}, [rdi+zmm2]", "", all, "62f27d49920417", avx512},
		{"vscatterdps [rdi+zmm2]{k1}, zmm0", "", all, "62f27d49a20417", avx512},
		{"vmaskmovps ymm0, ymm1, [rdi]", "", allYMM, "c4e2752c07", avx},
		{"vmaskmovps [rdi], ymm1, ymm0", "", allYMM, "c4e2752e07", avx},
		{"vmaskmovpd xmm0, xmm1, [rdi]", "", allYMM, "c4e2712d07", avx},
		{"vmaskmovpd [rdi], xmm1, xmm0", "", allYMM, "c4e2712f07", avx},
		{"vpmaskmovd ymm0, ymm1, [rdi]", "", allYMM, "c4e2758c07", avx},
		{"vpmaskmovq [rdi], ymm1, ymm0", "", allYMM, "c4e2f58e07", avx},
		{"vpmaskmovd ymm0, ymm1, fs:[rdi-0x20]", "", allYMM, "64c4e2758c47e0", avx},
		{"vpmaskmovd ymm0, ymm1, [rip+0x2000]", "", allYMM, "c4e2758c0500200000", avx},
		{"vmaskmovdqu xmm0, xmm1", "", allYMM, "c5f9f7c1", avx},
		{"maskmovdqu xmm0, xmm1", "", "660f74c9", "660ff7c1", ""}, // pcmpeqb xmm1, xmm1
		{"maskmovq mm0, mm1", "", "0f74c9", "0ff7c1", ""},         // pcmpeqb mm1, mm1
	} { // of none "": the first gather or scatter leaves k1 zero, and no element of the initial ymm1 has its sign
		if c.needs != "" && len(host.Missing([]string{c.needs})) > 0 {
			t.Logf("%s: this CPU has no %s", c.name, c.needs)
			continue
		}
		var cycles [2]float64
		for i, mask := range []string{c.none, c.all} {
			r := require.Get(p.Profile(t.Context(), Block{Code: unhex(t, mask+c.hex)}))(t)
			if r.Pages == 0 || r.Status != OK && !r.Reason.Noise() { // a rejection for noise has its pages, and no cycles
				t.Errorf("%s%s: %d pages (%s %v); want its page mapped", mask, c.hex, r.Pages, r.Status, r.Rejection)
			}
			cycles[i] = r.Cycles
		}
		if none, all := cycles[0], cycles[1]; all > 0 && none > all+assist {
			t.Errorf("%s: %.1f cycles with all of it suppressed, %.1f with nothing: an assist", c.name, none, all)
		}
	}
	if len(host.Missing([]string{avx})) > 0 {
		require.Skip(t, require.CPU, "this CPU has no %s", avx)
	}
	for name, hex := range map[string]string{
		"not canonical": "48b80000000000008000c4e2752c00", "bbprof's own": "48b80000000000600000c4e2752c00", "the kernel's": "48c7c000f0ffffc4e2752e00",
	} {
		if r, err := p.Profile(t.Context(), Block{Code: unhex(t, hex)}); err != nil || r.Reason != verdict.Unmappable {
			t.Errorf("%s: %s %+v, %v; want it rejected as unmappable", name, r.Status, r.Rejection, err)
		}
	}
}
