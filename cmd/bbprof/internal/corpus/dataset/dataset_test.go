package dataset

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
)

// results writes n rows of five applications as batch would, measured on a core: adds of two registers, one more
// in each, so that blocks of equal length are near-duplicates.
func results(t *testing.T, core cpu.Name, n int) string {
	t.Helper()
	run := resultfile.Run{Version: "1", Host: resultfile.Host{Microarchitecture: core, Vendor: "V", Brand: "B", Family: 6, Model: 1},
		Settings: map[string]any{"mode": "unroll"}, Kernel: "Linux 6", Clock: "tsc", Selftest: "4 of 4 pass"}
	path := filepath.Join(t.TempDir(), "results.csv")
	f := require.Get(os.Create(path))(t)
	defer f.Close()
	schema := resultfile.SchemaOf(strings.Fields("hex status reason cycles ci_low ci_high source speeds category set run run_header count address"))
	out := require.Get(resultfile.NewWriter(f, resultfile.CSV, schema))(t)
	for i := range n {
		// add rax, i; nops
		code := hex.EncodeToString([]byte{0x48, 0x81, 0xc0, byte(i), byte(i >> 8), 0, 0}) + strings.Repeat("90", i%40)
		app := fmt.Sprint("app", i*i%5)
		row := []string{code, "ok", "", fmt.Sprintf("%d.2500", 1+i%7), "1.0000", "9.0000", app, fmt.Sprint(1 + i%2), "scalar", "",
			run.ID(), "", fmt.Sprint(i), "0x401136"}
		if i%10 == 9 {
			row = []string{code, "rejected", "sigsegv", "", "", "", app, "", "scalar", "", run.ID(), "", "", ""}
		}
		if i == 0 {
			row[11] = run.String()
		}
		require.NoError(t, out.Write(row))
	}
	require.NoError(t, out.Close())
	return path
}

func sealed(t *testing.T, core cpu.Name) (dir string, sheet *Sheet) {
	t.Helper()
	dir = t.TempDir()
	first := results(t, core, 250)
	source := require.Get(Options{Inputs: []string{first, first}, Application: "source", Weight: "count", PartRows: 100}.Read())(t)
	sheet = require.Get(source.Write(dir,
		func(_ *Sheet, sample []SampleBlock) (*Agreement, error) {
			if len(sample) == 0 || sample[0].Address != "0x401136" {
				t.Errorf("to be measured again, where they stand in their program: %+v", sample)
			}
			return nil, nil
		}))(t)
	return dir, sheet
}

// changed is a copy of a sealed dataset after a change.
func changed(t *testing.T, sealed string, s *Sheet, change func(t *testing.T, dir string, s *Sheet)) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(dir, os.DirFS(sealed)))
	change(t, dir, s)
	return dir
}

func check(t *testing.T, dir string) []string {
	t.Helper()
	return require.Get(Verify(dir))(t).Problems
}

const core, other = cpu.Name("zen4"), cpu.Name("skylake")

// TestSealed: a dataset verifies as sealed; repeated blocks are omitted; every accepted block is in one split.
func TestSealed(t *testing.T) {
	dir, sheet := sealed(t, core)
	require.Equal(t, "problems", []string(nil), check(t, dir))
	want := Counts{Rows: 250, Status: map[string]int{"ok": 225, "rejected": 25}, Reasons: map[string]int{"sigsegv": 25}, Several: 100,
		Categories: map[string]int{"scalar": 225}}
	got := sheet.Counts
	got.Splits = nil
	if diff := cmp.Diff(want, got); diff != "" || sheet.Repeated != 250 || len(sheet.Parts) != 3 {
		t.Errorf("%d repeated, %d parts, %s", sheet.Repeated, len(sheet.Parts), diff)
	}
	n := 0
	for split, k := range sheet.Counts.Splits {
		if !slices.Contains([]string{Train, Validation, Test, LeftOut}, split) || k == 0 {
			t.Errorf("split %q has %d blocks", split, k)
		}
		n += k
	}
	if n != 225 || len(sheet.Applications) != 3 { // squares modulo 5: three applications
		t.Errorf("%d blocks in splits; %v", n, sheet.Applications)
	}
	bhive := string(require.Get(os.ReadFile(filepath.Join(dir, BHiveFile)))(t))
	if !strings.HasPrefix(bhive, "4881c000000000,125.00\n") || strings.Count(bhive, "\n") != 225 {
		t.Errorf("%.100q", bhive)
	}
	// The directory documents its contents, docs/reference.md all of bbprof's columns, and numbers are numbers there.
	readme := require.Get(os.ReadFile(filepath.Join(dir, ReadmeFile)))(t)
	for _, want := range []string{
		"# Cycles of basic blocks on zen4\n", "| `cycles` | number | core cycles per iteration of the block | ",
		"| `count` | integer |  | executions", "| `application` | text |", "`train.csv`",
	} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md lacks %q", want)
		}
	}
	for _, c := range append(sheet.Columns, explained(resultfile.NewSchema(true, nil))...) {
		if c.About == "" || c.Name != "source" && strings.HasPrefix(c.About, "as it was in the corpus") {
			t.Errorf("column %s: %q", c.Name, c.About)
		}
	}
	f := require.Get(os.Open(filepath.Join(dir, filepath.FromSlash(sheet.Parts[0].File))))(t)
	defer f.Close()
	in := require.Get(parquet.Open(f))(t)
	require.Equal(t, "count is", parquet.Integer, in.Columns[slices.Index(in.Names(), "count")].Type)
	for _, split := range []string{Train, Validation, Test} {
		header, lines, _ := strings.Cut(string(require.Get(os.ReadFile(filepath.Join(dir, split+".csv")))(t)), "\n")
		require.Equal(t, split, "hex,cycles,ci_low,ci_high,speeds,category,application,count,tokens", header)
		require.Equal(t, split, sheet.Counts.Splits[split], strings.Count(lines, "\n"))
	}
	require.Equal(t, "uneven", "the split is 44, 22, 33 % for train, validation and test, not 80, 10, 10", sheet.Uneven)
}

// TestCaptured: rows of one block from two captured states are no repetition, and are not measured again without the states.
func TestCaptured(t *testing.T) {
	dir, text := t.TempDir(), string(require.Get(os.ReadFile(results(t, core, 250)))(t))
	text = strings.Replace(text, `""mode"":""unroll""`, `""init"":""captured""`, 1)
	var inputs []string
	for _, state := range []string{"s#1", "s#2", "s#1"} {
		name := filepath.Join(t.TempDir(), "states.csv")
		require.NoError(t, os.WriteFile(name, []byte(strings.Replace(strings.ReplaceAll(text, "\n", ","+state+"\n"), state, "state", 1)), 0o600))
		inputs = append(inputs, name)
	}
	sheet := require.Get(require.Get(Options{Inputs: inputs, PartRows: 1000}.Read())(t).Write(dir,
		func(_ *Sheet, sample []SampleBlock) (*Agreement, error) {
			require.Equal(t, "sampled", []SampleBlock(nil), sample)
			return nil, nil
		}))(t)
	require.Equal(t, "rows and repetitions", [2]int{500, 250}, [2]int{sheet.Counts.Rows, sheet.Repeated})
	v := require.Get(Verify(dir))(t)
	require.Equal(t, "problems", []string(nil), v.Problems)
	require.Equal(t, "to measure again", 0, len(v.Sample))
}

// TestTypes checks the inferred types of a corpus's columns.
func TestTypes(t *testing.T) {
	for want, cells := range map[resultfile.Type][]string{
		resultfile.Integer: {"1", "-20", ""},
		resultfile.Number:  {"1", "0.25", "1e-05"},
		resultfile.Flag:    {"true", "", "false"},
		resultfile.Text:    {"1", "007"},
	} {
		s := shape{}
		for _, c := range cells {
			s.add(c)
		}
		require.Equal(t, cells, want, s.typed())
	}
}

// reseal rewrites the sums of files, as somebody hiding a change might.
func reseal(t *testing.T, dir string) {
	t.Helper()
	text := require.Get(os.ReadFile(filepath.Join(dir, SumsFile)))(t)
	var sums strings.Builder
	for line := range strings.Lines(string(text)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&sums, "%s  %s\n", require.Get(hashFile(dir, name))(t), name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, SumsFile), []byte(sums.String()), 0o666))
}

// edit returns a change that replaces text in a file.
func edit(name, old, now string) func(*testing.T, string, *Sheet) {
	return func(t *testing.T, dir string, _ *Sheet) {
		path := filepath.Join(dir, name)
		text := string(require.Get(os.ReadFile(path))(t))
		if !strings.Contains(text, old) {
			t.Fatalf("%s does not hold %s", path, old)
		}
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(text, old, now, 1)), 0o666))
	}
}

// TestTampered: tampering is detected and named, with or without recomputed sums.
func TestTampered(t *testing.T) {
	whole, sheet := sealed(t, core)
	foreign, foreignSheet := sealed(t, other)
	replacePart := func(n int) func(*testing.T, string, *Sheet) {
		return func(t *testing.T, dir string, s *Sheet) {
			text := require.Get(os.ReadFile(filepath.Join(foreign, foreignSheet.Parts[n].File)))(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, s.Parts[n].File), text, 0o666))
		}
	}
	for _, c := range []struct {
		name     string
		resealed bool
		change   func(t *testing.T, dir string, s *Sheet)
		want     string
	}{
		{"a changed byte", false, edit(Train+".csv", "add rax", "add rbx"), "train.csv: its bytes have changed"},
		{"a missing part", false, func(t *testing.T, dir string, s *Sheet) { os.Remove(filepath.Join(dir, s.Parts[1].File)) },
			"microarchitecture=zen4/part=1/rows.parquet: it is missing"},
		{"a file too many", false, func(t *testing.T, dir string, s *Sheet) {
			os.WriteFile(filepath.Join(dir, "microarchitecture=zen4", "part-00009.parquet"), []byte("x"), 0o666)
		}, "microarchitecture=zen4/part-00009.parquet: it is not part of the sealed dataset"},
		{"a part of another CPU", true, replacePart(1),
			"microarchitecture=zen4/part=1/rows.parquet: it has rows of a run that is not of this dataset"},
		{"the first part, of another CPU", true, replacePart(0),
			"microarchitecture=zen4/part=0/rows.parquet: it was measured on skylake (B), the dataset on zen4"},
		{"a part with other columns", true, func(t *testing.T, dir string, s *Sheet) {
			f := require.Get(os.Create(filepath.Join(dir, s.Parts[1].File)))(t)
			defer f.Close()
			out := require.Get(resultfile.NewWriter(f, resultfile.Parquet, resultfile.SchemaOf([]string{"hex", "status"})))(t)
			require.NoError(t, errors.Join(out.Write([]string{"90", "ok"}), out.Close()))
		}, "microarchitecture=zen4/part=1/rows.parquet: its columns are not those of microarchitecture=zen4/part=0/rows.parquet"},
		{"a number in BHive's file", true, edit(BHiveFile, ",125.00", ",124.00"), "bhive.csv: it does not follow from the parts"},
		{"a better datasheet", true, edit(SheetFile, `"rejected": 25`, `"rejected": 2`),
			"datasheet.json: counts: status is map[ok:225 rejected:25] by the parts, and map[ok:225 rejected:2] in the datasheet"},
		{"an application elsewhere", true, edit(SheetFile, `"app1": "`, `"app1": "x`), "datasheet.json: blocks of application app1 are in"},
	} {
		dir := changed(t, whole, sheet, c.change)
		if c.resealed {
			reseal(t, dir)
		}
		if problems := check(t, dir); !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, c.want) }) {
			t.Errorf("%s: %q, want %q", c.name, problems, c.want)
		} else if c.name == "a missing part" && len(problems) > 1 {
			t.Errorf("%q: what follows from a missing part is no news", problems)
		}
	}
}

// TestRefused: results that do not belong together, or do not describe their run, make no dataset.
func TestRefused(t *testing.T) {
	one, two := results(t, core, 20), results(t, other, 20)
	twice := func(name string) string {
		text := string(require.Get(os.ReadFile(one))(t))
		return require.File(t, "twice.csv", strings.Replace(text, "ci_low,", name+",", 1))
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Inputs: []string{one, two}}, "microarchitecture: skylake (B), here zen4 (B); make separate datasets"},
		{Options{Inputs: []string{one}, Application: "program"}, "it has no column program"},
		{Options{Inputs: []string{twice("cycles")}}, `two columns are called "cycles"`},
		{Options{Inputs: []string{twice("source")}}, `two columns are called "source"`},
		{Options{Inputs: []string{one}, Weight: "weight"}, "it has no column weight"},
		{Options{Inputs: []string{one}, Application: "address"},
			`column address holds "0x401136" alone, and a split by application needs 3 values; without`},
	} {
		_, err := c.o.Read()
		require.Fails(t, c.o, err, c.want)
	}
}

// TestNearDuplicates: registers and immediates do not distinguish blocks; operation, width and order do.
func TestNearDuplicates(t *testing.T) {
	base := nearKey("4801c0") // add rax, rax
	for block, same := range map[string]bool{
		"4801d9":       true,  // add rcx, rbx
		"4d01f7":       true,  // add r15, r14
		"01c0":         false, // add eax, eax
		"4829c0":       false, // sub rax, rax
		"480103":       false, // add [rbx], rax
		"4801c04801c0": false,
	} {
		require.Equal(t, block, same, nearKey(block) == base)
	}
	if nearKey("4883c001") != nearKey("4883c17f") { // add rax, 1; add rcx, 127
		t.Error("immediates make another block")
	}
}

// TestAssign: with three applications or more no split is empty, and train is the largest; with fewer there is no
// such split.
func TestAssign(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		want  map[string]string
	}{
		{[]int{80, 20}, nil},
		{[]int{80, 10, 10}, map[string]string{"0": Train, "1": Test, "2": Validation}},
		{[]int{90, 9, 1}, map[string]string{"0": Train, "1": Test, "2": Validation}},
		{[]int{40, 30, 15, 10, 5}, map[string]string{"0": Train, "1": Train, "2": Test, "3": Validation, "4": Train}},
		{[]int{1, 1, 1}, map[string]string{"0": Train, "1": Test, "2": Validation}},
	} {
		var blocks []splitBlock
		for i, n := range c.sizes {
			blocks = append(blocks, slices.Repeat([]splitBlock{{application: fmt.Sprint(i)}}, n)...)
		}
		require.Equal(t, c.sizes, c.want, assign(blocks))
	}
}

// TestAgrees: 95 of 100 must be accepted again, and as many of these within 5 %.
func TestAgrees(t *testing.T) {
	for _, c := range []struct {
		blocks, far, rejected int
		want                  bool
	}{{100, 5, 0, true}, {100, 6, 0, false}, {100, 0, 5, true}, {100, 0, 6, false}, {0, 0, 0, false}} {
		var sample []SampleBlock
		again := map[string]float64{}
		for i := range c.blocks {
			hex := fmt.Sprint(i)
			sample = append(sample, SampleBlock{Hex: hex, Cycles: 1})
			switch {
			case i < c.far:
				again[hex] = 1.06
			case i < c.blocks-c.rejected:
				again[hex] = 1
			}
		}
		require.Equal(t, fmt.Sprintf("%+v", c), c.want, Compare(resultfile.Host{}, sample, again).Agrees())
	}
}

// TestSplitter: near-duplicates in several splits stay in the first of test, validation and train that has one,
// and are omitted from the others.
func TestSplitter(t *testing.T) {
	var blocks []splitBlock
	add := func(application string, n int, key uint64) {
		for range n {
			blocks = append(blocks, splitBlock{application, key})
		}
	}
	add("large", 77, 1) // train
	add("large", 3, 2)
	add("large", 1, 3)
	add("middle", 9, 4) // test
	add("middle", 1, 2)
	add("small", 8, 5) // validation
	add("small", 1, 3)
	add("small", 1, 2)
	s := newSplitter(blocks)
	for _, c := range []struct {
		application string
		key         uint64
		want        string
	}{
		{"large", 1, Train}, {"middle", 4, Test}, {"small", 5, Validation},
		{"large", 2, LeftOut}, {"small", 2, LeftOut}, {"middle", 2, Test},
		{"large", 3, LeftOut}, {"small", 3, Validation},
	} {
		require.Equal(t, fmt.Sprintf("key %d of %s", c.key, c.application), c.want, s.of(splitBlock{c.application, c.key}))
	}
}

func TestTokens(t *testing.T) {
	for block, want := range map[string]string{
		"480344240831c0":   "add rax, qword ptr [rsp+0x8]|add r64, m64|rax rsp [rsp+0x8]|rax cf of zf;xor eax, eax|xor r32, r32||rax cf of zf",
		"5048c1e104":       "push rax|push r64|rax rsp|rsp [rsp-0x8];shl rcx, 0x4|shl r64, i|rcx|rcx cf of zf",
		"64890c25f8ffffff": "mov dword ptr fs:[0xfffffffffffffff8], ecx|mov m32, r32|rcx|[fs:-0x8]",
		"c4e249b81cc6":     "vfmadd231ps xmm3, xmm6, xmmword ptr [rsi+rax*8]|vfmadd231ps xmm, xmm, m128|rax rsi v3 v6 [rsi+rax*8]|v3",
		"480fb60d10000000": "movzx rcx, byte ptr [rip+0x10]|movzx r64, m8|[rip+0x10]|rcx",
		"480f44c1":         "cmove rax, rcx|cmove r64, r64|rax rcx zf|rax",
	} {
		require.Equal(t, block, want, tokens(block))
	}
}
