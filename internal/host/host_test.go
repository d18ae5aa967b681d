package host

import (
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/internal/require"
)

func TestDetect(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		require.Skip(t, require.CPU, "not an x86-64 machine")
	}
	c := Detect()
	if c.Vendor == "" || c.Family == 0 || c != Detect() {
		t.Errorf("%+v", c)
	}
	if c.L1D < 16<<10 || c.FrontEnd.L1I < 16<<10 || c.Core.L1DWays < 4 || c.Core.StoreBuffer == 0 {
		t.Errorf("sizes %+v", c)
	}
	if c.Features.AVX512 && !c.Features.AVX {
		t.Error("AVX-512 without AVX")
	}
}

func TestMissing(t *testing.T) {
	if got := Missing(nil); got != nil {
		t.Errorf("of none, %q", got)
	}
	if got := Missing([]string{"SSE2", "no such feature"}); !slices.Equal(got, []string{"no such feature"}) && cpuid.CPU.Supports(cpuid.SSE2) {
		t.Errorf("missing are %q", got)
	}
}
