package tables

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

// published is made-up text in InstLatx64's format.
const published = `CPU#000 Type: "A core"
  68 X86                 :ADD r32, r32                          L:   0.31ns=   0.17c  T:   0.06ns=   0.167c
  72 X86                 :ADD r1_32, r2_32                      L:   0.31ns=   0.99c  T:   0.06ns=   0.199c
Inst   71 X86             : NOT r32                               L:   0.31ns=   1.0c  T:   0.08ns=   0.25c
  76 X86                 :ADD r32, [m32]                        L:   1.87ns=   5.97c  T:   0.10ns=   0.332c
 128 X86                 :CMP r8,  r8                           L: [no true dep.]     T:   0.06ns=   0.199c
 816 AVX                 :VMOVAPS xmm, xmm                      L:   0.31ns=   1.00c  T:   0.10ns=   0.332c
 817 AVX                 :VMOVAPS xmm1, xmm2                    L:   0.05ns=   0.17c  T:   0.05ns=   0.166c
 831 AVX                 :VMULSS+VADDSS xmm, xmm, xmm           L:   2.19ns=   6.97c  T:   0.22ns=   0.692c
1537 AVX                 :VBLENDVPD xmm, xmm, xmm, xm           L:   0.94ns=   2.99c  T:   0.31ns=   0.996c
2411 AVX512VL            :{EVEX} VADDPD xmm, xmm, xmm           L:   0.62ns=   1.99c  T:   0.16ns=   0.498c
4280 AVX512_VBMI2        :VPSHLDW xmm, xmm, xmm                 L:   0.31ns=   1.00c  T:   0.16ns=   0.498c
5000 AVX                 :VNOSUCH xmm, xmm                      L:   0.31ns=   1.00c  T:   0.16ns=   0.498c
`

// TestReadInstLat: forms get bbprof's names; lines with different registers count where idioms would interfere.
func TestReadInstLat(t *testing.T) {
	if !IsInstLat(published) || IsInstLat("form,latency,throughput\nadd r32, r32,1,0.2\n") {
		t.Error("what is of InstLatx64 is not told")
	}
	got := ReadInstLat(published)
	want := Table{Published: true, Unmatched: []string{"VNOSUCH xmm, xmm"}, Forms: []Numbers{
		{Form: "add r32, r32", Latency: 0.99, Throughput: 0.199},
		{Form: "not r32", Latency: 1, Throughput: 0.25},
		{Form: "cmp r8, r8", Latency: math.NaN(), Throughput: 0.199},
		{Form: "vmovaps xmm, xmm", Latency: 1, Throughput: 0.166},
		{Form: "vblendvpd xmm, xmm, xmm, xmm", Latency: 2.99, Throughput: 0.996},
		{Form: "{evex} vaddpd xmm, xmm, xmm", Latency: 1.99, Throughput: 0.498},
		{Form: "vpshldw xmm, xmm, xmm, i8", Latency: 1, Throughput: 0.498},
	}}
	require.Equal(t, "it", want, got, cmpopts.EquateNaNs())
}

func tableOf(t *testing.T, text string) Table {
	t.Helper()
	lines := strings.Split(text, "\n")
	return require.Get(Read(strings.Split(lines[0], "|"), func(yield func([]string, error) bool) {
		for _, l := range lines[1:] {
			if !yield(strings.Split(l, "|"), nil) {
				return
			}
		}
	}))(t)
}

// TestCompare: published latencies are of explicit operands, and their clock differs; means are left out.
func TestCompare(t *testing.T) {
	here := tableOf(t, `form|status|latency|throughput|latencies|throughputs|throughput_note
adc r64, r64|ok|1.09|0.5|1 to 1: 1.00; 2 to 1: 1.01; flags to 1: 1.09|alone: 1.00; dependencies through flags broken: 0.50|
shl r64, cl|ok|2|1|1 to 1: 1.02; 2 to 1: 2.00 (less general to general)|alone: 1.00|
imul r64, r64|ok|3|1|1 to 1: 3.03; 2 to 1: 3.03; 2 to flags: 4.00|alone: 1.00|mean: unstable
vmulps xmm, xmm, xmm|ok|3.03|0.5|2 to 1, of zeros: 3.03; 3 to 1 of another register: 9.00|alone: 0.50|`)
	number := cmpopts.EquateApprox(0, 1e-9)
	list := []Numbers{{Form: "adc r64, r64", Latency: 1, Throughput: 1}, {Form: "shl r64, cl", Latency: 1, Throughput: 1},
		{Form: "imul r64, r64", Latency: 3, Throughput: 2}, {Form: "vmulps xmm, xmm, xmm", Latency: 4, Throughput: 0.5}}
	got := Compare(here, Table{Published: true, Forms: list})
	want := Agreement{Scale: 1.01, Latencies: Tally{Compared: 4, Within2: 3, Within5: 3, Within10: 3},
		Throughputs: Tally{Compared: 3, Within2: 3, Within5: 3, Within10: 3}, Means: 1,
		Differ: []Difference{{Form: "vmulps xmm, xmm, xmm", What: latency, Here: 3.03, There: 4.04}}}
	require.Equal(t, "published", want, got, number)
	got = Compare(here, Table{Forms: list})
	want = Agreement{Scale: 1, Latencies: Tally{Compared: 4, Within2: 1, Within5: 1, Within10: 2},
		Throughputs: Tally{Compared: 3, Within2: 2, Within5: 2, Within10: 2}, Means: 1, Differ: []Difference{
			{Form: "adc r64, r64", What: latency, Here: 1.09, There: 1}, {Form: "adc r64, r64", What: "throughput", Here: 0.5, There: 1},
			{Form: "shl r64, cl", What: latency, Here: 2, There: 1}, {Form: "vmulps xmm, xmm, xmm", What: latency, Here: 3.03, There: 4}}}
	require.Equal(t, "of bbprof", want, got, number)
	if kinds := got.Kinds(); len(kinds) != 4 {
		t.Errorf("%d kinds, want 4", len(kinds))
	}
	// uops.info's throughputs are of blocks in which dependencies are broken, and its clock is this one.
	got = Compare(here, Table{Published: true, Counted: true, Forms: []Numbers{{Form: "adc r64, r64", Latency: 1, Throughput: 0.5}}})
	one := Tally{Compared: 1, Within2: 1, Within5: 1, Within10: 1}
	require.Equal(t, "counted", Agreement{Scale: 1, Latencies: one, Throughputs: one}, got)
	if _, err := Read([]string{"form", "cycles"}, nil); err == nil {
		t.Error("a table without latencies is read")
	}
}
