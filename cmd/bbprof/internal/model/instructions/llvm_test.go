package instructions

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

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
		{"none", "", nil, "", ErrNoLLVM.Error()},
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
