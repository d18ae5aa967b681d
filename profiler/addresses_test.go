package profiler

import (
	"fmt"
	"strconv"
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
	b := openBench(t)
	has := host.Detect().Features
	for _, row := range require.Table(t, "addresses.txt") {
		code, cpus, want, name := row[0], row[2], row[3], row[4]
		if cpus == "avx512" && !has.AVX512 || cpus == "avx2" && !has.AVX {
			t.Logf("%s: not on this CPU", name)
			continue
		}
		const touch = "f60300" // test byte [rbx], 0: without any page nothing is traced
		r, err := b.block(unhex(t, touch+code), initial.Paper(), layout.MaxFrames, 1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		from := require.Get(strconv.Atoi(row[1]))(t)
		require.Equal(t, name, want, describe(r.Trace.Accesses, from+1))
		if d, ok := b.sameState(r); !ok || d != "" {
			t.Errorf("%s: plain and instrumented: %s", name, d)
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
