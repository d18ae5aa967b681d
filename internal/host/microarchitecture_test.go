package host

import (
	"slices"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

func TestMicroarchitecture(t *testing.T) {
	for _, c := range []struct {
		vendor        cpuid.Vendor
		family, model int
		want          Microarchitecture
	}{
		{cpuid.Intel, 6, 0x2a, Unknown}, // Sandy Bridge
		{cpuid.Intel, 6, 0x3c, Haswell},
		{cpuid.Intel, 6, 0x4f, Broadwell},
		{cpuid.Intel, 6, 0x55, Skylake},
		{cpuid.Intel, 6, 0x6a, IceLake},
		{cpuid.Intel, 6, 0x8f, GoldenCove},
		{cpuid.Intel, 6, 0xae, Unknown}, // Redwood Cove
		{cpuid.Intel, 6, 0xbe, Unknown}, // Gracemont alone
		{cpuid.Intel, 15, 0x55, Unknown},
		{cpuid.VIA, 6, 0x55, Unknown},
		{cpuid.AMD, 6, 0x55, Unknown},
		{cpuid.AMD, 0x15, 0x00, Unknown},
		{cpuid.AMD, 0x17, 0x00, Zen},
		{cpuid.AMD, 0x17, 0x2f, Zen},
		{cpuid.AMD, 0x17, 0x30, Zen2},
		{cpuid.AMD, 0x17, 0x4f, Zen2},
		{cpuid.AMD, 0x17, 0x50, Zen},
		{cpuid.AMD, 0x17, 0x5f, Zen},
		{cpuid.AMD, 0x17, 0x60, Zen2},
		{cpuid.AMD, 0x17, 0x7f, Zen2},
		{cpuid.AMD, 0x17, 0x80, Unknown},
		{cpuid.AMD, 0x17, 0xaf, Zen2},
		{cpuid.AMD, 0x17, 0xb0, Unknown},
		{cpuid.AMD, 0x19, 0x0f, Zen3},
		{cpuid.AMD, 0x19, 0x10, Zen4},
		{cpuid.AMD, 0x19, 0x1f, Zen4},
		{cpuid.AMD, 0x19, 0x20, Zen3},
		{cpuid.AMD, 0x19, 0x5f, Zen3},
		{cpuid.AMD, 0x19, 0x60, Zen4},
		{cpuid.AMD, 0x19, 0xaf, Zen4},
		{cpuid.AMD, 0x19, 0xb0, Unknown},
		{cpuid.AMD, 0x1a, 0x2f, Zen5},
		{cpuid.AMD, 0x1a, 0x30, Unknown},
		{cpuid.AMD, 0x1a, 0x40, Zen5},
		{cpuid.AMD, 0x1a, 0x50, Unknown}, // Zen 6
		{cpuid.AMD, 0x1a, 0x7f, Zen5},
		{cpuid.AMD, 0x1a, 0x80, Unknown},
	} {
		got := microarchitecture(c.vendor, c.family, c.model, false)
		if got != c.want {
			t.Errorf("vendor %v family %#x model %#x: %s, want %s", c.vendor, c.family, c.model, got, c.want)
		}
		if got != Unknown && !slices.Contains(Microarchitectures(), got) {
			t.Errorf("%s is not listed", got)
		}
		if hybrid := microarchitecture(c.vendor, c.family, c.model, true); hybrid != Unknown {
			t.Errorf("vendor %v family %#x model %#x, hybrid: %s", c.vendor, c.family, c.model, hybrid)
		}
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
