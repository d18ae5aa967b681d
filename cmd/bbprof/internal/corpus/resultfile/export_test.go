package resultfile

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/internal/require"
)

// exportTo writes rows in a format.
func exportTo(t *testing.T, rows string, f Format) string {
	t.Helper()
	s, all := read(t, []byte(rows))
	return string(write(t, f, s, all))
}

// TestExport: testdata's results, as batch -mapping writes them, with the second block rejected. Only accepted blocks, each in
// its tool's format; a file without blocks is still valid.
func TestExport(t *testing.T) {
	measured := string(require.Get(os.ReadFile("testdata/measured.csv"))(t))
	header, _, _ := strings.Cut(measured, "\n")
	for format, withoutRows := range map[Format]string{
		BHive:         "",
		Ithemal:       "",
		OSACA:         ".intel_syntax noprefix\n# OSACA takes the first block, or the one at --lines\n",
		AnICA:         `{"series_date":"","source_computer":"","measurements":[` + "\n\n]}\n",
		Gematria:      "", // with rows: the script batch_files
		GematriaState: "",
	} {
		require.Equal(t, format, withoutRows, exportTo(t, header+"\n", format))
		if format == Gematria || format == GematriaState {
			continue
		}
		want := require.Get(os.ReadFile("testdata/measured." + string(format)))(t)
		require.Equal(t, format, string(want), exportTo(t, measured, format))
		if format == AnICA && (!json.Valid(want) || !json.Valid([]byte(withoutRows))) {
			t.Errorf("%s is not JSON", format)
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

// snippetRows use each kind of register, and memory.
const snippetRows = `hex,cycles,init,set,mapping
488b0383c101c5f9efc9,1.2500,paper,rbx=0x12346600,0x12346000 0x12345000
4811d864488b042528000000,0.5000,stack,cf=1;fill=0x3ff0000000000000,0x23456000
62f1744858cb,1.0000,paper,zmm3=0x10000000000000000ffffffffffffffff,
62f174c958cb,1.0000,paper,k1=0xff;xmm3=0x7;mxcsr=0x1f80,
50,1.0000,aligned,,0x12429000
`

// TestExegesis: llvm-exegesis assembles each snippet with the instructions and initial values that it has here, and reading it
// back gives the state that it came of.
func TestExegesis(t *testing.T) {
	tool := require.Tool(t, require.LLVM, "llvm-exegesis-22")
	header, rows, _ := strings.Cut(snippetRows, "\n")
	wants := []struct{ set, values string }{
		{"rcx=0x12345600,rbx=0x12346600,xmm0=0x0,xmm1=0x0,mxcsr=0x9fc0,fill=0x12345600", "RCX=0x12345600 RBX=0x12346600 XMM0=0x0 XMM1=0x0 MXCSR=0x9FC0"},
		{"rax=0x12340200,rbx=0x123a3440,cf=0x1,pf=0x0,af=0x0,zf=0x0,sf=0x0,of=0x0,fs_base=0x23456800,fill=0x3ff0000000000000",
			"RAX=0x12340200 RBX=0x123A3440 EFLAGS=0x1 FS_BASE=0x23456800"},
		{"zmm1=0x0,zmm3=0x10000000000000000ffffffffffffffff,mxcsr=0x9fc0", ""},
		{"zmm1=0x0,zmm3=0x7,k1=0xff,mxcsr=0x1f80", "ZMM3=0x7 K1=0xFF"},
		{"rax=0x12340000,rsp=0x123c4000,fill=0x12345000", "RAX=0x12340000 RSP=0x123C4000"},
	}
	for i, row := range strings.Split(strings.TrimSpace(rows), "\n") {
		text := exportTo(t, header+"\n"+row+"\n", Exegesis)
		got, err := assemble.StartOf(text)
		if want := wants[i].set; err != nil || want != "" && got.Set.String() != want {
			t.Errorf("%s\nsets %s, %v, want %s", text, got.Set, err, want)
		}
		name := require.File(t, "s", text)
		out, err := exec.Command(tool, "-mode=inverse_throughput", "-repetition-mode=loop", "-execution-mode=subprocess", "-mcpu=sapphirerapids",
			"-benchmark-phase=assemble-measured-code", "-snippets-file="+name, "-benchmarks-file=-").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "actual measurements skipped") {
			t.Errorf("%s\n%v: %s", text, err, out)
		}
		for value := range strings.FieldsSeq(wants[i].values) {
			if !strings.Contains(string(out), "'"+value+"'") {
				t.Errorf("%s\nno %s in\n%s", text, value, out)
			}
		}
		insts := require.Get(asm.DecodeHex(row[:strings.IndexByte(row, ',')]))(t)
		if _, list, _ := strings.Cut(string(out), "instructions:\n"); strings.Count(list[:strings.Index(list, "config:")], "- '") != len(insts) {
			t.Errorf("%s\nother instructions in\n%s", text, out)
		}
	}
}

// TestExegesisRefuses: two blocks in a file would be one to llvm-exegesis, and a label none.
func TestExegesisRefuses(t *testing.T) {
	l := require.Get(NewLines(Exegesis, SchemaOf(strings.Split("hex,cycles,init,set,mapping", ","))))(t)
	row := func(hex string) []string { return []string{hex, "1.0", "paper", "", ""} }
	if _, err := l.Append(nil, row("48ffc975fb")); !errors.Is(err, ErrBranch) {
		t.Errorf("a loop: %v", err)
	}
	if _, err := l.Append(nil, row("90")); err != nil {
		t.Error(err)
	}
	if _, err := l.Append(nil, row("90")); !errors.Is(err, errOneSnippet) {
		t.Errorf("a second block: %v", err)
	}
}
