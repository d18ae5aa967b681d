package predict

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
)

// table is a file of predictions in memory.
type table struct {
	columns []string
	rows    [][]string
}

func (t *table) Columns() []string { return t.columns }
func (t *table) Close() error      { return nil }
func (t *table) Next() ([]string, error) {
	if len(t.rows) == 0 {
		return nil, io.EOF
	}
	row := t.rows[0]
	t.rows = t.rows[1:]
	return row, nil
}

// shown formats predictions: cycles, or why there are none.
func shown(predictions []score.Prediction) (list []string) {
	for _, p := range predictions {
		if p.Known() {
			list = append(list, strconv.FormatFloat(p.Cycles, 'g', 6, 64))
		} else {
			list = append(list, p.Failure)
		}
	}
	return list
}

func TestFile(t *testing.T) {
	blocks := []string{"90", "4801c0", "50"}
	bhive := &table{[]string{"90", "25"}, [][]string{{"4801C0", " 100.0"}, {"58", "1"}}}
	for _, test := range []struct {
		name, source string
		in           *table
		want         []string
		problem      string
	}{
		{"named columns", "f", &table{[]string{"file", "hex", "cycles"}, [][]string{{"x", "4801c0", "1"}, {"x", "90", "0.25"}}}, []string{"0.25", "1", "not in f"}, ""},
		{"BHive's unit, no header", "f,scale=0.01", bhive, []string{"0.25", "1", "not in f"}, ""},
		{"blocks with 0x and spaces, as a corpus may have", "f", &table{[]string{"0x90", "0.25"}, [][]string{{"48 01 C0", "1"}, {" 0x50", "2"}}}, []string{"0.25", "1", "2"}, ""},
		{"another column", "f,column=uica", &table{[]string{"hex", "asm", "uica"}, [][]string{{"90", "nop", "2"}}}, []string{"2", "not in f", "not in f"}, ""},
		{"by number", "f,column=3", &table{[]string{"hex", "asm", "uica"}, [][]string{{"90", "nop", "2"}}}, []string{"2", "not in f", "not in f"}, ""},
		{"failures", "f", &table{[]string{"hex", "cycles", "failure"}, [][]string{{"90", "", "too hard"}, {"4801c0", "0", ""}, {"50", "-1", ""}}}, []string{"too hard", `f has "0"`, `f has "-1"`}, ""},
		{"the first of two stands", "f", &table{[]string{"hex", "cycles"}, [][]string{{"90", "1"}, {"90", "2"}}}, []string{"1", "not in f", "not in f"}, ""},
		{"no such column", "f,column=x", &table{[]string{"hex", "cycles"}, nil}, nil, "f: it has no column x of cycles; there are hex, cycles"},
		{"which column", "f", &table{[]string{"hex", "a", "b"}, nil}, nil, "f: say which column holds the cycles, with column=NAME; there are hex, a, b"},
		{"no blocks", "f", &table{[]string{"name", "b"}, nil}, nil, `f: it has no column hex, and its first row does not begin with a block: name,b`},
		{"tabs", "f", &table{[]string{"hex\tb"}, nil}, nil, "f: it has no column hex, and its first row does not begin with a block: hex\tb; columns are separated by commas"},
		{"empty", "f", &table{}, nil, "f: it is empty"},
	} {
		s := require.Get(Parse(test.source, Options{Open: func(string) (Rows, error) { return test.in, nil }}))(t)
		got, err := s.Predict(context.Background(), blocks)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if diff := cmp.Diff(test.want, shown(got)); diff != "" || problem != test.problem {
			t.Errorf("%s: error %q, want %q; predictions (-want +got):\n%s", test.name, problem, test.problem, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for source, want := range map[string]string{
		"":                  "no source named",
		"f,column":          `"column" is not a setting`,
		"f,colum=x":         `no setting "colum"; there are scale, column`,
		"f,scale=-1":        "write a number above 0",
		"f,scale=inf":       "write a number above 0",
		"exec:":             "write a command",
		"exec:no-such-tool": "no-such-tool is not installed",
		"llvm-mca-22":       "Debian has it in package llvm-22",
		"osaca":             "pip install osaca",
		"uica":              "github.com/andreas-abel/uiCA",
		"facile":            "github.com/andreas-abel/uiCA",
	} {
		_, err := Parse(source, Options{})
		if usage := (*UsageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", source, err, want)
		}
	}
}

// tools puts shell scripts into PATH, each by its name.
func tools(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// inTime gives a test that starts programs more time if a busy machine left too little.
func inTime(t *testing.T, timeout time.Duration, within func(time.Duration) (diff string)) {
	t.Helper()
	for try := 0; ; try++ {
		diff := within(timeout)
		if diff == "" {
			return
		}
		if try == 3 {
			t.Fatal(diff)
		}
		timeout *= 3
	}
}

// A command that crashes, hangs, answers late, out of order or not at all on a block costs other blocks nothing.
func TestCommand(t *testing.T) {
	tools(t, map[string]string{
		"right":    `while read -r hex; do echo "$hex,1.5"; done`,
		"reversed": `tac | while read -r hex; do echo "$hex,1.5"; done`,
		"refuses":  `while read -r hex; do case $hex in 05) echo "$hex,fail";; 06) echo "$hex,,not on this core";; 07) ;; *) echo "$hex,1.5";; esac; done`,
		"dies":     `while read -r hex; do case $hex in 05|06|13) echo "cannot do $hex" >&2; exit 3;; esac; echo "$hex,1.5"; done`,
		"buffers":  `all=; while read -r hex; do case $hex in 05) exit 3;; esac; all="$all$hex,1.5 "; done; for a in $all; do echo "$a"; done`,
		"hangs":    `while read -r hex; do case $hex in 05) exec sleep 100;; esac; echo "$hex,1.5"; done`,
		"deaf":     `echo 00,1.5`,
		"broken":   `echo "no model" >&2; exit 1`,
	})
	var blocks []string
	for i := range 20 {
		blocks = append(blocks, hex.EncodeToString([]byte{byte(i)}))
	}
	all := func(exceptions map[int]string) []string {
		var want []string
		for i := range blocks {
			text, ok := exceptions[i]
			if !ok {
				text = "1.5"
			}
			want = append(want, text)
		}
		return want
	}
	const died = "exit status 3: cannot do "
	within := func(timeout time.Duration) (diff string) {
		for name, want := range map[string][]string{
			"right":    all(nil),
			"reversed": all(nil),
			"refuses":  all(map[int]string{5: `it answers "fail"`, 6: "not on this core", 7: "no answer"}),
			"dies":     all(map[int]string{5: died + "05", 6: died + "06", 0x13: died + "13"}),
			"buffers":  all(map[int]string{5: "exit status 3: it said nothing"}),
			"hangs":    all(map[int]string{5: fmt.Sprint("no answer within ", timeout)}),
		} {
			s := require.Get(Parse("exec:"+name, Options{Timeout: timeout}))(t)
			got, err := s.Predict(context.Background(), blocks)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if d := cmp.Diff(want, shown(got)); d != "" {
				diff += fmt.Sprintf("%s: predictions (-want +got):\n%s", name, d)
			}
		}
		return diff
	}
	inTime(t, 500*time.Millisecond, within)
	s, err := Parse("exec:broken", Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Predict(context.Background(), blocks)
	if usage := (*UsageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), "it has failed at each of 8 blocks: exit status 1: no model") {
		t.Errorf("a command that never answers gives %v", err)
	}
}

func TestCommandIsInterrupted(t *testing.T) {
	tools(t, map[string]string{"sleeps": "exec sleep 100"})
	s := require.Get(Parse("exec:sleeps", Options{Timeout: time.Minute}))(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Predict(ctx, []string{"90"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an interrupted prediction gives %v", err)
	}
}

// uiCA and facile as their documentation has them: a number, and a line a block.
func TestUICAAndFacile(t *testing.T) {
	tools(t, map[string]string{
		"uiCA.py":   `test "$2 $3 $4 $5" = "-raw -arch SKL -TPonly" || exit 9; case $(od -An -tx1 "$1") in *75*) echo 1.00;; *90*) echo 0.25;; *) echo "cannot" >&2; exit 1;; esac`,
		"facile.py": `test "$1 $3 $5 $6" = "-file -mode -arch SKL" || exit 9; while read -r hex; do case $4$hex in loop*75fb) echo "$hex: 2.00";; unroll*75*|loop*) exit 9;; unroll50) echo "$hex: none";; *) echo "$hex: 1.00";; esac; done <"$2"`,
	})
	for source, want := range map[string][]string{
		"uica,arch=SKL": {"0.25", "exit status 1: cannot", "1", "0.25"},
		"facile":        {"1", "facile wrote none", "2", "1"},
	} {
		s := require.Get(Parse(source, Options{Core: Core{UICA: "SKL"}, Timeout: time.Minute}))(t)
		got, err := s.Predict(context.Background(), []string{"90", "50", "48ffc875fb", "9075fb"})
		if diff := cmp.Diff(want, shown(got)); diff != "" || err != nil {
			t.Errorf("%s: error %v; predictions (-want +got):\n%s", source, err, diff)
		}
	}
}

// The layout is that of osaca --yaml-out.
func TestReadOSACA(t *testing.T) {
	const yaml = "Header:\n  name: x\nKernel:\n- Instruction: add\n  PortPressure:\n  - 9.0\nSummary:\n  CriticalPath: 7.0\n  LCD: 1.0\n  PortPressure:\n  - 0.25\n  - 1.5\n  - 0.0\nTarget:\n  Name: 8.0\n"
	got, err := readOSACA([]byte(yaml))
	if err != nil || len(got) != 1 || got[0].Cycles != 1.5 {
		t.Errorf("predictions %v, %v; want 1.5", got, err)
	}
	got, err = readOSACA([]byte(strings.Replace(yaml, "LCD: 1.0", "LCD: 4.0", 1)))
	if err != nil || len(got) != 1 || got[0].Cycles != 4 {
		t.Errorf("predictions %v, %v; want 4", got, err)
	}
	if got, err := readOSACA([]byte("Error: x")); err == nil {
		t.Errorf("predictions %v of what is no result", got)
	}
}

func TestLLVMMCA(t *testing.T) {
	tool := require.Tool(t, require.LLVM, "llvm-mca-22", "llvm-mca-19")
	s := require.Get(Parse(filepath.Base(tool), Options{MCPU: "znver3", Timeout: 10 * time.Second}))(t)
	blocks := []string{
		"4801c0",                 // add rax, rax: a chain
		"480fafc0",               // imul rax, rax
		"0f1f84e501000000",       // the marker's own form
		"4b8b0cf44885c9786d6d31", // js, then arbitrary bytes
		"",                       // nothing
		"f3480fb8c3",             // popcnt
		"f04801034801c0",         // lock add: the prefix may be on its own line
		"674801c0",               // addr32 changes nothing
		"06",                     // invalid
	}
	got := require.Get(s.Predict(context.Background(), blocks))(t)
	for i, least := range map[int]float64{0: 1, 1: 3, 2: 0.1, 5: 0.2, 6: 1, 7: 1} {
		if !got[i].Known() || got[i].Cycles < least {
			t.Errorf("%s: %v, want at least %v", blocks[i], got[i], least)
		}
	}
	for _, i := range []int{4, 8} {
		if got[i].Known() || got[i].Failure == "" {
			t.Errorf("%q: %v, want a reason why there is none", blocks[i], got[i])
		}
	}
	if math.Abs(got[7].Cycles-got[0].Cycles) > 1e-9 {
		t.Errorf("a prefix without a meaning changes %v to %v", got[0].Cycles, got[7].Cycles)
	}
	if _, err := Parse(filepath.Base(tool), Options{MCPU: "no-such-core", Timeout: 10 * time.Second}); err == nil {
		t.Error("an unknown core is accepted")
	}
}

// TestLLVMMCAQuantum: T(n) counts whole cycles; 0.24 for a block of a quarter cycle is not the model's prediction. So
// only fast blocks run longer, unless the user sets the iterations.
func TestLLVMMCAQuantum(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	tools(t, map[string]string{
		"llvm-mc-0": `sed -n 's/.*0xe5,0x\(..\),.*/nopl \1(%rbp,%riz,8)/p; s/^.0x\(.\)\(.\).$/op \1 \2/p'`,
		// "op a b" takes a³/b cycles.
		"llvm-mca-0": `case "$*" in *--version*) echo "version 0"; exit;; esac
for a in "$@"; do case $a in -iterations=*) n=${a#-iterations=};; esac; done
while read -r op a b; do case "$op $a" in
"op "*) cycles=$((n*a*a*a/b+17));;
"# LLVM-MCA-BEGIN") name=$b;;
"# LLVM-MCA-END") names="$names $name"; regions="$regions$comma{\"Name\":\"$name\",\"SummaryView\":{\"Instructions\":$n,\"TotalCycles\":$cycles}}"; comma=,;;
esac; done
echo "$n$names" >> ` + runs + `
echo "{\"CodeRegions\":[$regions]}"`,
	})
	for _, test := range []struct {
		source string
		want   []string
		runs   string // after that of the check, which knows no nop
	}{
		{"llvm-mca-0", []string{"0.25", "0.166667", "27"}, "50 b0 b1 b2\n100 b0 b1 b2\n7780 b0 b1\n"},
		{"llvm-mca-0,iterations=50", []string{"0.26", "0.16", "27"}, "50 b0 b1 b2\n100 b0 b1 b2\n"},
	} {
		inTime(t, 10*time.Second, func(timeout time.Duration) string {
			s, err := Parse(test.source, Options{MCPU: "x", Timeout: timeout})
			if err != nil {
				return err.Error()
			}
			os.Remove(runs)
			got, err := s.Predict(t.Context(), []string{"14", "16", "31"})
			if err != nil {
				return err.Error()
			}
			ran, err := os.ReadFile(runs)
			if err != nil {
				return err.Error()
			}
			return cmp.Diff(test.want, shown(got)) + cmp.Diff(test.runs, string(ran))
		})
	}
}

// TestLLVMMCAFractions: predicted fractions of a cycle are exact.
func TestLLVMMCAFractions(t *testing.T) {
	tool := require.Tool(t, require.LLVM, "llvm-mca-22", "llvm-mca-19")
	s := require.Get(Parse(filepath.Base(tool), Options{MCPU: "znver4", Timeout: 10 * time.Second}))(t)
	// cmp edx, 0x105 and xor eax, eax: four and six a cycle.
	got := require.Get(s.Predict(t.Context(), []string{"81fa05010000", "31c0"}))(t)
	require.Equal(t, fmt.Sprintf("%v", s), []string{"0.25", "0.166667"}, shown(got))
}

// TestLLVMMCAIterations: half an iteration, or too many for llvm-mca, is bad usage, not a failure of each block.
func TestLLVMMCAIterations(t *testing.T) {
	tools(t, map[string]string{"llvm-mc-0": "", "llvm-mca-0": "echo version 0"})
	for text, ok := range map[string]bool{"1": true, "50": true, "0.5": false, "1e18": false, "0": false} {
		_, err := Parse("llvm-mca-0,iterations="+text, Options{MCPU: "x", Timeout: 10 * time.Second})
		if usage := (*UsageError)(nil); (err == nil) != ok || !ok && !errors.As(err, &usage) {
			t.Errorf("iterations=%s: %v", text, err)
		}
	}
}

// Blocks on which llvm-mca hangs (LLVM 19's and 22's Golden Cove never ends at xsave), or that it cannot parse, cost
// others nothing.
func TestLLVMMCAIsolates(t *testing.T) {
	require.Slow(t)
	tools(t, map[string]string{
		"llvm-mc-0": `sed -n 's/.*0xe5,0x\(..\),.*/nopl \1(%rbp,%riz,8)/p; s/^.0x\(..\).$/op\1/p'`,
		"llvm-mca-0": `case "$*" in *--version*) echo "version 0"; exit;; esac
text=$(cat); n=0; bad=0; regions=
for a in "$@"; do case $a in -iterations=*) iterations=${a#-iterations=};; esac; done
while read -r line; do n=$((n+1)); case $line in
op05) echo "<stdin>:$n:1: error: bogus" >&2; bad=1;;
op06) exec sleep 100;;
op07) echo crash >&2; exit 134;;
"# LLVM-MCA-BEGIN "*) regions="$regions$comma{\"Name\":\"${line#\# LLVM-MCA-BEGIN }\",\"SummaryView\":{\"Instructions\":$iterations,\"TotalCycles\":$((iterations*2+3))}}"; comma=,;;
esac; done <<END
$text
END
test $bad = 0 || exit 1
echo "{\"CodeRegions\":[$regions]}"`,
	})
	inTime(t, time.Second, func(timeout time.Duration) (diff string) {
		s, err := Parse("llvm-mca-0", Options{MCPU: "x", Timeout: timeout})
		if err != nil {
			return err.Error()
		}
		got, err := s.Predict(context.Background(), []string{"01", "02", "05", "03", "06", "07", "04", "08"})
		want := []string{"2", "2", "bogus: op05", "2", fmt.Sprint("no answer within ", timeout), "exit status 134: crash", "2", "2"}
		if err != nil {
			return err.Error()
		}
		return cmp.Diff(want, shown(got))
	})
}

func TestLowerBound(t *testing.T) {
	core := Core{Issue: 6, Loads: 3, Stores: 2}
	for _, test := range []struct {
		name, code string
		cycles     float64
		limit      string
	}{
		{"one add", "4801d8", 1. / 6, FrontEnd},
		{"six adds and one", strings.Repeat("4801d8", 7), 7. / 6, FrontEnd},
		{"a load is the front end's and the ports'", "488b03", 1. / 3, LoadPorts},
		{"two stores", "48890348890b", 1, StorePorts},
		{"read and written", "48ff03", 0.5, StorePorts},
		{"an address is no access", "488d03", 1. / 6, FrontEnd},
		{"a gather loads each element", "62f27d4992040f", 16. / 3, LoadPorts},
	} {
		code := require.Get(hex.DecodeString(test.code))(t)
		insts := require.Get(asm.Decode(code))(t)
		cycles, limit := core.LowerBound(insts)
		if math.Abs(cycles-test.cycles) > 1e-12 || limit != test.limit {
			t.Errorf("%s: %v by %s, want %v by %s", test.name, cycles, limit, test.cycles, test.limit)
		}
		require.Equal(t, test.name, limit, core.Limit(insts, cycles*1.09))
		require.Equal(t, test.name, Latency, core.Limit(insts, cycles*1.11))
	}
}

// Every core of package cpu has a bound.
func TestEveryCoreHasABound(t *testing.T) {
	for _, n := range cpu.Names() {
		if c, ok := CoreOf(string(n)); !ok || c.Name != string(n) || c.Issue == 0 {
			t.Errorf("%s: %+v", n, c)
		}
	}
	if c, ok := CoreOf(string(cpu.Unknown)); ok {
		t.Errorf("%+v", c)
	}
}

// A tool that hangs on one of many blocks is waited for three times, not once per half that holds it.
func TestSilentSeldom(t *testing.T) {
	const bad = 77
	waits := 0
	got := require.Get(inChunks(t.Context(), chunk, chunk, 1, func(_ context.Context, blocks []int) (map[int]score.Prediction, error) {
		if slices.Contains(blocks, bad) {
			waits++
			return nil, errors.New("no answer")
		}
		answers := map[int]score.Prediction{}
		for _, i := range blocks {
			answers[i] = score.Prediction{Cycles: 1}
		}
		return answers, nil
	}))(t)
	for i, p := range got {
		if p.Known() == (i == bad) {
			t.Errorf("block %d: %+v", i, p)
		}
	}
	if waits != 3 {
		t.Errorf("waited %d times, want 3", waits)
	}
}
