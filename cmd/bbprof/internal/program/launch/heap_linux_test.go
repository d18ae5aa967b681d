package launch

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// heapRun returns the fields that testdata/programs/heap.c prints under an allocator; "" is the C library's.
func heapRun(t *testing.T, path, library string, args ...string) [][]string {
	t.Helper()
	c := exec.Command(path, args...)
	var said strings.Builder
	c.Stderr = &said // ld.so reports a missing library there and continues
	c.Env = append(os.Environ(), "LD_PRELOAD="+library)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s, %v: %v: %s", library, args, err, said.String())
	}
	if said.Len() > 0 {
		require.Skip(t, require.Allocators, "%s", said.String())
	}
	var lines [][]string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// TestHeap checks what docs/explain.md says about each allocator.
func TestHeap(t *testing.T) {
	path := require.Compiled(t, "../../../../../testdata/programs/heap.c", "-O1")
	for _, c := range []struct {
		library string
		alias   [3]string // for pairs of 64, 5120 and 1,048,576 bytes
	}{
		{"", [3]string{"-", "-", "alias"}},
		{"libtcmalloc_minimal.so.4", [3]string{"-", "-", "alias"}},
		{"libmimalloc.so.2", [3]string{"-", "-", "alias"}},
		{"libjemalloc.so.2", [3]string{"-", "-", ""}}, // at random lines of a page: 1 pair in 64 aliases
	} {
		t.Run("of "+c.library, func(t *testing.T) {
			for i, line := range heapRun(t, path, c.library, "64", "5120", "1048576") {
				if len(line) != 4 || c.alias[i] != "" && line[3] != c.alias[i] {
					t.Errorf("%v, want %s", line, c.alias[i])
				}
			}
		})
	}
	large := heapRun(t, path, "", "1048576")[0]
	if !strings.HasSuffix(large[1], "010") || !strings.HasSuffix(large[2], "010") {
		t.Errorf("1 MiB of glibc is at %s and %s", large[1], large[2])
	}
	// M_MMAP_THRESHOLD is 128 KiB including the chunk's header of 8 bytes, rounded up to 16 (mallopt(3),
	// malloc/malloc.c).
	require.Equal(t, "glibc's threshold", "from 131049 bytes on, at ...010", strings.Join(heapRun(t, path, "", "threshold")[0], " "))
}
