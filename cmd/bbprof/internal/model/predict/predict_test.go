package predict

import (
	gocmp "cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

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
	for _, test := range []struct {
		name, source, in string // columns, and a line for each row
		want             []string
		problem          string
	}{
		{"named columns", "f", "file,hex,cycles\nx,4801c0,1\nx,90,0.25", []string{"0.25", "1", "not in f"}, ""},
		{"BHive's unit, no header", "f,scale=0.01", "90,25\n4801C0, 100.0\n58,1", []string{"0.25", "1", "not in f"}, ""},
		{"blocks with 0x and spaces, as a corpus may have", "f", "0x90,0.25\n48 01 C0,1\n 0x50,2", []string{"0.25", "1", "2"}, ""},
		{"another column", "f,column=uica", "hex,asm,uica\n90,nop,2", []string{"2", "not in f", "not in f"}, ""},
		{"by number", "f,column=3", "hex,asm,uica\n90,nop,2", []string{"2", "not in f", "not in f"}, ""},
		{"failures", "f", "hex,cycles,failure\n90,,too hard\n4801c0,0,\n50,-1,", []string{"too hard", `f has "0"`, `f has "-1"`}, ""},
		{"the first of two stands", "f", "hex,cycles\n90,1\n90,2", []string{"1", "not in f", "not in f"}, ""},
		{"no such column", "f,column=x", "hex,cycles", nil, "f: it has no column x of cycles; there are hex, cycles"},
		{"which column", "f", "hex,a,b", nil, "f: say which column holds the cycles, with column=NAME; there are hex, a, b"},
		{"no blocks", "f", "name,b", nil, `f: it has no column hex, and its first row does not begin with a block: name,b`},
		{"tabs", "f", "hex\tb", nil,
			"f: it has no column hex, and its first row does not begin with a block: hex\tb; columns are separated by commas"},
		{"empty", "f", "", nil, "f: it is empty"},
	} {
		s := require.Get(Parse(test.source, Options{Open: func(string) ([]string, iter.Seq2[[]string, error], error) {
			lines := strings.Split(test.in, "\n")
			var columns []string
			if test.in != "" {
				columns = strings.Split(lines[0], ",")
			}
			return columns, func(yield func([]string, error) bool) {
				for _, line := range lines[1:] {
					if !yield(strings.Split(line, ","), nil) {
						return
					}
				}
			}, nil
		}}))(t)
		got, err := s.Predict(context.Background(), []string{"90", "4801c0", "50"})
		require.Equal(t, test.name, test.want, shown(got))
		if problem := fmt.Sprint(err); problem != gocmp.Or(test.problem, "<nil>") {
			t.Errorf("%s: error %q, want %q", test.name, problem, test.problem)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	tools(t, map[string]string{"llvm-mc-0": "", "llvm-mca-0": "echo version 0"})
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
		// half an iteration, or too many for llvm-mca, is bad usage, not a failure of each block
		"llvm-mca-0,iterations=0.5":  "write a whole number from 1",
		"llvm-mca-0,iterations=1e18": "write a whole number from 1",
		"llvm-mca-0,iterations=0":    "write a number above 0",
	} {
		_, err := Parse(source, Options{MCPU: "x", Timeout: 10 * time.Second})
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
		"broken":   `echo "no model" >&2; exit 1`,
	})
	var blocks []string
	for i := range 20 {
		blocks = append(blocks, hex.EncodeToString([]byte{byte(i)}))
	}
	all := func(exceptions map[int]string) (want []string) {
		for i := range blocks {
			want = append(want, gocmp.Or(exceptions[i], "1.5"))
		}
		return want
	}
	const died = "exit status 3: cannot do "
	inTime(t, 500*time.Millisecond, func(timeout time.Duration) (diff string) {
		for name, want := range map[string][]string{
			"right":    all(nil),
			"reversed": all(nil),
			"refuses":  all(map[int]string{5: `it answers "fail"`, 6: "not on this core", 7: "no answer"}),
			"dies":     all(map[int]string{5: died + "05", 6: died + "06", 0x13: died + "13"}),
			"buffers":  all(map[int]string{5: "exit status 3: it said nothing"}),
			"hangs":    all(map[int]string{5: fmt.Sprint("no answer within ", timeout)}),
		} {
			s := require.Get(Parse("exec:"+name, Options{Timeout: timeout}))(t)
			got := require.Get(s.Predict(context.Background(), blocks))(t)
			if d := cmp.Diff(want, shown(got)); d != "" {
				diff += fmt.Sprintf("%s: predictions (-want +got):\n%s", name, d)
			}
		}
		return diff
	})
	_, err := require.Get(Parse("exec:broken", Options{Timeout: time.Minute}))(t).Predict(t.Context(), blocks)
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

// uiCA as its documentation has it: a number; of a loop where the block ends in its branch.
func TestUICA(t *testing.T) {
	tools(t, map[string]string{
		"uiCA.py": `test "$1 $2 $3 $4" = "-raw -TPonly -arch SKL" || exit 9
case $(od -An -tx1 "$5") in *75*) echo 1.00;; *90*) echo 0.25;; *) echo "cannot" >&2; exit 1;; esac`,
	})
	s := require.Get(Parse("uica", Options{Core: cpu.Core{UICA: "SKL"}, Timeout: time.Minute}))(t)
	got := require.Get(s.Predict(context.Background(), []string{"90", "50", "48ffc875fb", "9075fb"}))(t)
	require.Equal(t, "predictions", []string{"0.25", "exit status 1: cannot", "1", "0.25"}, shown(got))
}

// The layout is that of osaca --yaml-out.
func TestReadOSACA(t *testing.T) {
	const yaml = "Header:\n  name: x\nKernel:\n- Instruction: add\n  PortPressure:\n  - 9.0\n" +
		"Summary:\n  CriticalPath: 7.0\n  LCD: 1.0\n  PortPressure:\n  - 0.25\n  - 1.5\n  - 0.0\nTarget:\n  Name: 8.0\n"
	for text, want := range map[string]float64{yaml: 1.5, strings.Replace(yaml, "LCD: 1.0", "LCD: 4.0", 1): 4, "Error: x": 0} {
		if got, err := readOSACA([]byte(text)); got != want || (err == nil) != (want > 0) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
}

func TestLLVMMCA(t *testing.T) {
	tool := filepath.Base(require.Tool(t, require.LLVM, "llvm-mca-22", "llvm-mca-19"))
	parse := func(mcpu string) (Source, error) { return Parse(tool, Options{MCPU: mcpu, Timeout: 10 * time.Second}) }
	blocks := []struct {
		hex   string
		least float64 // 0: none is predicted
	}{
		{"4801c0", 1},                 // add rax, rax: a chain
		{"674801c0", 1},               // addr32 changes nothing
		{"480fafc0", 3},               // imul rax, rax
		{"0f1f84e501000000", 0.1},     // the marker's own form
		{"4b8b0cf44885c9786d6d31", 0}, // js, then arbitrary bytes
		{"", 0},                       // nothing
		{"f3480fb8c3", 0.2},           // popcnt
		{"f04801034801c0", 1},         // lock add: the prefix may be on its own line
		{"06", 0},                     // invalid
	}
	var all []string
	for _, b := range blocks {
		all = append(all, b.hex)
	}
	got := require.Get(require.Get(parse("znver3"))(t).Predict(context.Background(), all))(t)
	for i, b := range blocks {
		if got[i].Known() != (b.least > 0) || got[i].Cycles < b.least || got[i].Known() == (got[i].Failure != "") {
			t.Errorf("%q: %v, want at least %v, or a reason why there is none", b.hex, got[i], b.least)
		}
	}
	if math.Abs(got[1].Cycles-got[0].Cycles) > 1e-9 {
		t.Errorf("a prefix without a meaning changes %v to %v", got[0].Cycles, got[1].Cycles)
	}
	// cmp edx, 0x105 and xor eax, eax: four and six a cycle, exactly.
	got = require.Get(require.Get(parse("znver4"))(t).Predict(t.Context(), []string{"81fa05010000", "31c0"}))(t)
	require.Equal(t, "fractions", []string{"0.25", "0.166667"}, shown(got))
	if _, err := parse("no-such-core"); err == nil {
		t.Error("an unknown core is accepted")
	}
}

// fakeMCA puts testdata/fake-mca.sh into PATH as llvm-mca-0, and returns the list of its runs.
func fakeMCA(t *testing.T) (runs string) {
	runs = filepath.Join(t.TempDir(), "runs")
	t.Setenv("RUNS", runs)
	tools(t, map[string]string{
		"llvm-mc-0":  `sed -n 's/.*0xe5,0x\(..\),.*/nopl \1(%rbp,%riz,8)/p; s/^.0x\(.\)\(.\).$/op \1 \2/p'`,
		"llvm-mca-0": string(require.Get(os.ReadFile("testdata/fake-mca.sh"))(t)),
	})
	return runs
}

// TestLLVMMCAQuantum: T(n) counts whole cycles, so fast blocks run longer, unless the user sets the iterations.
func TestLLVMMCAQuantum(t *testing.T) {
	runs := fakeMCA(t)
	for _, test := range []struct {
		source string
		want   []string
		runs   string // after that of the check, which knows no nop
	}{
		{"llvm-mca-0", []string{"0.25", "0.166667", "27"}, "50 b0 b1 b2\n100 b0 b1 b2\n7780 b0 b1\n"},
		{"llvm-mca-0,iterations=50", []string{"0.26", "0.16", "27"}, "50 b0 b1 b2\n100 b0 b1 b2\n"},
	} {
		inTime(t, 10*time.Second, func(timeout time.Duration) string {
			s := require.Get(Parse(test.source, Options{MCPU: "x", Timeout: timeout}))(t)
			os.Remove(runs)
			got, err := s.Predict(t.Context(), []string{"14", "16", "31"})
			if err != nil {
				return err.Error()
			}
			return cmp.Diff(test.want, shown(got)) + cmp.Diff(test.runs, string(require.Get(os.ReadFile(runs))(t)))
		})
	}
}

// Blocks on which llvm-mca hangs, or that it cannot parse, cost others nothing.
func TestLLVMMCAIsolates(t *testing.T) {
	require.Slow(t)
	fakeMCA(t)
	inTime(t, 300*time.Millisecond, func(timeout time.Duration) (diff string) {
		s := require.Get(Parse("llvm-mca-0,iterations=50", Options{MCPU: "x", Timeout: timeout}))(t)
		got, err := s.Predict(t.Context(), []string{"21", "22", "05", "23", "06", "07", "24", "28"})
		if err != nil {
			return err.Error()
		}
		return cmp.Diff([]string{"8", "4", "bogus: op 0 5", "2.66", fmt.Sprint("no answer within ", timeout), "exit status 134: crash", "2", "1"}, shown(got))
	})
}

// TestNoMoreFiles: where no files are left, neither the core's name nor a block is to blame.
func TestNoMoreFiles(t *testing.T) {
	fakeMCA(t)
	mca := require.Get(Parse("llvm-mca-0", Options{MCPU: "x", Timeout: 10 * time.Second}))(t)
	command := require.Get(Parse("exec:cat", Options{Timeout: 10 * time.Second}))(t)
	var l syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l))
	few := l
	few.Cur = 3
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	_, parsed := Parse("llvm-mca-0", Options{MCPU: "x", Timeout: 10 * time.Second})
	_, asked := mca.Predict(t.Context(), []string{"21", "22"})
	_, run := command.Predict(t.Context(), []string{"21", "22"})
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l))
	for name, err := range map[string]error{"parsing": parsed, "asking": asked, "a command": run} {
		if host := (*verdict.HostError)(nil); !errors.As(err, &host) || host.Remedy != "raise ulimit -n" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLLVMMCASilent: a tool that does not answer is not said not to know the core.
func TestLLVMMCASilent(t *testing.T) {
	fakeMCA(t)
	_, err := Parse("llvm-mca-0", Options{MCPU: "x", Timeout: 1})
	require.Fails(t, "1 ns", err, "version 0, asked about a nop: no answer within 1ns")
}

func TestLowerBound(t *testing.T) {
	core := cpu.Core{DispatchWidth: 6, LoadsPerCycle: 3, StoresPerCycle: 2}
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
		insts := require.Get(asm.DecodeHex(test.code))(t)
		cycles, limit := lowerBound(core, insts)
		if math.Abs(cycles-test.cycles) > 1e-12 || limit != test.limit {
			t.Errorf("%s: %v by %s, want %v by %s", test.name, cycles, limit, test.cycles, test.limit)
		}
		require.Equal(t, test.name, limit, Limit(core, insts, cycles*1.09))
		require.Equal(t, test.name, Latency, Limit(core, insts, cycles*1.11))
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
	known := slices.DeleteFunc(got, func(p score.Prediction) bool { return !p.Known() })
	require.Equal(t, "predictions and waits", []int{chunk - 1, 3}, []int{len(known), waits})
}

// TestLongestChain: the longest chain follows the latencies of single instructions.
func TestLongestChain(t *testing.T) {
	latencies := map[string]map[string]float64{
		"add r64, r64":  {"1 to 1": 1, "2 to 1": 1},
		"imul r64, r64": {"1 to 1": 3, "2 to 1": 3},
		"mov r64, m64":  {"address to 1": 4},
		"mov m64, r64":  {"2 to m": 8},
		"pop r64":       {"rsp to 1": 4, "rsp to rsp": 1},
	}
	for _, test := range []struct {
		name, hex string
		want      float64
	}{
		{"add rax, rax", "4801c0", 1},
		{"imul rax, rbx; add rbx, rax", "480fafc34801c3", 4},
		{"add rax, rcx; add rbx, rcx", "4801c84801cb", 1},
		{"mov rax, [rax]", "488b00", 4},
		{"pop rbx; pop rbp; pop r12", "5b5d415c", 0},
		{"mov rax, [rsi]; add rax, rcx; mov [rsi], rax", "488b064801c8488906", 9},
		{"mov rax, [rsi]; add rax, rcx; mov [rsi+64], rax", "488b064801c848894640", 0},
		{"xor eax, eax; add rax, rcx", "31c04801c8", 0},
	} {
		insts := require.Get(asm.DecodeHex(test.hex))(t)
		var list []map[string]float64
		for i := range insts {
			list = append(list, latencies[insts[i].Form().Name()])
		}
		require.Equal(t, test.name, test.want, longestChain(insts, list), cmpopts.EquateApprox(0, 0.05))
	}
}
