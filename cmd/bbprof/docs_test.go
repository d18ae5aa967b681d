package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/block"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

var update = flag.Bool("update", false, "copy the examples of README.md and docs from a run")

// pages are the README and all pages of docs, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range append(files, "../../README.md", "../../ARCHITECTURE.md", "../../CONTRIBUTING.md") {
		all[file] = string(require.Get(os.ReadFile(file))(t))
	}
	return all
}

// page is one of them, and fences are its fenced blocks of a language.
func page(t *testing.T, name string) string {
	t.Helper()
	return pages(t)["../../"+name]
}

func fences(t *testing.T, name, language string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page(t, name), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no %s", name, language)
	}
	return blocks
}

// TestExamples runs the examples of README.md and docs: each fenced console block is a command after "$ "
// and what it prints. The digits may differ from run to run, nothing else.
func TestExamples(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	example := regexp.MustCompile("(?ms)^```console\n\\$ (.*?)\n(.*?)^```$")
	count := 0
	for file, text := range pages(t) {
		count += len(example.FindAllString(text, -1)) // also those that are skipped on a busy host
		t.Run(filepath.Base(file), func(t *testing.T) {
			updated := example.ReplaceAllStringFunc(text, func(block string) string {
				parts := example.FindStringSubmatch(block)
				command, want := parts[1], parts[2]
				if *update {
					return "```console\n$ " + command + "\n" + runExample(t, command) + "```"
				}
				require.AtMost(t, 1, 3, func() string { // it may have been disturbed without knowing it
					var waited require.Tries
					got := runExample(t, command)
					for began := time.Now(); disturbed(got) && !disturbed(want); got = runExample(t, command) {
						waited.Again(t, time.Since(began), got)
						began = time.Now()
					}
					if diff := cmp.Diff(withoutDigits(want), withoutDigits(got)); diff != "" {
						return fmt.Sprintf("$ %s\nprints:\n%s\nthe page differs, but for digits (make readme copies the "+
							"examples from a run):\n%s", command, got, diff)
					}
					return ""
				})
				return block
			})
			if *update && updated != text {
				require.NoError(t, os.WriteFile(file, []byte(updated), 0o644))
			}
		})
	}
	if count < 8 {
		t.Errorf("found %d examples", count)
	}
}

// TestTenBlocks: each row of docs/ten-blocks.md is measured, on a CPU that has its instructions.
func TestTenBlocks(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	require.Tool(t, require.Binutils, "as")
	rows := regexp.MustCompile("(?m)^\\| .*? \\| `(-.*?)` \\| [0-9.]+ \\| [0-9.]+ \\|$").FindAllStringSubmatch(page(t, "docs/ten-blocks.md"), -1)
	if all := strings.Count(page(t, "docs/ten-blocks.md"), "\n| ") - 1; len(rows) != all || all < 10 {
		t.Errorf("%d of %d rows hold flags and two numbers", len(rows), all)
	}
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			got := runExample(t, "bbprof "+row[1])
			if strings.HasPrefix(got, "rejected: sigill") {
				require.Skip(t, require.CPU, "%s", got)
			}
			if !regexp.MustCompile(`^\d+\.\d+ cycles per iteration`).MatchString(got) {
				t.Errorf("bbprof %s prints:\n%s", row[1], got)
			}
		})
	}
}

// TestLibraryExamples: the Go programs of the pages compile, and take no more than the library needs.
func TestLibraryExamples(t *testing.T) {
	require.Slow(t)
	t.Parallel() // with what measures nothing either
	tool := require.Tool(t, require.Go, "go")
	for _, page := range []string{"README.md", "docs/library.md"} {
		for _, program := range fences(t, page, "go") {
			if !strings.HasPrefix(program, "package") {
				program = "package main\nimport (\n\"context\"\n\"fmt\"\n\"log\"\n\"github.com/bbprof/bbprof/profiler\"\n)\nfunc main() {\n" + program + "}\n"
			}
			file, binary := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "main")
			require.NoError(t, os.WriteFile(file, []byte(program), 0o644))
			build := exec.Command(tool, "build", "-ldflags=-s -w", "-o", binary, file)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Errorf("%s: %v:\n%s", page, err, out)
				continue
			}
			const most = 5_000_000
			if size := require.Get(os.Stat(binary))(t).Size(); size >= most {
				t.Errorf("%s: a program has %d bytes, want less than %d", page, size, most)
			}
		}
	}
}

// TestCountingInGo: the Go test of docs/counting.md passes for what does not grow, and fails for what does.
func TestCountingInGo(t *testing.T) {
	require.Slow(t)
	t.Parallel() // with what measures nothing either
	tool, gcc := require.Tool(t, require.Go, "go"), require.Tool(t, require.GCC, "gcc")
	dir := t.TempDir()
	file := filepath.Join(dir, "sums_test.go")
	require.NoError(t, os.WriteFile(file, []byte(fences(t, "docs/counting.md", "go")[0]), 0o644))
	for level, passes := range map[string]bool{"-O2": true, "-O0": false} {
		if out, err := exec.Command(gcc, level, "-o", filepath.Join(dir, "sums2"), "../../testdata/programs/sums.c").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		test := exec.Command(tool, "test", "-count=1", file)
		test.Dir = dir
		out, err := test.CombinedOutput()
		if passes != (err == nil) || !passes && !strings.Contains(string(out), "product grows: the ratio is 82.370") {
			t.Errorf("%s: %v\n%s", level, err, out)
		}
	}
}

// TestMaintainersPatch: the script of docs/maintainer.md changes what llvm-mca says of stores.
func TestMaintainersPatch(t *testing.T) {
	require.Slow(t)
	t.Parallel() // with what measures nothing either
	python, mca := require.Tool(t, require.Python, "python3"), require.Tool(t, require.LLVM, "llvm-mca-22")
	library, err := filepath.EvalSymlinks("/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1")
	if err != nil {
		require.Skip(t, require.LLVM, "%v", err)
	}
	dir := t.TempDir()
	script := fences(t, "docs/maintainer.md", "python")[0]
	out, err := exec.Command(python, "-c", script, "Zn4Store", "4", library, filepath.Join(dir, "libLLVM.so.22.1")).CombinedOutput()
	if err != nil || string(out) != "Zn4Store had 2 units\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	for path, want := range map[string]string{"": "Total Cycles:      1002", dir: "Total Cycles:      670"} {
		cmd := exec.Command(mca, "-mcpu=znver4", "-iterations=1000")
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+path)
		cmd.Stdin = strings.NewReader("mov %r15, (%r12)\n")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("LD_LIBRARY_PATH=%s: want %s: %v\n%.300s", path, want, err, out)
		}
	}
}

// TestTutorial does what the tutorial says, and then what docs/compare.md does with the same files.
func TestTutorial(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	require.Tool(t, require.GCC, "gcc")
	dir := t.TempDir()
	var script strings.Builder
	fence := regexp.MustCompile("(?ms)^```(c|sh)\n(.*?)^```$")
	text := page(t, "docs/tutorial.md")
	if _, err := exec.LookPath("valgrind"); err == nil {
		text += page(t, "docs/compare.md")
	}
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		language, text := block[1], block[2]
		if language == "sh" {
			script.WriteString(text)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "/* "), " */")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	sh := inContext(t, "sh", "-ex", "-c", script.String())
	sh.Dir = dir
	out, err := sh.CombinedOutput()
	if err == nil {
		return
	}
	require.Patience(t)
	if disturbed(string(out)) {
		require.Skip(t, require.Idle, "%s", out)
	}
	t.Fatalf("%v:\n%s", err, out)
}

// TestReasonsPage: docs/reference.md has a section for each reason of a rejection and for nothing else,
// and its examples are rejected for the reason that they stand under.
func TestReasonsPage(t *testing.T) {
	_, text, _ := strings.Cut(page(t, "docs/reference.md"), "\n## Reasons\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var listed []verdict.Reason
	for _, section := range regexp.MustCompile(`(?m)^### `).Split(text, -1)[1:] {
		name, body, _ := strings.Cut(section, "\n")
		reason := verdict.Reason(strings.Trim(name, "`"))
		listed = append(listed, reason)
		if !strings.Contains(body, "**Do**: ") {
			t.Errorf("%s: the page does not say what to do", reason)
		}
		example := regexp.MustCompile("(?m)^Example: `(bbprof .*)`$").FindStringSubmatch(body)
		if example == nil {
			continue
		}
		t.Run(string(reason), func(t *testing.T) {
			mustMeasure(t)
			if got := runExample(t, example[1]); !strings.HasPrefix(got, "rejected: "+string(reason)+"\n") {
				t.Errorf("$ %s\nprints:\n%s", example[1], got)
			}
		})
	}
	require.Equal(t, "the reasons, and those of the page (+)", verdict.Reasons(), listed)
}

// TestJSONPage: docs/reference.md has each key of a block's JSON, docs/compare.md each of a comparison's own, and no key has a
// name of Go's.
func TestJSONPage(t *testing.T) {
	var r block.Result
	var c study.Comparison
	fill(reflect.ValueOf(&r).Elem())
	fill(reflect.ValueOf(&c).Elem())
	r.Status, r.Init.Vectors = profiler.OK, []initial.Vector{{Reg: 3, Bits: 128}}
	explained := func(keys map[string]bool, name string, least int) {
		for key := range keys {
			if !strings.Contains(page(t, name), "`"+key+"`") {
				t.Errorf("%s does not explain the key %s", name, key)
			}
			if !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(key) {
				t.Errorf("the key %s is no column's name", key)
			}
		}
		if len(keys) < least {
			t.Errorf("%s: found %d keys: %v", name, len(keys), keys)
		}
	}
	var object map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(require.Get(json.Marshal(c))(t), &object))
	keys, ofComparison := map[string]bool{}, map[string]bool{}
	for key := range object {
		ofComparison[key] = true
	}
	explained(ofComparison, "docs/compare.md", 20)
	jsonKeys(require.Get(json.Marshal(r))(t), keys)
	explained(keys, "docs/reference.md", 80)
	// The keys of registers are the registers; xmm3 stands for the others.
	_, section, _ := strings.Cut(page(t, "docs/reference.md"), "## JSON of one block")
	section, _, _ = strings.Cut(section, "\n`bbprof sweep -json`")
	for _, name := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(section, -1) {
		known := slices.Contains([]string{"rax", "r15", "k0", "k7", "error", "both"}, name[1])
		if !known && !keys[name[1]] && !slices.Contains(resultfile.Reserved(), name[1]) {
			t.Errorf("docs/reference.md explains %s, which is no key", name[1])
		}
	}
}

// fill sets all there is in a value to something other than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanConvert(reflect.TypeFor[int]()) {
			v.Set(reflect.ValueOf(1).Convert(v.Type()))
		}
	}
}

// jsonKeys gathers the keys of all objects in a text, but for the registers but one.
func jsonKeys(text []byte, keys map[string]bool) {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case json.Unmarshal(text, &object) == nil:
		for key, value := range object {
			if gpr := regexp.MustCompile(`^(r[a-z0-9]+|xmm3)$`).MatchString(key) && object["fs_base"] != nil; gpr {
				continue
			}
			keys[key] = true
			jsonKeys(value, keys)
		}
	case json.Unmarshal(text, &list) == nil:
		for _, value := range list {
			jsonKeys(value, keys)
		}
	}
}

// TestConstantsPage: each row of docs/constants.md names a constant of the file that it names, with its value as the source has it.
func TestConstantsPage(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\(([a-z/_]+\\.go)\\) \\| `([^`]+)` \\|").FindAllStringSubmatch(page(t, "docs/constants.md"), -1)
	if len(rows) < 80 {
		t.Errorf("found %d constants", len(rows))
	}
	for _, row := range rows {
		text, err := os.ReadFile(filepath.Join("../..", row[2]))
		if err != nil {
			t.Error(err)
			continue
		}
		source := regexp.MustCompile(`(?m)^(?:const |\t)` + row[1] + `(?: \w+)? += (.*?)(?: +//.*)?$`).FindStringSubmatch(string(text))
		if source == nil || source[1] != row[3] {
			t.Errorf("docs/constants.md has %s = %s, and %s has %q", row[1], row[3], row[2], source)
		}
	}
}

// TestDocsSize: the docs can be read in an afternoon, and the README is one screen and a half.
func TestDocsSize(t *testing.T) {
	if lines := strings.Count(page(t, "README.md"), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, more than 150: move some to docs", lines)
	}
	count, words := 0, 0
	for file, text := range pages(t) {
		if filepath.Base(filepath.Dir(file)) == "docs" {
			count++
			words += len(strings.Fields(text))
		}
	}
	if count > 25 || words > 40_000 {
		t.Errorf("docs has %d pages of %d words in all, more than 25 and 40,000: take as many words out of the page that you changed", count, words)
	}
}

// TestLinks: what a page links to is there, with its heading, the index of docs lists every page, and a page shows every picture.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	all := pages(t)
	listed, linked := map[string]bool{}, map[string]bool{}
	for file, text := range all {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			target := file
			if l[1] != "" {
				target = filepath.Join(filepath.Dir(file), l[1])
			}
			linked[target] = true
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", file, l[1])
			}
			if l[2] != "" && !slices.Contains(anchors(all[target]), l[2]) {
				t.Errorf("%s links to %s#%s, a heading that is not there", file, l[1], l[2])
			}
			if filepath.Base(file) == "README.md" && filepath.Base(filepath.Dir(file)) == "docs" {
				listed[target] = true
			}
		}
	}
	for file := range all {
		if filepath.Base(file) != "README.md" && filepath.Base(filepath.Dir(file)) == "docs" && !listed[file] {
			t.Errorf("docs/README.md does not list %s", file)
		}
	}
	pictures, err := filepath.Glob("../../docs/*.svg")
	if err != nil || len(pictures) == 0 {
		t.Fatalf("%d pictures: %v", len(pictures), err)
	}
	for _, file := range pictures {
		if !linked[file] {
			t.Errorf("no page shows %s", file)
		}
	}
}

// anchors are what links can name in a page, as GitHub derives them from its headings.
func anchors(page string) (all []string) {
	page = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "") // examples, which have comments
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

// runExample is what a command prints, tried again when it was disturbed.
func runExample(t *testing.T, command string) string {
	t.Helper()
	var waited require.Tries
	for {
		began := time.Now()
		unshown := filepath.Join(t.TempDir(), "unshown") // it may say why what the page shows is not there
		said := shell(t, strings.ReplaceAll(command, ">/dev/null", ">"+unshown))
		other, _ := os.ReadFile(unshown)
		all := said + string(other)
		require.Patience(t)
		switch {
		case disturbed(all):
			waited.Again(t, time.Since(began), "$ "+command+"\n"+all)
		case neverIdle(said):
			require.Skip(t, require.Idle, "$ %s\n%s", command, said)
		case disturbed(said), strings.Contains(said, "holds no block that was measured"):
			waited.Again(t, time.Since(began), "$ "+command+"\n"+said)
		default:
			return busy.ReplaceAllString(said, "")
		}
	}
}

// shell gives what a command writes. TestMain has put this bbprof on the PATH.
func shell(t *testing.T, command string) string {
	t.Helper()
	out, _ := inContext(t, "sh", "-c", strings.ReplaceAll(command, "go run ./cmd/bbprof", "bbprof")).CombinedOutput()
	return string(out)
}

// inContext is a command that ends, with all that it starts, when the test has measured for long enough ([require.Context]).
func inContext(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(require.Context(t), name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// busy are the lines that a command adds on a busy host, whose result holds all the same.
var busy = regexp.MustCompile(`(?m)^(bbprof: other work shares the CPU;|bbprof: .* (left|to go)$|warning +no idle moment was left).*\n`)

// withoutDigits leaves what stays the same from run to run and from CPU to CPU: numbers
// differ with their signs, and with them the spaces that align them; so do the CPU's name, whether the
// selftest expects a number of it or a band, and whether there are hardware counters.
func withoutDigits(s string) string {
	if strings.HasPrefix(s, "bbprof can measure here\n") {
		s = anyHost(s)
	}
	for _, r := range [][2]string{
		{`(?m)^clocks?: .*`, "clocks: some"},
		{`(?m)^ +(other work slowed|bbprof's start saw no core as idle) .*\n`, ""}, // beside a neighbour
		{`(?m)^bbprof: \d+ measurements done\n`, ""},                               // the progress of what took long
		{`(?m)^host +.*`, "host"},
		{`(?m)^bbprof: on .*`, "bbprof: on a CPU"},
		{`answers for .*`, "answers for a CPU"},
		{`[+-]?\d+(\.\d+)?(m?s\b)?`, "N"},
		{`N to N`, "N"},
		{`N and N( copies in its body| turns)`, "N$1"}, // either differs between a loop's images
		{` +`, " "},
	} {
		s = regexp.MustCompile(r[0]).ReplaceAllString(s, r[1])
	}
	return s
}

// anyHost leaves of doctor's report what all hosts that can measure have: the names of its
// lines, but not what each says of a host, and not what there is to mend.
func anyHost(s string) string {
	s, _, _ = strings.Cut(s, "\nwhat could be better\n")
	s, _, _ = strings.Cut(s, "\nnothing else to mend\n")
	s = regexp.MustCompile(`(?m)^( {12}|    \? ).*\n?`).ReplaceAllString(s, "") // further lines of one
	s = regexp.MustCompile(`(?m)^(speculation|[a-z]+ ) .*`).ReplaceAllString(s, "$1")
	s = regexp.MustCompile(`(?m)^(  [a-z ]+[a-z])  +(met|partly met|not met|not found out) .*`).ReplaceAllString(s, "$1")
	s = strings.ReplaceAll(s, " ?", " 0.00") // a price that was not found out
	return strings.TrimRight(s, "\n")
}

// TestARCHITECTUREFolders: the table of folders names every package, and imports point down
// it and never from one application to another; only main imports commands, and cli knows no block.
func TestARCHITECTUREFolders(t *testing.T) {
	rank := map[string]int{}
	for i, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|").FindAllStringSubmatch(page(t, "ARCHITECTURE.md"), -1) {
		rank[row[1]] = i
	}
	const root, module = "../..", "github.com/bbprof/bbprof/"
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		from, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		at, ok := rank[filepath.ToSlash(from)]
		if !ok {
			t.Errorf("%s is not in the table, and %s is in it", from, path)
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			to, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if ours && rank[to] <= at {
				t.Errorf("%s imports %s, which stands above it", path, to)
			}
			if ours && slices.Contains(subjects, strings.TrimPrefix(to, internal)) && from != filepath.FromSlash("cmd/bbprof") {
				t.Errorf("%s imports the commands of %s: what two subjects need stands below them", path, to)
			}
			if to := strings.TrimPrefix(to, internal); ours && filepath.ToSlash(from) == internal+"cli" && !slices.Contains([]string{"words", "atomicfile", "journal"}, to) {
				t.Errorf("%s imports %s: cli is to know nothing of bbprof", path, to)
			}
			if a, b := application(filepath.ToSlash(from)), application(to); a != "" && b != "" && a != b {
				t.Errorf("%s imports %s: %s and %s are to know nothing of each other", path, to, a, b)
			}
		}
		return nil
	}))
}

// TestThreatModel: the tests that the page calls as witnesses exist.
func TestThreatModel(t *testing.T) {
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	}))
	for _, name := range regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w+`).FindAllString(page(t, "docs/threat-model.md"), -1) {
		if !strings.Contains(tests.String(), "\nfunc "+name+"(") {
			t.Errorf("docs/threat-model.md names %s, which is not there", name)
		}
	}
}

const internal = "cmd/bbprof/internal/"

// subjects are the packages of commands.
var subjects = []string{"block", "corpus", "study", "model", "program", "host"}

// application is which of the applications that are independent of each other a package belongs to, "" for commands and
// what all share.
func application(folder string) string {
	rest, _ := strings.CutPrefix(folder, internal)
	if slices.Contains(subjects, rest) {
		return ""
	}
	switch s, _, _ := strings.Cut(rest, "/"); s {
	case "corpus", "model", "study", "program":
		return s
	}
	return ""
}

// TestNamedFiles: the files that the pages for developers name are there.
func TestNamedFiles(t *testing.T) {
	named := regexp.MustCompile("`([A-Za-z0-9_./-]+/[A-Za-z0-9_.-]+\\.[a-z]+|[a-z0-9]+(/[a-z0-9]+)+)`")
	for _, file := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		for _, name := range named.FindAllStringSubmatch(page(t, file), -1) {
			found := strings.Contains(name[1], "NAME")           // stands for any
			for _, root := range []string{"../..", "internal"} { // corpus/batch is below cmd/bbprof/internal
				_, err := os.Stat(filepath.Join(root, name[1]))
				found = found || err == nil
			}
			if !found {
				t.Errorf("%s names %s, which is not there", file, name[1])
			}
		}
	}
}
