package count

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestCopies: what runs in copies counts as by steps, and millions of instructions take no longer than thousands.
func TestCopies(t *testing.T) {
	var libraries []string
	for _, flag := range []string{"-DFIRST", "-DOTHER"} { // they are loaded at the same place
		libraries = append(libraries, require.Compiled(t, "testdata/later.c", "-O1", "-shared", "-fPIC", flag))
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
