package tables

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

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
		if _, err := ReadUopsInfo(strings.NewReader(uopsXML), core); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want it to say %q", core, err, says)
		}
	}
	if _, err := ReadUopsInfo(strings.NewReader("<root></root>"), ""); err == nil || !strings.Contains(err.Error(), "no measurement") {
		t.Errorf("without one: %v", err)
	}
}
