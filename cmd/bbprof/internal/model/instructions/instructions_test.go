package instructions

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/forms"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func planOf(name string) Plan { return NewPlan(asm.FormNamed(name)) }

func textOf(t *testing.T, code []byte) string { return asm.Text(require.Get(asm.Decode(code))(t)) }

// TestChains: the block of each pair of operands is a chain through that pair and, if possible, no other.
func TestChains(t *testing.T) {
	for _, row := range require.Table(t, "chains.txt") {
		form, pair, want := row[0], row[1], row[2]
		got := "no such pair"
		for _, probe := range planOf(form).Probes {
			if probe.Pair == pair && (pair != "" || probe.Kind == Throughput) {
				got = textOf(t, probe.Code)
			}
		}
		if start, cut := strings.CutSuffix(want, "…"); got != want && !(cut && strings.HasPrefix(got, start)) {
			t.Errorf("%s, %s: %s, want %s", form, pair, got, want)
		}
	}
}

// TestPlans: every permitted form has a block, and every block decodes and may run.
func TestPlans(t *testing.T) {
	for _, f := range forms.Select(nil, false) {
		p := NewPlan(&f)
		if p.Refused == "" && len(p.Probes) == 0 && len(p.Missing) == 0 {
			t.Errorf("%s: nothing to measure, and no reason", f.Name())
		}
		for _, probe := range p.Probes {
			insts, err := asm.Decode(probe.Code)
			if err != nil || len(insts) == 0 || probe.Links < 1 {
				t.Errorf("%s, %s: %x with %d links: %v", f.Name(), probe.Pair, probe.Code, probe.Links, err)
				continue
			}
			if r := asm.Refuse(insts); r != nil {
				t.Errorf("%s, %s: %v", f.Name(), probe.Pair, r)
			}
		}
	}
}

// fake is a core that answers by a block's mnemonics and set-up.
type fake func(text string, s profiler.Setup) (cycles float64, rejected verdict.Reason)

func (f fake) ProfileAll(_ context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	for b, ok := next(); ok; b, ok = next() {
		insts, err := asm.Decode(b.Code)
		if err != nil {
			return err
		}
		var list []string
		for i := range insts {
			list = append(list, insts[i].Mnemonic)
		}
		cycles, reason := f(strings.Join(list, " "), b.Setup)
		result := profiler.Result{Status: profiler.OK, Cycles: cycles, CILow: cycles - 0.01, CIHigh: cycles + 0.01}
		if reason != "" && len(b.Setup.Tolerate) == 0 {
			result = profiler.Result{Status: profiler.Rejected, Reason: reason, Rejection: &verdict.Rejection{Reason: reason, Detail: "why"}}
		}
		done(result, nil)
	}
	return nil
}

func always(cycles float64) fake {
	return func(string, profiler.Setup) (float64, verdict.Reason) { return cycles, "" }
}

// measured measures with two workers, of a core that begins six instructions a cycle.
func measured(t *testing.T, core fake, plans ...Plan) []Row {
	t.Helper()
	return require.Get(Measure(context.Background(), []pool.Measurer{core, core}, plans, 0, 6, nil))(t)
}

// TestMeasure: bridges are subtracted, missing instructions asked for once, unsteady numbers are means.
func TestMeasure(t *testing.T) {
	var asked atomic.Int32 // two workers ask
	rows := measured(t, func(text string, _ profiler.Setup) (float64, verdict.Reason) {
		switch {
		case text == "movq movq":
			return 5, ""
		case text == "cvtsi2sd movq":
			return 8.5, ""
		case strings.HasPrefix(text, "crc32"):
			asked.Add(1)
			return 0, verdict.SIGILL
		case text == "cvtsi2sd":
			return 4, verdict.Nonlinear
		}
		return 12, ""
	}, planOf("cvtsi2sd xmm, r64"), planOf("crc32 r64, r64"), planOf("cli"))
	require.Equal(t, "it", "1 to 1: 4.00; 2 to 1: 6.00 (less vector to general)", rows[0].List(Latency))
	require.Equal(t, "the largest latency", 6.0, rows[0].Latency.Cycles())
	if rows[0].Detail != "1 to 1: a mean: why" || rows[0].All[0].Mean != string(verdict.Nonlinear) {
		t.Errorf("detail %q, a mean because of %q", rows[0].Detail, rows[0].All[0].Mean)
	}
	if rows[1].Reason != string(verdict.SIGILL) || asked.Load() > 2 {
		t.Errorf("reason %q after %d blocks", rows[1].Reason, asked.Load())
	}
	require.Equal(t, "cli", string(verdict.Privileged), rows[2].Reason)
}

// TestOutput: a destination that is only written is waited for where one takes a whole number of cycles, and clearly
// longer than several.
func TestOutput(t *testing.T) {
	for _, c := range []struct {
		form     string
		one, all float64 // cycles an instruction, with one destination and with several
		rejected verdict.Reason
		want     string
	}{
		{"vpmovm2b xmm, k", 3, 1. / 3, "", "1 to 1 as an output dependency: 3.00"},
		{"popcnt r64, r64", 1, 1, "", ""},
		{"popcnt r64, r64", 1, 0.7, "", ""},
		{"popcnt r64, r64", 2.3, 1, "", ""},
		{"popcnt r64, r64", 3, 1, verdict.Unstable, ""}, // a mean
		{"bsf r64, r64", 3, 1, "", ""},                  // reads it
	} {
		row := measured(t, func(text string, _ profiler.Setup) (float64, verdict.Reason) {
			if n := len(strings.Fields(text)); n > 2 {
				return float64(n) * c.all, ""
			}
			return c.one, c.rejected
		}, planOf(c.form))[0]
		require.Equal(t, c.form, c.want, row.List(Output))
		judged := slices.ContainsFunc(row.judged(), func(m *Measurement) bool { return m.Kind == Output })
		require.Equal(t, c.form+" is judged", c.want != "", judged)
	}
}

// TestDoubt: an odd number is repeated once in a row, then in a loop; the faster counts, the interval holds all.
func TestDoubt(t *testing.T) {
	const chain, eleven = "not", "not not not not not not not not not not not"
	for _, c := range []struct {
		form, text  string
		rows, loops []float64 // cycles an instruction; 0 is rejected
		want        float64
		flags       string
		high        float64 // of an interval of all; 0: of one
	}{
		{"not r64", eleven, []float64{0.502}, nil, 0.502, "", 0},
		{"not r64", eleven, []float64{0.505, 0.501}, nil, 0.501, "", 0},
		{"not r64", eleven, []float64{0.85, 0.85}, []float64{0.5}, 0.5, "-mode loop", 0},
		{"not r64", eleven, []float64{0.85, 0.85}, []float64{0.69, 0.68}, 0.68, "-mode loop", 0.85},
		{"not r64", eleven, []float64{0.69, 0.69}, []float64{0.69, 0.68}, 0.68, "-mode loop", 0},
		{"not r64", eleven, []float64{0.85, 0.85}, []float64{0, 0.68}, 0.68, "-mode loop -unroll 46,92", 0.85},
		{"not r64", eleven, []float64{0.85, 0.84}, []float64{0, 0}, 0.84, "", 0},
		{"not r64", chain, []float64{1.07, 1.07}, []float64{1.016}, 1.016, "-mode loop", 0},
		{"not r64", chain, []float64{1.97, 1.95}, []float64{1.9}, 1.9, "-mode loop", 0},
		{"not r64", chain, []float64{2.05, 2.06}, []float64{2.04}, 2.04, "-mode loop -unroll 512,1024", 0},
		{"not r64", chain, []float64{1.07, 1.07}, []float64{0, 1.016}, 1.016, "-mode loop -unroll 512,1024", 0},
		{"not m64", chain, []float64{7.34, 7.36}, nil, 7.34, "", 0},
		{"vgetexpph zmm, zmm", "vgetexpph", []float64{2.2, 2.3}, nil, 2.2, "", 0},
	} {
		rows, loops, n := slices.Clone(c.rows), slices.Clone(c.loops), float64(len(strings.Fields(c.text)))
		core := fake(func(text string, s profiler.Setup) (float64, verdict.Reason) {
			list := &rows
			if s.Mode == profiler.Loop {
				list = &loops
			}
			if text != c.text || len(*list) == 0 {
				return 12, ""
			}
			v := (*list)[0]
			if *list = (*list)[1:]; v == 0 {
				return 0, verdict.ContextSwitch
			}
			return n * v, ""
		})
		plan := planOf(c.form)
		plan.Probes = slices.DeleteFunc(plan.Probes, func(p Probe) bool { return p.Kind == Output }) // of one instruction, too
		all := require.Get(Measure(context.Background(), []pool.Measurer{core}, []Plan{plan}, 0, 6, nil))(t)[0].All
		m := all[slices.IndexFunc(all, func(m Measurement) bool { return len(strings.Split(textOf(t, m.Code), ";")) == int(n) })]
		high := max(c.want, c.high) + 0.01/n
		if math.Abs(m.Cycles()-c.want) > 1e-9 || m.Flags != c.flags || len(rows)+len(loops) > 0 ||
			math.Abs(m.Value.High-high) > 1e-9 || m.Varies > 0 != (c.high > 0) {
			t.Errorf("%s, %v and in loops %v: %v up to %v by %q, want %v up to %v by %q; not asked for: %v %v",
				c.form, c.rows, c.loops, m.Value, m.Value.High, m.Flags, c.want, high, c.flags, rows, loops)
		}
	}
}

// TestShortRow: a chain with another whole number of cycles in a short row has both; its latency is the long row's.
func TestShortRow(t *testing.T) {
	for latencies, c := range map[string]struct{ short, long, loop float64 }{ // no short row: no fixed time in it
		"2 to 1: 2.00; 2 to 1 in a short row: 1.00": {1, 2, 2},
		"2 to 1: 2.00": {2.01, 2, 2},
		"2 to 1: 4.00": {1.4, 4, 4}, // the start of a row
		"2 to 1: 3.00": {0, 3, 2},
		"2 to 1: 1.00": {2, 1, 1},
	} {
		rows := measured(t, func(_ string, s profiler.Setup) (float64, verdict.Reason) {
			switch {
			case s.Mode == profiler.Loop:
				return c.loop, ""
			case s.Unroll == nil || s.Unroll.Long > 32:
				return c.long, ""
			case c.short == 0:
				return 0, verdict.Nonlinear
			}
			return c.short, ""
		}, planOf("pshufd xmm, xmm, i8"))
		require.Equal(t, latencies, latencies, rows[0].List(Latency, OtherLatency))
	}
}

// TestMoves: movs reads what its predecessor wrote only in the probe through memory.
func TestMoves(t *testing.T) {
	got := map[Kind]string{}
	for _, p := range planOf("movs m32, m32").Probes {
		got[p.Kind] = p.Set.String()
	}
	require.Equal(t, "it", map[Kind]string{Throughput: "rdi=0x12406880", StoreToLoad: "rdi=0x12406684"}, got)
}

// TestDisagreements: a model's latency is its block's minus its bridges'; inside the interval is agreement.
func TestDisagreements(t *testing.T) {
	rows := measured(t, always(6), planOf("vaddps xmm, xmm, xmm"))
	blocks := Blocks(rows)
	cycles := map[string]float64{blocks[0]: 9, blocks[1]: 6.0}
	list, judged := Disagreements(rows, 0.02, cycles)
	if judged != 2 || len(list) != 1 || list[0].Model != 9 || list[0].Times() != 1.5 {
		t.Errorf("%v judged: %+v", judged, list)
	}
	through := Row{Latency: &Measurement{Probe: Probe{Pair: "m to m", Links: 1, body: body{Code: []byte{0xff, 6}}}, Value: Value{7, 7, 7}}}
	if list, judged := Disagreements([]Row{through}, 0.02, map[string]float64{"ff06": 1}); judged != 1 || len(list) != 1 || !list[0].throughMemory() {
		t.Errorf("through memory: %v judged: %+v", judged, list)
	}
	load := Row{Load: &Measurement{Probe: Probe{Kind: LoadLatency, Links: 1, Others: 2, body: body{Code: []byte{0x90}}}, Value: Value{5, 5, 5}}}
	cycles = map[string]float64{"90": 9, "4883e7004809f7": 4} // putting the address back takes two cycles each
	if list, _ := Disagreements([]Row{load}, 0.02, cycles); len(list) != 0 || !slices.Contains(Blocks([]Row{load}), "4883e7004809f7") {
		t.Errorf("a load beside others: %+v", list)
	}
	cycles = map[string]float64{blocks[0]: 9, blocks[1]: 6.0}
	rows[0].Latency.Mean = string(verdict.Unstable)
	if list, _ := Disagreements(rows, 0.02, cycles); len(list) != 1 || !strings.HasSuffix(list[0].Title(), ", a mean") {
		t.Errorf("a mean is called %q", list[0].Title())
	}
}

func TestSnippets(t *testing.T) {
	snippet := string(require.Get(os.ReadFile("testdata/snippet.yaml"))(t))
	plans := require.Get(ReadSnippets(strings.NewReader(snippet)))(t)
	require.Equal(t, "code", "cvtsi2sd xmm10, edx; vcvttsh2usi r13d, xmm10", textOf(t, plans[0].Probes[0].Code))
	rows := measured(t, always(12), plans...)
	out, n, _ := Exegesis(rows, latencyMode, "")
	require.Equal(t, "documents", 1, n)
	const measurement = "  - { key: latency, value: 6.0000, per_snippet_value: 12.0000, validation_counters: {} }\nerror:           ''\n"
	for _, want := range []string{measurement, "- 'EDX=0x0'"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, bad := range []string{"", "mode: uops\n", strings.Replace(snippet, "latency", "uops", 1), strings.Replace(snippet, "4155", "41zz", 1)} {
		if _, err := ReadSnippets(strings.NewReader(bad)); err == nil {
			t.Errorf("%.40q is read", bad)
		}
	}
	cut := strings.Replace(snippet, "C3\n", "\n", 1) // it does not return
	if plans, err := ReadSnippets(strings.NewReader(cut)); err != nil || len(plans[0].Missing) != 1 {
		t.Errorf("a snippet that does not return: %v, %+v", err, plans)
	}
}

// TestExegesisAnalysis: llvm-exegesis reads the output without a warning and keeps every point.
func TestExegesisAnalysis(t *testing.T) {
	tool := require.Tool(t, require.LLVM, "llvm-exegesis-22")
	var plans []Plan
	for _, f := range forms.Select(regexp.MustCompile("^(v?add.*|imul|mov|lea|v?pshufd|cmov.*|kandw|vpternlogd|fadd)$"), true) {
		plans = append(plans, NewPlan(&f))
	}
	rows := measured(t, always(12), plans...)
	require.NoError(t, NameOpcodes(context.Background(), require.Tool(t, require.LLVM, "llvm-mc-22"), rows))
	for i := range rows {
		if rows[i].Name == "vaddps zmm, zmm, zmm" && rows[i].Operands != "VADDPSZrr ZMM1 ZMM2 ZMM3" {
			t.Errorf("%s is %q to LLVM", rows[i].Name, rows[i].Operands)
		}
	}
	for _, mode := range ExegesisModes() {
		out, n, _ := Exegesis(rows, mode, "graniterapids")
		if n < 100 {
			t.Fatalf("%s: %d documents", mode, n)
		}
		file := require.File(t, mode+".yaml", out)
		page := file + ".html"
		said, err := exec.Command(tool, "-mode=analysis", "-benchmarks-file="+file,
			"-analysis-inconsistencies-output-file="+page, "-mcpu=graniterapids").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", mode, err, said)
		}
		want := "Parsed " + words.Plural(n, "benchmark point")
		if !strings.Contains(string(said), want) || strings.Contains(strings.ToLower(string(said)), "warning") {
			t.Errorf("%s: want %q and no warning:\n%s", mode, want, said)
		}
	}
}

// TestChained: instructions that wait for predecessors have no throughput without the dependency-breaking block.
func TestChained(t *testing.T) {
	ok, rejected := Outcome{Status: profiler.OK}, Outcome{Status: profiler.Rejected, Reason: "unstable"}
	for _, c := range []struct {
		name   string
		broken Outcome
		breaks bool
		want   float64 // 0: none
	}{
		{"both measured", ok, true, 0.33},
		{"the chain alone", rejected, true, 0},
		{"other values not measured", rejected, false, 1},
	} {
		row := Row{All: []Measurement{
			{Probe: Probe{Kind: Throughput}, Value: Value{Cycles: 1}, Result: ok},
			{Probe: Probe{Kind: Throughput, Breaks: c.breaks}, Value: Value{Cycles: 0.33}, Result: c.broken},
		}}
		row.choose()
		missing, none := row.dropChained(), row.Throughput == nil
		if none != (c.want == 0) || none != (len(missing) > 0) || !none && row.Throughput.Cycles() != c.want {
			t.Errorf("%s: %+v, %q", c.name, row.Throughput, missing)
		}
	}
}

// TestIBench: what OSACA's importer reads, which knows general registers of one kind, no opmasks and no form without operands.
func TestIBench(t *testing.T) {
	var rows []Row
	for i, form := range []string{
		"add r32, r32", "add r64, r64", "add r8, r8", "vaddps xmm, xmm, m128", "imul r64, r64, i8",
		"kaddb k, k, k", "shl r64, cl", "cdq", "vsqrtps ymm, ymm", "add m64, r64"} {
		n := float64(i + 1)
		rows = append(rows, Row{Form: asm.FormNamed(form), Throughput: &Measurement{Value: Value{Cycles: n / 4}}, Latency: &Measurement{Value: Value{Cycles: n}}})
	}
	rows[3].Load = &Measurement{Value: Value{Cycles: 11}}
	rows[8].Throughput.Mean = "unstable"
	rows = append(rows, Row{Snippet: &Snippet{}})
	require.Equal(t, "it", `add-r_r-TP: 0.500 (clock cycles)
add-r_r-LT: 2.000 (clock cycles)
vaddps-mb_x_x-TP: 1.000 (clock cycles)
vaddps-mb_x_x-LT: 11.000 (clock cycles)
imul-i_r_r-TP: 1.250 (clock cycles)
imul-i_r_r-LT: 5.000 (clock cycles)
vsqrtps-y_y-LT: 9.000 (clock cycles)
add-r_mb-TP: 2.500 (clock cycles)
`, IBench(rows))
}

// TestMC: an old unversioned llvm-mc does not hide a newer one, and one that cannot name opcodes says why.
func TestMC(t *testing.T) {
	const named, numbered = "echo '<MCOperand Reg:RIZ>'", "echo '<MCOperand Reg:56>'"
	unknown := "echo \"'znver9' is not a recognized processor\" >&2; " + named
	for _, test := range []struct {
		name, version string
		tools         map[string]string
		tool, why     string
	}{
		{"the newest that can", "",
			map[string]string{"llvm-mc": "echo version 14.0; " + numbered, "llvm-mc-21": named, "llvm-mc-19": named, "llvm-mca-30": named}, "llvm-mc-21", ""},
		{"the model's version", "-19", map[string]string{"llvm-mc-21": named, "llvm-mc-19": named}, "llvm-mc-19", ""},
		{"where the model's cannot", "-19", map[string]string{"llvm-mc-21": named, "llvm-mc-19": numbered}, "llvm-mc-21", ""},
		{"one that knows the core", "", map[string]string{"llvm-mc-22": unknown, "llvm-mc-21": named}, "llvm-mc-21", ""},
		{"none can", "", map[string]string{"llvm-mc": "echo version 14.0; " + numbered},
			"llvm-mc", "llvm-mc does not name registers with -show-inst, as llvm-mc-22 does"},
		{"none knows the core", "", map[string]string{"llvm-mc-22": unknown}, "llvm-mc-22", "llvm-mc-22 does not know znver9"},
		{"none", "", nil, "", errNoLLVM.Error()},
	} {
		dir := t.TempDir()
		for tool, script := range test.tools {
			require.NoError(t, os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		}
		t.Setenv("PATH", dir)
		tool, why := MC(t.Context(), test.version, "znver9")
		said := ""
		if why != nil {
			said = why.Error()
		}
		if tool != test.tool || said != test.why {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, tool, said, test.tool, test.why)
		}
	}
}

// TestSchedClasses: a maintainer looks for a mistake by the class's name.
func TestSchedClasses(t *testing.T) {
	require.Tool(t, require.LLVM, "llvm-exegesis-22")
	names := require.Get(SchedClasses(context.Background(), "znver4", [][]byte{{0x4c, 0x89, 0x60, 0x18}, {0xc5, 0xf4, 0x58, 0xc2}, {0x06}}))(t)
	if names[0] != "WriteStore" || names[1] == "" || names[1] == names[0] || names[2] != "" {
		t.Errorf("%q", names)
	}
}
