package assemble

import (
	"errors"
	"strings"
	"testing"
)

// TestStartOf: annotations as llvm-exegesis documents them. Its values of fewer bits than a register are extended as
// llvm-exegesis 22 assembles them: general registers by zeros, vectors by the sign.
func TestStartOf(t *testing.T) {
	for _, tt := range []struct{ text, set, memory string }{
		{"nop\n# a comment", "", ""},
		{"# LLVM-EXEGESIS-DEFREG RAX ffffffff\n  #LLVM-EXEGESIS-DEFREG XMM2 ff\n# LLVM-EXEGESIS-DEFREG YMM3 0ff\nadd " +
			"rax, rbx", "rax=0xffffffff,xmm2=0xffffffffffffffffffffffffffffffff,ymm3=0xff", ""},
		{"# LLVM-EXEGESIS-DEFREG EFLAGS 0841\n# LLVM-EXEGESIS-DEFREG K1 ff", "cf=0x1,pf=0x0,af=0x0,zf=0x1,sf=0x0,of=0x1,k1=0xff", ""},
		{"# LLVM-EXEGESIS-LIVEIN RDI\n# LLVM-EXEGESIS-LOOP-REGISTER R15", "", ""},
		{"# LLVM-EXEGESIS-MEM-DEF M 4096 12345600\n# LLVM-EXEGESIS-MEM-MAP M 4096\n# LLVM-EXEGESIS-MEM-MAP M 305418240", "fill=0x1234560012345600", ""},
		{"# LLVM-EXEGESIS-MEM-DEF A 4096 7f\n# LLVM-EXEGESIS-MEM-DEF B 12 0102\n# LLVM-EXEGESIS-MEM-MAP B 8192\n# " +
			"LLVM-EXEGESIS-MEM-MAP A 4096", "fill=0x7f7f7f7f7f7f7f7f",
			"0x2000=0x102010201020102,0x2008=0x1020102"},
		{"# LLVM-EXEGESIS-MEM-DEF A 24 010203040506070809\n# LLVM-EXEGESIS-MEM-MAP A 64", "",
			"0x40=0x203040506070809,0x48=0x304050607080901,0x50=0x405060708090102"},
	} {
		got, err := StartOf(tt.text)
		if err != nil || got.Set.String() != tt.set || got.Memory.String() != tt.memory || got.At != nil {
			t.Errorf("%s:\n%s and %s, %v; want\n%s and %s", tt.text, got.Set, got.Memory, err, tt.set, tt.memory)
		}
	}
	if got, err := StartOf("# LLVM-EXEGESIS-SNIPPET-ADDRESS 401136"); err != nil || got.At == nil || *got.At != 0x401136 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestStartOfErrors: each names the annotation, its line and what to do.
func TestStartOfErrors(t *testing.T) {
	const def = "# LLVM-EXEGESIS-MEM-DEF A 4096 7f\n"
	for text, want := range map[string]string{
		"nop\n# LLVM-EXEGESIS-DEFREG RAX":        "line 2: LLVM-EXEGESIS-DEFREG: it takes 2 parameters and has 1",
		"# LLVM-EXEGESIS-DEFREG RAX 0x1":         `the value is "0x1"; write hexadecimal digits without 0x`,
		"# LLVM-EXEGESIS-DEFREG EFLAGS 400":      "df cannot be set; let the block begin with std",
		"# LLVM-EXEGESIS-DEFREG X 1":             `"x" cannot be set`,
		"# LLVM-EXEGESIS-OTHER":                  "line 1: LLVM-EXEGESIS-OTHER: this annotation is not known",
		def + "# LLVM-EXEGESIS-MEM-MAP B 0":      "line 2: LLVM-EXEGESIS-MEM-MAP: no MEM-DEF before it defines B",
		def + "# LLVM-EXEGESIS-MEM-MAP A 0x1000": `the address is "0x1000"; write a decimal number`,
		"# LLVM-EXEGESIS-MEM-DEF A 4096 7":       `the value is "7"; write two hexadecimal digits for each byte`,
		"# LLVM-EXEGESIS-MEM-DEF A 0x10 77":      `the size is "0x10"; write a decimal number`,
		"# LLVM-EXEGESIS-MEM-DEF A 4104 010203\n# LLVM-EXEGESIS-MEM-MAP A 0": "line 2: LLVM-EXEGESIS-MEM-MAP: bbprof " +
			"fills memory with one word, and at most 4096 bytes can hold others",
		"# LLVM-EXEGESIS-MEM-DEF A 8 010203\n# LLVM-EXEGESIS-MEM-MAP A 4": "the address is not a multiple of 8",
	} {
		_, err := StartOf(text)
		bad := (*Error)(nil)
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", text, err, want)
		}
	}
}
