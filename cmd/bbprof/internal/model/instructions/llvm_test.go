package instructions

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMC: an old llvm-mc that is called without a version does not hide a new one, and what cannot name opcodes says why.
func TestMC(t *testing.T) {
	const named, numbered = "echo '<MCOperand Reg:RIZ>'", "echo '<MCOperand Reg:56>'"
	unknown := "echo \"'znver9' is not a recognized processor\" >&2; " + named
	for _, test := range []struct {
		name, version string
		tools         map[string]string
		tool, why     string
	}{
		{"the newest that can", "", map[string]string{"llvm-mc": "echo version 14.0; " + numbered, "llvm-mc-21": named, "llvm-mc-19": named, "llvm-mca-30": named}, "llvm-mc-21", ""},
		{"the model's version", "-19", map[string]string{"llvm-mc-21": named, "llvm-mc-19": named}, "llvm-mc-19", ""},
		{"where the model's cannot", "-19", map[string]string{"llvm-mc-21": named, "llvm-mc-19": numbered}, "llvm-mc-21", ""},
		{"one that knows the core", "", map[string]string{"llvm-mc-22": unknown, "llvm-mc-21": named}, "llvm-mc-21", ""},
		{"none can", "", map[string]string{"llvm-mc": "echo version 14.0; " + numbered}, "llvm-mc", "llvm-mc (version 14) does not name registers with -show-inst, as llvm-mc-22 does"},
		{"none knows the core", "", map[string]string{"llvm-mc-22": unknown}, "llvm-mc-22", "llvm-mc-22 (version 22) does not know znver9"},
		{"none", "", nil, "", ErrNoLLVM.Error()},
	} {
		dir := t.TempDir()
		for tool, script := range test.tools {
			if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		tool, why := MC(t.Context(), test.version, "znver9")
		said := ""
		if why != nil {
			said = why.Error()
		}
		if tool != "" {
			tool = filepath.Base(tool)
		}
		if tool != test.tool || said != test.why {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, tool, said, test.tool, test.why)
		}
	}
}

// TestNothingToWrite: a file of llvm-exegesis without a result is an error that says why.
func TestNothingToWrite(t *testing.T) {
	row := Row{Name: "imul r64, r64", Throughput: &Measured{Value: Value{Cycles: 1}}}
	for mode, want := range map[string]string{latencyMode: "none of 1 row has a number for latency", throughputMode: "LLVM's name is not known of any of the 1 form"} {
		var out bytes.Buffer
		_, err := WriteExegesis(&out, []Row{row}, mode, "znver4")
		if nothing := (*NothingError)(nil); !errors.As(err, &nothing) || !strings.HasPrefix(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: %v, want %q", mode, err, want)
		}
	}
}

// TestUncertainIsNoFinding: nothing is said by a number whose interval holds 0, nor of a latency through memory that one of
// a model's two assumptions about aliases gives.
func TestUncertainIsNoFinding(t *testing.T) {
	small := Row{Name: "lea r32, m", Throughput: &Measured{Probe: Probe{Kind: Throughput, Code: []byte{0x90}, Links: 1}, Value: Value{Cycles: 0.01, Low: -0.001, High: 0.03}}}
	through := Row{Name: "inc m64", Latency: &Measured{Probe: Probe{Kind: Latency, Pair: "m to m", Code: []byte{0xff, 0x06}, Links: 1}, Value: Value{Cycles: 7, Low: 6.9, High: 7.1}}}
	never, always := map[string]float64{"90": 0.76, "ff06": 1}, map[string]float64{"90": 0.76, "ff06": 7}
	if list, judged := Disagreements([]Row{small, through}, 0.02, never, always); len(list) > 0 || judged[Throughput] > 0 || judged[StoreToLoad] != 1 {
		t.Errorf("%d findings; judged %v", len(list), judged)
	}
	always["ff06"] = 9
	if list, _ := Disagreements([]Row{through}, 0.02, never, always); len(list) != 1 {
		t.Errorf("%d findings where both assumptions are wrong, want 1", len(list))
	}
}
