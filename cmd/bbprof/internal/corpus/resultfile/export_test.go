package resultfile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// measuredRows are results as batch -mapping writes them; the second block was rejected.
const measuredRows = `hex,status,cycles,init,set,mapping,run_header
488b0383c101c5f9efc9,ok,1.2500,paper,rbx=0x12346600,0x12346000,"{""host"":{""microarchitecture"":""Zen 9""},""started"":""2026-11-22T09:00:00Z""}"
0f0b,rejected,,,,,
64488b0425280000005b,ok,0.5000,stack,,0x23456000 0x12345000,
`

// exportTo writes rows in a format.
func exportTo(t *testing.T, rows string, f Format) string {
	t.Helper()
	s, all := read(t, []byte(rows))
	return string(write(t, f, s, all))
}

// TestExport: only accepted blocks, each in its tool's format; a file without blocks is still valid.
func TestExport(t *testing.T) {
	header, _, _ := strings.Cut(measuredRows, "\n")
	for _, c := range []struct {
		format            Format
		want, withoutRows string
	}{
		{BHive, "488b0383c101c5f9efc9,125.00\n64488b0425280000005b,50.00\n", ""},
		{Ithemal, "488b0383c101c5f9efc9\n64488b0425280000005b\n", ""},
		{OSACA, `.intel_syntax noprefix
# OSACA takes the first block, or the one at --lines
# 488b0383c101c5f9efc9 1.2500 cycles --lines 5-7
# OSACA-BEGIN
mov rax, qword ptr [rbx]
add ecx, 0x1
vpxor xmm1, xmm0, xmm1
# OSACA-END
# 64488b0425280000005b 0.5000 cycles --lines 11-12
# OSACA-BEGIN
mov rax, qword ptr fs:[0x28]
pop rbx
# OSACA-END
`, ".intel_syntax noprefix\n# OSACA takes the first block, or the one at --lines\n"},
		{AnICA, `{"series_date":"2026-11-22T09:00:00+00:00","source_computer":"Zen 9","measurements":[
{"input":"488b0383c101c5f9efc9","predictor_runs":[{"predictor":"bbprof.Zen 9","result":1.25,"remark":null}]},
{"input":"64488b0425280000005b","predictor_runs":[{"predictor":"bbprof.Zen 9","result":0.5,"remark":null}]}
]}
`, `{"series_date":"","source_computer":"","measurements":[` + "\n\n]}\n"},
		{Gematria, "", ""}, // TestGematriaByProtoc
		{GematriaState, "", ""},
	} {
		if c.want != "" {
			require.Equal(t, c.format, c.want, exportTo(t, measuredRows, c.format))
		}
		require.Equal(t, c.format, c.withoutRows, exportTo(t, header+"\n", c.format))
		if c.format == AnICA && (!json.Valid([]byte(c.want)) || !json.Valid([]byte(c.withoutRows))) {
			t.Errorf("%s is not JSON", c.format)
		}
	}
}

// TestExportRefuses: a result that lacks a column that the format needs.
func TestExportRefuses(t *testing.T) {
	for _, c := range []struct {
		format  Format
		columns string
		says    string
	}{
		{BHive, "hex,status", "format bhive: there is no column cycles among"},
		{AnICA, "hex,cycles", "format anica: there is no column run_header among"},
		{GematriaState, "hex,cycles,init,set", "no column mapping, with the pages of each block; measure with bbprof batch -mapping"},
	} {
		_, err := NewLines(c.format, SchemaOf(strings.Split(c.columns, ",")))
		require.Fails(t, c.columns, err, c.says)
	}
	names := strings.Split("hex,cycles,init,set,mapping", ",")
	for says, row := range map[string]string{
		"block 90: its initial state is \"warm\"":                                   "90,1.0,warm,,",
		"its mapping is \"5\u00bd\"":                                                "90,1.0,paper,,5\u00bd",
		"zmm1 is set to more than the 64 bits that Gematria's":                      "62f17548fec2,1.0,paper,zmm1=0x10000000000000000,",
		"block 48: undecodable: no instruction at byte 0: the block ends inside it": "48,1.0,paper,,",
	} {
		l := require.Get(NewLines(GematriaState, SchemaOf(names)))(t)
		_, err := l.Append(nil, strings.Split(row, ","))
		require.Fails(t, row, err, says)
	}
}
