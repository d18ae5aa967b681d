package main

import (
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

var update = flag.Bool("update", false, "copy the README's examples from a run")

// TestREADME runs the examples: each fenced console block is a command behind "$ " and
// what it prints. The digits may differ from run to run, nothing else.
func TestREADME(t *testing.T) {
	require.Measure(t, tryOnce())
	const file = "../../README.md"
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?ms)^```console\n\\$ (.*?)\n(.*?)^```$")
	count := 0
	updated := example.ReplaceAllStringFunc(string(readme), func(block string) string {
		count++
		parts := example.FindStringSubmatch(block)
		command, want := parts[1], parts[2]
		got := runExample(t, command)
		for try := 1; !*update && try < 4 && withoutDigits(got) != withoutDigits(want); try++ {
			got = runExample(t, command) // it may have been disturbed without knowing it
		}
		if !*update && withoutDigits(got) != withoutDigits(want) {
			t.Errorf("$ %s\nprints:\n%s\nthe README says:\n%s\n(make readme copies the examples from a run)", command, got, want)
		}
		return "```console\n$ " + command + "\n" + got + "```"
	})
	if count < 3 {
		t.Errorf("found %d examples", count)
	}
	if *update {
		if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// runExample is what a command prints, tried again when it was disturbed.
func runExample(t *testing.T, command string) string {
	t.Helper()
	var got []byte
	for range 4 {
		// TestMain has put this bbprof on the PATH.
		got, _ = exec.Command("sh", "-c", strings.ReplaceAll(command, "go run ./cmd/bbprof", "bbprof")).CombinedOutput()
		if !disturbed(string(got)) {
			return string(got)
		}
	}
	require.Skip(t, require.Idle, "$ %s\nwas disturbed each time:\n%s", command, got)
	return ""
}

// withoutDigits leaves what stays the same from run to run and from CPU to CPU: numbers
// differ with their signs, and with them the spaces that align them; so do the CPU's name, whether the
// selftest expects a number of it or a band, and whether there are hardware counters.
func withoutDigits(s string) string {
	s = regexp.MustCompile(`(?m)^clocks?: .*`).ReplaceAllString(s, "clocks: some")
	if strings.HasPrefix(s, "bbprof can measure here\n") {
		s = anyHost(s)
	}
	s = regexp.MustCompile(`answers for .*`).ReplaceAllString(s, "answers for a CPU")
	s = regexp.MustCompile(`[+-]?\d+(\.\d+)?(m?s\b)?`).ReplaceAllString(s, "N")
	s = strings.ReplaceAll(s, "N to N", "N")
	return regexp.MustCompile(` +`).ReplaceAllString(s, " ")
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

// TestREADMECommands: the README gives the command that measures and the one for the
// tests, which is also what a merge has to pass.
func TestREADMECommands(t *testing.T) {
	for file, commands := range map[string][]string{
		"../../README.md": {"\n$ go run ./cmd/bbprof -hex 4801c0\n", "\ngo test ./...\n"},
		"../../.ci/run":   {"\tgo test ./...\n"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			if !strings.Contains(string(text), command) {
				t.Errorf("%s does not hold %q", file, command)
			}
		}
	}
}

// TestARCHITECTUREFolders: the table of folders names every package, and imports point down
// it.
func TestARCHITECTUREFolders(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rank := map[string]int{}
	for i, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		rank[row[1]] = i
	}
	const root, module = "../..", "github.com/bbprof/bbprof/"
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
			if to, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module); ours && rank[to] <= at {
				t.Errorf("%s imports %s, which stands above it", path, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestUsage: the help texts name what there is.
func TestUsage(t *testing.T) {
	var names []string
	for _, init := range initial.States() {
		names = append(names, init.Name)
	}
	for _, usage := range []string{usageOne, usageBatch} {
		for _, mode := range profiler.Modes() {
			if !strings.Contains(usage, string(mode)+": ") {
				t.Errorf("mode %s is not told of in:\n%s", mode, usage)
			}
		}
		for _, f := range profiler.FrontEnds() {
			if !strings.Contains(usage, string(f)) {
				t.Errorf("front end %s is not told of in:\n%s", f, usage)
			}
		}
		if d := "(default: " + string(profiler.Modes()[0]) + ")"; !strings.Contains(usage, d) {
			t.Errorf("%q is not in:\n%s", d, usage)
		}
		if d := "(default: " + string(profiler.FrontEnds()[0]) + ")"; !strings.Contains(usage, d) {
			t.Errorf("%q is not in:\n%s", d, usage)
		}
		if states := strings.Join(names, ", "); !strings.Contains(usage, "initial state to use: "+states+"\n") {
			t.Errorf("the initial states are not said to be %s in:\n%s", states, usage)
		}
	}
	if columns := strings.Join(resultfile.NewSchema(false, nil).Names()[:6], ","); !strings.Contains(usageBatch, "\n  "+columns+",...\n") {
		t.Errorf("the first columns are not said to be %s in:\n%s", columns, usageBatch)
	}
	for _, usage := range []string{usageBatch, usageMerge, usageConvert} {
		for _, f := range resultfile.Formats() {
			if !strings.Contains(usage, string(f)) {
				t.Errorf("format %s is not told of in:\n%s", f, usage)
			}
		}
	}
}
