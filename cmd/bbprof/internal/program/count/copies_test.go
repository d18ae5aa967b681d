package count

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestCopies: what runs in copies counts as by steps, and millions of instructions take no longer than thousands.
func TestCopies(t *testing.T) {
	dir := t.TempDir()
	var libraries []string
	for i, extra := range []string{"", "s ^= i;"} { // they are loaded at the same place
		source := filepath.Join(dir, fmt.Sprintf("later%d.c", i))
		require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, "int later(int n) { int s = 0; for (volatile int i = 0; i < n; i++) { s += i; %s } return s; }", extra), 0o666))
		libraries = append(libraries, require.Compiled(t, source, "-O1", "-shared", "-fPIC"))
	}
	for _, flags := range [][]string{{}, {"-no-pie", "-O2"}} {
		path := require.Compiled(t, "testdata/library.c", append([]string{"-O1", "-fno-builtin", "-Wl,--no-as-needed", "-lm", "-ldl"}, flags...)...)
		for name, calls := range map[string]int{"work": 1, "down": All, "compare": 10} {
			require.Get(try(t, command(t, path, libraries...), name, Options{Calls: calls}))(t)
		}
	}
	sums := require.Compiled(t, "../../../../../testdata/programs/sums.c", "-O0")
	at := func(n string) Result {
		return require.Get(try(t, command(t, sums, n), "product", Options{Method: Copy}))(t)
	}
	few, more, most := at("1000"), at("2000"), at("1001000")
	if each := more.Instructions - few.Instructions; most.Instructions != few.Instructions+1_000*each || few.Method != Step || most.Method != Copy {
		t.Errorf("%+v, %+v, %+v", few, more, most)
	}
}
