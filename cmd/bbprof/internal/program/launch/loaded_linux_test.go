package launch

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/require"
)

// TestLocate finds functions in shared libraries, two of which define the same name.
func TestLocate(t *testing.T) {
	gcc := require.Tool(t, require.GCC, "gcc")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	build := func(out string, args ...string) {
		if message, err := exec.Command(gcc, append(args, "-o", filepath.Join(dir, out))...).CombinedOutput(); err != nil {
			require.Skip(t, require.GCC, "it does not link here: %v: %s", err, message)
		}
	}
	build("libone.so", "-shared", "-fPIC", write("one.c", "int one(int n) { return n; } int same(int n) { return n; }"))
	build("libtwo.so.1.2", "-shared", "-fPIC", "-Wl,-soname,libtwo.so.1", write("two.c", "int two(int n) { return n; } int same(int n) { return -n; }"))
	for _, link := range []string{"libtwo.so", "libtwo.so.1"} {
		require.NoError(t, os.Symlink("libtwo.so.1.2", filepath.Join(dir, link)))
	}
	build("prog", write("main.c", "int one(int), two(int), same(int); int main(int n, char **v) { return one(n) + two(n) + same(n) - 3; }"),
		"-L"+dir, "-Wl,-rpath,"+dir, "-lone", "-ltwo")
	c := require.Get(NewCommand([]string{filepath.Join(dir, "prog")}))(t)
	for name, says := range map[string][]string{ // nil: found
		"one":               nil,
		"libtwo.so:two":     nil,
		"libtwo.so.1:two":   nil,
		"libtwo.so.1.2:two": nil,
		"libtwo.so.2:two":   {"no shared library libtwo.so.2 of it holds a function two: it is not loaded when the program's own code begins"},
		"libtwo.so:same":    nil,
		"same":              {"2 functions of its shared libraries are called same", "libone.so:same or libtwo.so.1.2:same"},
		"libone.so:two":     {"no shared library libone.so of it holds a function two"},
		"libc.so.6:memcpy":  {"memcpy is an ifunc"},
	} {
		f, err := c.Exe.Function(name)
		require.NoError(t, err)
		var at uint64
		ptracethread.Run(func() {
			p, done, startErr := c.Start(context.Background(), Setup{}, Control{})
			if err = startErr; err != nil {
				return
			}
			defer done()
			if at, err = c.Locate(p, f); err == nil {
				_, err = p.Word(at)
			}
		})
		require.Host(t, err)
		if says == nil && (err != nil || at == 0) {
			t.Errorf("%s: %#x, %v", name, at, err)
		}
		require.FailsAs[*Error](t, err, says...)
	}
}
