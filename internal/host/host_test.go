package host

import (
	"runtime"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/unroll"
)

func TestGeometryByModel(t *testing.T) {
	small := unroll.OpCache{Lines: 256, OpsPerLine: 6, Window: 32}
	iceLake := unroll.OpCache{Lines: 384, OpsPerLine: 6, Window: 64}
	goldenCove := unroll.OpCache{Lines: 512, OpsPerLine: 8, Window: 64}
	zen := unroll.OpCache{Lines: 256, OpsPerLine: 8, Window: 64}
	for _, c := range []struct {
		name          string
		vendor        cpuid.Vendor
		family, model int
		cache         unroll.OpCache
		adds          int
	}{
		{"Sandy Bridge", cpuid.Intel, 6, 0x2a, small, 0},
		{"Haswell", cpuid.Intel, 6, 0x3c, small, 4},
		{"Skylake", cpuid.Intel, 6, 0x55, small, 4},
		{"Ice Lake server", cpuid.Intel, 6, 0x6a, iceLake, 4},
		{"Sapphire Rapids", cpuid.Intel, 6, 0x8f, goldenCove, 5},
		{"Zen", cpuid.AMD, 0x17, 0x01, zen, 4},
		{"Zen+", cpuid.AMD, 0x17, 0x08, zen, 4},
		{"Zen 2, its first model", cpuid.AMD, 0x17, 0x30, goldenCove, 4},
		{"and the last before it", cpuid.AMD, 0x17, 0x2f, zen, 4},
		{"Zen 3", cpuid.AMD, 0x19, 0x01, goldenCove, 4},
		{"Zen 4", cpuid.AMD, 0x19, 0x11, unroll.OpCache{Lines: 768, OpsPerLine: 9, Window: 64}, 4},
		{"Zen 5", cpuid.AMD, 0x1a, 0x02, unroll.OpCache{Lines: 1024, OpsPerLine: 6, Window: 64}, 6},
		{"before Zen", cpuid.AMD, 0x15, 0x02, small, 0},
		{"another vendor", cpuid.VIA, 6, 0x8f, small, 0},
		{"another family", cpuid.Intel, 15, 0x8f, small, 0},
	} {
		if got := opCache(c.vendor, c.family, c.model); got != c.cache {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.cache)
		}
		if got := addsPerCycle(c.vendor, c.family, c.model); got != c.adds {
			t.Errorf("%s: %d adds a cycle, want %d", c.name, got, c.adds)
		}
	}
}

func TestDetect(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		require.Skip(t, require.CPU, "not an x86-64 machine")
	}
	c := Detect()
	if c.Vendor == "" || c.Family == 0 || c != Detect() {
		t.Errorf("%+v", c)
	}
	if c.L1D < 16<<10 || c.FrontEnd.L1I < 16<<10 || c.Core.L1DWays < 4 || c.FrontEnd.OpCache.Lines == 0 {
		t.Errorf("sizes %+v", c)
	}
	if c.Features.AVX512 && !c.Features.AVX {
		t.Error("AVX-512 without AVX")
	}
}

func TestDefaults(t *testing.T) {
	for size, want := range map[int]int{-1: 32768, 0: 32768, 1: 1, 49152: 49152} {
		if got := orDefault(size, 32768); got != want {
			t.Errorf("%d reads as %d", size, got)
		}
	}
}
