package launch

import (
	"os"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestPerfMap: a file that grows, and one that is written anew.
func TestPerfMap(t *testing.T) {
	m := NewPerfMap(os.Getpid())
	t.Cleanup(func() { os.Remove(m.Path) })
	write := func(flag int, text string) {
		f := require.Get(os.OpenFile(m.Path, os.O_WRONLY|os.O_CREATE|flag, 0o600))(t)
		defer f.Close()
		require.Get(f.WriteString(text))(t)
	}
	write(os.O_TRUNC, "100 10 f\n") // an earlier process's
	m = NewPerfMap(os.Getpid())
	var at []uint64
	for _, c := range []struct {
		what string
		flag int
		text string
		want []uint64
	}{
		{"an earlier process's", os.O_APPEND, "", nil},
		{"half a line", os.O_APPEND, "20", nil},
		{"the line", os.O_APPEND, "0 10 f\n", []uint64{0x200}},
		{"another version", os.O_APPEND, "300 10 f\n", []uint64{0x200, 0x300}},
		{"the same again", os.O_APPEND, "300 10 f\n", []uint64{0x200, 0x300}},
		{"in its place", os.O_APPEND, "1f1 10 other f\n", []uint64{0x300}},
		{"beside it", os.O_APPEND, "2f0 10 g\n301 10 g\n", []uint64{0x300}},
		{"no lines of a map", os.O_APPEND, "\nf\nx 10 f\n400 y f\n400 10\n", []uint64{0x300}},
		{"as C++ mangles it", os.O_APPEND, "500 10 _Z1fi\n", []uint64{0x300, 0x500}},
		{"a name with spaces", os.O_APPEND, "600 10 f of it\n", []uint64{0x300, 0x500}},
		{"written anew", os.O_TRUNC, "700 10 f\n", []uint64{0x300, 0x500, 0x700}},
	} {
		write(c.flag, c.text)
		at = require.Get(m.Update(at, "f"))(t)
		if !slices.Equal(at, c.want) {
			t.Errorf("%s: %#x, want %#x", c.what, at, c.want)
		}
	}
}
