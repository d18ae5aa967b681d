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
		r := require.Get(b.block(require.Hex(t, touch+code), initial.Paper(), layout.MaxFrames, 1))(t)
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
	p := start(t, Options{Budget: 100 * time.Millisecond, Precision: 0.05, Tolerate: []verdict.Reason{verdict.Nonlinear}})
	for _, row := range require.Table(t, "masked.txt") {
		code, needs, name := row[2], row[3], row[4]
		if needs != "" && len(host.Missing([]string{needs})) > 0 {
			t.Logf("%s: this CPU has no %s", name, needs)
			continue
		}
		var cycles [2]float64
		for i, mask := range row[:2] {
			r := require.Get(p.Profile(t.Context(), Block{Code: require.Hex(t, mask+code)}))(t)
			if r.Pages == 0 || r.Status != OK && !r.Reason.Noise() { // a rejection for noise has its pages, and no cycles
				t.Errorf("%s%s: %d pages (%s %v); want its page mapped", mask, code, r.Pages, r.Status, r.Rejection)
			}
			cycles[i] = r.Cycles
		}
		if none, all := cycles[0], cycles[1]; all > 0 && none > all+assist {
			t.Errorf("%s: %.1f cycles with all of it suppressed, %.1f with nothing: an assist", name, none, all)
		}
	}
	if len(host.Missing([]string{"AVX2"})) > 0 {
		require.Skip(t, require.CPU, "this CPU has no AVX2")
	}
	for name, hex := range map[string]string{
		"not canonical": "48b80000000000008000c4e2752c00", "bbprof's own": "48b80000000000600000c4e2752c00", "the kernel's": "48c7c000f0ffffc4e2752e00",
	} {
		if r, err := p.Profile(t.Context(), Block{Code: require.Hex(t, hex)}); err != nil || r.Reason != verdict.Unmappable {
			t.Errorf("%s: %s %+v, %v; want it rejected as unmappable", name, r.Status, r.Rejection, err)
		}
	}
}
