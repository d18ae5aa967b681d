package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

type value struct{ A, B int }

func init() { Register(value{}) }

// TestKept: answers come back in their order and once each, also after several starts, and a journal cut anywhere has the
// whole ones.
func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	var sizes []int64
	const each = 4
	for start := range 3 {
		j := require.Get(Open(path, "me", true))(t)
		require.Equal(t, "found", start*each, j.Found())
		for i := range each {
			require.NoError(t, j.Keep(fmt.Sprint(i%2), value{start, i}))
			sizes = append(sizes, require.Get(os.Stat(path))(t).Size())
		}
		require.NoError(t, j.Close())
	}
	whole := require.Get(os.ReadFile(path))(t)
	for cut := len(whole); cut >= 0; cut -= 17 {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		j := require.Get(Open(path, "me", true))(t)
		want := 0
		for want < len(sizes) && sizes[want] <= int64(cut) {
			want++
		}
		require.Equal(t, fmt.Sprintf("found in %d bytes", cut), want, j.Found())
		n := [2]int{}
		for i := range want {
			got, ok := j.Take(fmt.Sprint(i % 2))
			if v, is := got.(value); !ok || !is || v != (value{i / each, i % each}) {
				t.Fatalf("cut to %d bytes, answer %d is %v", cut, i, got)
			}
			n[i%2]++
		}
		if _, ok := j.Take("0"); ok {
			t.Error("an answer comes twice")
		}
		require.NoError(t, j.Keep("new", value{7, 7}))
		require.NoError(t, j.Close())
		again := require.Get(Open(path, "me", true))(t)
		require.Equal(t, "after an addition", want+1, again.Found())
		again.Close()
	}
}

// TestOthers: a journal of another run is refused and left as it is, one that is not resumed starts empty, and a nil one does
// nothing.
func TestOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := require.Get(Open(path, "me", false))(t)
	require.NoError(t, j.Keep("k", value{1, 2}))
	require.NoError(t, j.Close())
	before := string(require.Get(os.ReadFile(path))(t))
	_, err := Open(path, "you", true)
	require.Fails(t, "it", err, "left by another run")
	require.Equal(t, "the file", before, string(require.Get(os.ReadFile(path))(t)))
	j = require.Get(Open(path, "you", false))(t)
	require.Equal(t, "answers", 0, j.Size())
	require.Equal(t, "the file before anything is kept", before, string(require.Get(os.ReadFile(path))(t)))
	require.NoError(t, j.Keep("k", value{3, 4}))
	require.NoError(t, j.Remove())
	if _, err := os.Stat(path); err == nil {
		t.Error("it is still there")
	}
	var none *Journal
	if _, ok := none.Take("k"); ok || none.Keep("k", value{}) != nil {
		t.Error("nothing answers")
	}
}
