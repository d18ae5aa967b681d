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

// uopsXML has the form of uops.info's instructions.xml, with numbers made up.
const uopsXML = `<root date="2026-01-01">
 <extension name="BASE">
  <instruction asm="ADD" string="ADD (R64, R64)">
   <operand idx="1" type="reg" width="64">RAX,RCX</operand><operand idx="2" type="reg" width="64">RAX,RCX</operand>
   <operand flag_CF="w" idx="3" name="REG2" suppressed="1" type="flags" w="1"/>
   <architecture name="SKL">
    <measurement TP_loop="0.25" TP_unrolled="0.30"><latency cycles="1" start_op="1" target_op="1"/>
     <latency cycles="2" start_op="2" target_op="1"/><latency cycles="7" start_op="1" target_op="3"/></measurement>
   </architecture>
   <architecture name="ZEN4"><measurement TP_unrolled="0.25"/></architecture>
   <architecture name="CON"/>
  </instruction>
  <instruction asm="{load} ADD" string="ADD_03 (R64, R64)">
   <operand idx="1" type="reg" width="64">RAX,RCX</operand><operand idx="2" type="reg" width="64">RAX,RCX</operand>
   <architecture name="SKL"><measurement TP_loop="9.00"/></architecture>
  </instruction>
  <instruction asm="SHL" string="SHL (R32, CL)">
   <operand idx="1" type="reg" width="32">EAX,ECX</operand><operand idx="2" implicit="1" type="reg" width="8">CL</operand>
   <architecture name="SKL"><measurement TP_loop="1.50"><latency max_cycles="2" min_cycles="1" start_op="1" target_op="1"/>
    <latency max_cycles="9" max_cycles_is_upper_bound="1" start_op="1" target_op="1"/></measurement></architecture>
  </instruction>
  <instruction asm="ADD" string="ADD (R64, M64)">
   <operand idx="1" type="reg" width="64">RAX,RCX</operand><operand idx="2" type="mem" width="64"/>
   <architecture name="SKL"><measurement TP_loop="0.50"><latency cycles="1" start_op="1" target_op="1"/>
    <latency cycles_addr="6" start_op="2" target_op="1"/></measurement></architecture>
  </instruction>
  <instruction asm="VADDPD" evex="1" string="VADDPD_EVEX (XMM, XMM, XMM)">
   <operand idx="1" type="reg" width="128">XMM0,XMM1</operand><operand idx="2" type="reg" width="128">XMM0,XMM1</operand>
   <operand idx="3" type="reg" width="128">XMM0,XMM1</operand>
   <architecture name="SKL"><measurement TP_loop="0.50"><latency cycles="4" start_op="3" target_op="1"/></measurement></architecture>
  </instruction>
  <instruction asm="VADDPD" evex="1" string="VADDPD (XMM, K, XMM, XMM)">
   <operand idx="1" type="reg" width="128">XMM0,XMM1</operand><operand idx="2" type="reg" width="64">K1,K2</operand>
   <operand idx="3" type="reg" width="128">XMM0,XMM1</operand><operand idx="4" type="reg" width="128">XMM0,XMM1</operand>
   <architecture name="SKL"><measurement TP_loop="0.50"/></architecture>
  </instruction>
  <instruction asm="NOSUCH" string="NOSUCH (XMM, I8)">
   <operand idx="1" type="reg" width="128">XMM0,XMM1</operand><operand idx="2" type="imm" width="8"/>
   <architecture name="SKL"><measurement TP_loop="0.50"/></architecture>
  </instruction>
 </extension>
</root>
`

func TestReadUopsInfo(t *testing.T) {
	if !IsUopsInfo([]byte(uopsXML)) || IsUopsInfo([]byte(published)) {
		t.Error("what is of uops.info is not told")
	}
	want := Table{Published: true, Counted: true, Unmatched: []string{"NOSUCH (XMM, I8)"}, Forms: []Numbers{
		{Form: "add r64, r64", Latency: 2, Throughput: 0.25},
		{Form: "shl r32, cl", Latency: 2, Throughput: 1.5},
		{Form: "add r64, m64", Latency: 1, Throughput: 0.5},
		{Form: "{evex} vaddpd xmm, xmm, xmm", Latency: 4, Throughput: 0.5},
	}}
	require.Equal(t, "SKL", want, require.Get(ReadUopsInfo(strings.NewReader(uopsXML), "SKL"))(t), cmpopts.EquateNaNs())
	want = Table{Published: true, Counted: true, Forms: []Numbers{{Form: "add r64, r64", Latency: math.NaN(), Throughput: 0.25}}}
	require.Equal(t, "ZEN4", want, require.Get(ReadUopsInfo(strings.NewReader(uopsXML), "ZEN4"))(t), cmpopts.EquateNaNs())
	for core, says := range map[string]string{
		"": "name one behind the file's name and #: SKL, ZEN4", "CON": "nothing in it was measured on CON; there are SKL, ZEN4"} {
		_, err := ReadUopsInfo(strings.NewReader(uopsXML), core)
		require.Fails(t, core, err, says)
	}
	_, err := ReadUopsInfo(strings.NewReader("<root></root>"), "")
	require.Fails(t, "without one", err, "no measurement")
}
