package profiler

import (
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// A masked access has its pages whatever the mask, and so is measured and not the microcode assist
// for one whose fault the mask suppresses, which takes 36 to 330 cycles on Redwood Cove.
func TestMaskedAccesses(t *testing.T) {
	const assist = 20 // fewer cycles than any assist takes, more than any of these accesses
	p := start(t, Options{Budget: 100 * time.Millisecond})
	const avx, avx512 = "AVX2", "AVX512BW"
	const noMask = "c5f447c9" // kxorw k1, k1, k1
	for _, c := range []struct{ name, hex, needs string }{
		{"vmovups zmm0{k1}{z}, [rdi]", "62f17cc91007", avx512},
		{"vmovups zmm0{k1}{z}, [rdi] without a mask bit", noMask + "62f17cc91007", avx512},
		{"vmovups [rdi]{k1}, zmm0", "62f17c491107", avx512},
		{"vmovups [rdi]{k1}, zmm0 without a mask bit", noMask + "62f17c491107", avx512},
		{"vaddps zmm0{k1}, zmm0, [rdi]{1to16} without a mask bit", noMask + "62f17c595807", avx512},
		{"vexpandps zmm0{k1}, [rdi]", "62f27d498807", avx512},
		{"vexpandps zmm0{k1}, [rdi] without a mask bit", noMask + "62f27d498807", avx512},
		{"vcompressps [rdi]{k1}, zmm0", "62f27d498a07", avx512},
		{"vcompressps [rdi]{k1}, zmm0 without a mask bit", noMask + "62f27d498a07", avx512},
		{"vpmovqd [rdi]{k1}, zmm0 without a mask bit", noMask + "62f27e493507", avx512},
		{"vgatherdps zmm0{k1}, [rdi+zmm2]", "62f27d49920417", avx512},
		{"vscatterdps [rdi+zmm2]{k1}, zmm0", "62f27d49a20417", avx512},
		{"vmaskmovps ymm0, ymm1, [rdi]", "c4e2752c07", avx},
		{"vmaskmovps [rdi], ymm1, ymm0", "c4e2752e07", avx},
		{"vmaskmovpd xmm0, xmm1, [rdi]", "c4e2712d07", avx},
		{"vmaskmovpd [rdi], xmm1, xmm0", "c4e2712f07", avx},
		{"vpmaskmovd ymm0, ymm1, [rdi]", "c4e2758c07", avx},
		{"vpmaskmovq [rdi], ymm1, ymm0", "c4e2f58e07", avx},
		{"vpmaskmovd ymm0, ymm1, fs:[rdi-8]", "64c4e2758c47f8", avx},
		{"vpmaskmovd ymm0, ymm1, [rip+0x2000]", "c4e2758c0500200000", avx},
		{"vmaskmovdqu xmm0, xmm1", "c5f9f7c1", avx},
		{"maskmovdqu xmm0, xmm1", "660ff7c1", ""},
		{"maskmovq mm0, mm1", "0ff7c1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != "" && len(host.Missing([]string{c.needs})) > 0 {
				require.Skip(t, require.CPU, "this CPU has no %s", c.needs)
			}
			r, err := p.Profile(t.Context(), Block{Code: unhex(t, c.hex)})
			if err != nil {
				t.Fatal(err)
			}
			if r.Pages == 0 || r.Cycles > assist { // a rejection for noise has its pages, and no cycles
				t.Errorf("%d pages, %.1f cycles (%s %v); want its page mapped, and no assist", r.Pages, r.Cycles, r.Status, r.Rejection)
			}
		})
	}
	for _, c := range []struct{ name, hex string }{
		{"not canonical", "48b80000000000008000c4e2752c00"},
		{"bbprof's own", "48b80000000000600000c4e2752c00"},
		{"the kernel's", "48c7c000f0ffffc4e2752e00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(host.Missing([]string{avx})) > 0 {
				require.Skip(t, require.CPU, "this CPU has no %s", avx)
			}
			r, err := p.Profile(t.Context(), Block{Code: unhex(t, c.hex)})
			if err != nil || r.Rejection == nil || r.Rejection.Reason != verdict.Unmappable {
				t.Errorf("%s: %+v, %v; want it rejected as unmappable", r.Status, r.Rejection, err)
			}
		})
	}
}
