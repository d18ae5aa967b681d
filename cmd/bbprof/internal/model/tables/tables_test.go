package tables

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

// madeUp is a file of testdata in the format of what InstLatx64 or uops.info publish, with numbers made up.
func madeUp(t *testing.T, name string) string {
	t.Helper()
	return string(require.Get(os.ReadFile(filepath.Join("testdata", name)))(t))
}

// TestReadInstLat: forms get bbprof's names; lines with different registers count where idioms would interfere.
func TestReadInstLat(t *testing.T) {
	got := readInstLat(madeUp(t, "instlat.txt"))
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

// TestReadRefuses: a cell that is no number of cycles is named; one like inf would agree with every number.
func TestReadRefuses(t *testing.T) {
	for cell, bad := range map[string]bool{"abc": true, "-3": true, "nan": true, "inf": true, "": false, "0.5": false, "-0.01": false} {
		_, err := Read([]string{"form", latency, throughput}, func(yield func([]string, error) bool) {
			_ = yield([]string{"not r32", "1", "1"}, nil) && yield([]string{"neg r32", "1", cell}, nil)
		})
		if bad {
			require.Fails(t, cell, err, fmt.Sprintf("row 2 (neg r32): throughput is %q, not a number of cycles", cell))
		} else {
			require.NoError(t, err)
		}
	}
}

// TestCompare: published latencies are of explicit operands, and their clock differs; means are left out.
func TestCompare(t *testing.T) {
	rows := require.Table(t, "here.txt")
	here := require.Get(Read(rows[0], func(yield func([]string, error) bool) {
		for _, row := range rows[1:] {
			if !yield(row, nil) {
				return
			}
		}
	}))(t)
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
	require.Equal(t, "kinds", 4, len(got.Kinds()))
	// uops.info's throughputs are of blocks in which dependencies are broken, and its clock is this one.
	got = Compare(here, Table{Published: true, Counted: true, Forms: []Numbers{{Form: "adc r64, r64", Latency: 1, Throughput: 0.5}}})
	one := Tally{Compared: 1, Within2: 1, Within5: 1, Within10: 1}
	require.Equal(t, "counted", Agreement{Scale: 1, Latencies: one, Throughputs: one}, got)
	if _, err := Read([]string{"form", "cycles"}, nil); err == nil {
		t.Error("a table without latencies is read")
	}
}

func TestReadUopsInfo(t *testing.T) {
	uopsXML := madeUp(t, "uops.xml")
	if !isUopsInfo([]byte(uopsXML)) || isUopsInfo([]byte(madeUp(t, "instlat.txt"))) {
		t.Error("what is of uops.info is not told")
	}
	want := Table{Published: true, Counted: true, Unmatched: []string{"NOSUCH (XMM, I8)"}, Forms: []Numbers{
		{Form: "add r64, r64", Latency: 2, Throughput: 0.25},
		{Form: "shl r32, cl", Latency: 2, Throughput: 1.5},
		{Form: "add r64, m64", Latency: 1, Throughput: 0.5},
		{Form: "{evex} vaddpd xmm, xmm, xmm", Latency: 4, Throughput: 0.5},
	}}
	require.Equal(t, "SKL", want, require.Get(readUopsInfo(strings.NewReader(uopsXML), "SKL"))(t), cmpopts.EquateNaNs())
	want = Table{Published: true, Counted: true, Forms: []Numbers{{Form: "add r64, r64", Latency: math.NaN(), Throughput: 0.25}}}
	require.Equal(t, "ZEN4", want, require.Get(readUopsInfo(strings.NewReader(uopsXML), "ZEN4"))(t), cmpopts.EquateNaNs())
	for core, says := range map[string]string{
		"": "name one behind the file's name and #: SKL, ZEN4", "CON": "nothing in it was measured on CON; there are SKL, ZEN4"} {
		_, err := readUopsInfo(strings.NewReader(uopsXML), core)
		require.Fails(t, core, err, says)
	}
	_, err := readUopsInfo(strings.NewReader("<root></root>"), "")
	require.Fails(t, "without one", err, "no measurement")
}
