package instructions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFloatChains: each quotient or root is the source of the next, without another instruction, and stays long.
func TestFloatChains(t *testing.T) {
	got := map[string]string{}
	for _, form := range []string{"divps xmm, xmm", "vdivpd ymm, ymm, ymm", "sqrtsd xmm, xmm", "vsqrtsh xmm, xmm, xmm"} {
		for _, probe := range planOf(t, form).Probes {
			if probe.Kind == Latency && strings.HasSuffix(probe.Pair, longFractions) {
				got[form] = textOf(t, probe.Code) + " with " + probe.Set.String()
			}
		}
	}
	half, double := strings.Repeat("3bff", 32), strings.Repeat("3ff5555555555555", 4)
	want := map[string]string{
		"divps xmm, xmm":        "divps xmm1, xmm15 with xmm1=0x" + strings.Repeat("3faaaaab", 4) + ",xmm15=0x" + strings.Repeat("3f819999", 4),
		"vdivpd ymm, ymm, ymm":  "vdivpd ymm1, ymm15, ymm1 with ymm1=0x" + double + ",ymm14=0x" + strings.Repeat("3ff0333333333333", 4) + ",ymm15=0x" + strings.Repeat("3ff999999999999a", 4),
		"sqrtsd xmm, xmm":       "sqrtsd xmm1, xmm1 with xmm1=0x3fefffffffffffff3fefffffffffffff,xmm15=0x3ff03333333333333ff0333333333333",
		"vsqrtsh xmm, xmm, xmm": "vsqrtsh xmm1, xmm15, xmm1 with zmm1=0x" + half + ",zmm14=0x" + strings.Repeat("3c11", 32),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
