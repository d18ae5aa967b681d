package instructions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestOtherways: the blocks by which other tables measure forms, what serves them, and no form's but those.
func TestOtherways(t *testing.T) {
	require.Slow(t)
	for _, c := range []struct {
		form, what, want string // the block's first instructions
		links            int
		frontEnd         profiler.FrontEnd
	}{
		{"psrlw xmm, xmm", byDecoders, "psrlw xmm1, xmm15; psrlw xmm2, xmm15", 12, profiler.Decode},
		{"adc r16, i16", "1 to 1 " + byDecoders, "adc bx, 0x1", 1, profiler.Decode},
		{"movaps xmm, xmm", "each of the next register, " + byDecoders, "movaps xmm0, xmm1; movaps xmm1, xmm2", 16, profiler.Decode},
		{"vaddps zmm, zmm, zmm", "2 to 1 " + besideKands, "vaddps zmm1, zmm1, zmm14; kandw k1, k6, k7; kandw k2, k6, k7", 1, ""},
		{"vcvtne2ps2bf16 xmm, xmm, xmm", "2 and 3 to 1 of one register", "vcvtne2ps2bf16 xmm14, xmm14, xmm14", 1, ""},
		{"vpcmpgtb k, ymm, ymm", "of one register", "vpcmpgtb k2, ymm15, ymm15; vpcmpgtb k3, ymm15, ymm15", 6, ""},
		{"add rax, i32", "of a constant of many bits", "add rax, 0x11223344", 12, ""},
		{"mov r64, i64", "of a constant of many bits", "mov rbx, 0x1122334455667788; mov r8, 0x1122334455667788", 11, ""},
		{"adc r8, i8", "of low and high bytes in turn", "adc al, 0x1; adc ah, 0x1", 2, ""},
		{"sbb r8, i8", "of low and high bytes in turn", "sbb al, 0x1; sbb ah, 0x1", 2, ""},
		{"xchg r64, r64", "of two that wait for each other", "xchg rcx, rdx; xchg rdx, rcx", 2, ""},
		{"vcvtsi2ss xmm, xmm, r64", "of r32", "vcvtsi2ss xmm1, xmm15, ecx; vcvtsi2ss xmm2, xmm15, ecx", 12, ""},
		{"fcmove st, st(i)", "of st(0) to st(7) in turn", "fcmove st, st(0); fcmove st, st(1)", 8, ""},
		{"sqrtpd xmm, xmm", "of itself, half ones, half long fractions", "sqrtpd xmm0, xmm0; sqrtpd xmm1, xmm1", 8, ""},
	} {
		var got *Probe
		p := planOf(t, c.form)
		for i := range p.Probes {
			if probe := &p.Probes[i]; probe.Kind > Beside && strings.TrimSpace(probe.Pair+" "+probe.Note) == c.what {
				got = probe
			}
		}
		if got == nil {
			t.Errorf("%s has no block %q", c.form, c.what)
			continue
		}
		if text := textOf(t, got.Code); !strings.HasPrefix(text, c.want) || got.Links != c.links || got.FrontEnd != c.frontEnd {
			t.Errorf("%s %s: %s, %d links, front end %q", c.form, c.what, text, got.Links, got.FrontEnd)
		}
	}
	count := 0
	for _, f := range forms.Select(nil, false) {
		for _, probe := range NewPlan(&f).Probes {
			if probe.Kind > Beside {
				count++
			}
		}
	}
	if most := 120; count < 80 || count > most { // more would make the table take longer
		t.Errorf("%d blocks, want 80 to %d", count, most)
	}
}

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

// TestOpenMasks: masked loads and stores have all elements enabled.
func TestOpenMasks(t *testing.T) {
	ones := strings.Repeat("f", 64)
	for _, probe := range planOf(t, "vmaskmovpd ymm, ymm, m256").Probes {
		if want := "ymm15=0x" + ones; probe.Kind != Latency && probe.Set.String() != want {
			t.Errorf("%s with %s, want %s", textOf(t, probe.Code), probe.Set, want)
		}
	}
}
