package extract

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// compiled returns what a compiler makes of testdata/source.c.
func compiled(t *testing.T, compiler string, args ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "compiled")
	cmd := exec.Command(compiler, append(args, "-fcommon", "-o", file, "testdata/source.c")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return file
}

// objdumpInstructions returns a file's instruction bytes by section (of an object) and address.
func objdumpInstructions(t *testing.T, file string, bySection bool) map[string]string {
	t.Helper()
	out := require.Get(exec.Command("objdump", "-d", "-z", "-w", file).Output())(t)
	all := map[string]string{}
	section := ""
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "Disassembly of section "); ok && bySection {
			section = strings.TrimRight(name, ":\n")
			continue
		}
		cells := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if len(cells) == 3 && !strings.Contains(cells[2], "(bad)") {
			all[section+strings.TrimSuffix(strings.TrimSpace(cells[0]), ":")] = strings.ReplaceAll(cells[1], " ", "")
		}
	}
	return all
}

// compareInstructions fails for each block that is not a sequence of objdump's instructions, relocated bytes
// aside, and returns the share of those instructions that are in blocks.
func compareInstructions(t *testing.T, file string, object bool) (share float64) {
	t.Helper()
	theirs := objdumpInstructions(t, file, object)
	found := 0
	require.NoError(t, File(t.Context(), file, Options{Cut: CutLeader}, new(Stats), func(b *Block) error {
		code := hex.EncodeToString(b.Code)
		n := 0
		for at := 0; at < len(code); n++ {
			key := strconv.FormatUint(b.Addr+uint64(at/2), 16)
			if object {
				key = b.Section + key
			}
			want, ok := theirs[key]
			if !ok || !b.Relocated && !strings.HasPrefix(code[at:], want) || len(want) > len(code)-at {
				t.Errorf("%s: %s %#x: %s: objdump has %q at %s", filepath.Base(file), b.Function, b.Addr, code, want, key)
				return nil
			}
			at += len(want)
			found++
		}
		require.Equal(t, fmt.Sprintf("%s: %#x: instructions", file, b.Addr), n, b.Instructions)
		return nil
	}))
	return float64(found) / float64(len(theirs))
}

// TestCompilers extracts the output of gcc and clang, at all optimisation levels and in all kinds of file, and
// compares it with objdump instruction by instruction.
func TestCompilers(t *testing.T) {
	require.Slow(t)
	require.Tool(t, require.GCC, "gcc")
	require.Tool(t, require.Binutils, "objdump")
	kinds := [][]string{{"-c", "-O0"}, {"-c", "-O1"}, {"-c", "-O2"}, {"-c", "-O3"}, {"-c", "-O2", "-ffunction-sections", "-fPIC"}, {"-O2", "-pie", "-fPIE"},
		{"-O3", "-no-pie", "-fno-pie"}, {"-O2", "-shared", "-fPIC"}, {"-O2", "-s"}, {"-O2", "-no-pie", "-fno-asynchronous-unwind-tables"}}
	for _, compiler := range []string{"gcc", "clang"} {
		if _, err := exec.LookPath(compiler); err != nil {
			t.Logf("%s is not installed", compiler)
			continue
		}
		for _, args := range kinds {
			share := compareInstructions(t, compiled(t, compiler, args...), slices.Contains(args, "-c"))
			if share < 0.4 { // the rest are transfers, padding, the C library's start and linkage
				t.Errorf("%s %v: blocks hold %.2f of objdump's instructions", compiler, args, share)
			}
		}
	}
}

// TestInstalled compares an installed program with objdump.
func TestInstalled(t *testing.T) {
	require.Tool(t, require.Binutils, "objdump")
	compareInstructions(t, require.Tool(t, require.Gzip, "gzip"), false)
}

// TestDamaged changes bytes of objects and programs: extraction ends with a one-line error or some blocks.
func TestDamaged(t *testing.T) {
	require.Tool(t, require.GCC, "gcc")
	random := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []string{"-c", "-pie"} {
		good := require.Get(os.ReadFile(compiled(t, "gcc", kind, "-O2")))(t)
		for round := range 100 {
			data := slices.Clone(good)
			first := 0
			switch round % 4 {
			case 0:
				data = data[:1+random.IntN(len(data)-1)]
			case 1: // the section headers, at the end
				first = len(data) - 2048
			}
			for range 1 + random.IntN(20) {
				data[first+random.IntN(len(data)-first)] ^= 1 << random.IntN(8)
			}
			if err := extractBytes(data); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %v", err)
			}
		}
	}
}
