package host

import (
	"slices"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

func TestMissing(t *testing.T) {
	if got := Missing(nil); got != nil {
		t.Errorf("of none, %q", got)
	}
	if got := Missing([]string{"SSE2", "no such feature"}); !slices.Equal(got, []string{"no such feature"}) && cpuid.CPU.Supports(cpuid.SSE2) {
		t.Errorf("missing are %q", got)
	}
}
