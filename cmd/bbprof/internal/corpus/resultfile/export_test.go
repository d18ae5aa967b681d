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

// TestExegesis: llvm-exegesis assembles each snippet with the instructions and initial values that it has here, and reading it
// back gives the state that it came of.
func TestExegesis(t *testing.T) {
	tool := require.Tool(t, require.LLVM, "llvm-exegesis-22")
	for _, row := range require.Table(t, "snippets.txt") {
		set, values := row[5], row[6]
		text := exportTo(t, "hex,cycles,init,set,mapping\n"+strings.Join(row[:5], ",")+"\n", Exegesis)
		got, err := assemble.StartOf(text)
		if err != nil || got.Set.String() != set {
			t.Errorf("%s\nsets %s, %v, want %s", text, got.Set, err, set)
		}
		name := require.File(t, "s", text)
		out, err := exec.Command(tool, "-mode=inverse_throughput", "-repetition-mode=loop", "-execution-mode=subprocess", "-mcpu=sapphirerapids",
			"-benchmark-phase=assemble-measured-code", "-snippets-file="+name, "-benchmarks-file=-").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "actual measurements skipped") {
			t.Errorf("%s\n%v: %s", text, err, out)
		}
		for value := range strings.FieldsSeq(values) {
			if !strings.Contains(string(out), "'"+value+"'") {
				t.Errorf("%s\nno %s in\n%s", text, value, out)
			}
		}
		insts := require.Get(asm.DecodeHex(row[0]))(t)
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
