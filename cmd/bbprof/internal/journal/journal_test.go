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

// TestBeside: what is there already is neither followed nor changed unless it is the journal of the same run, and that only if
// it is resumed; nor is what takes its place later. A nil journal does nothing.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	path, precious := filepath.Join(dir, "j"), filepath.Join(dir, "precious")
	j := require.Get(Open(path, "me", false))(t)
	require.NoError(t, j.Keep("k", value{1, 2}))
	other := require.Get(Open(filepath.Join(dir, "late"), "me", false))(t)
	require.NoError(t, os.Rename(path, path+".moved"))
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	require.NoError(t, j.Remove())
	require.Equal(t, "what took its place", "precious", string(require.Get(os.ReadFile(path))(t)))
	whole := string(require.Get(os.ReadFile(path + ".moved"))(t))
	for _, c := range []struct {
		name, by, content string
		resume            bool
		says              string
	}{
		{"a user's file", "me", "precious", false, "does not begin like a journal and is left alone"},
		{"a user's file, resumed", "me", "precious", true, "does not begin like a journal and is left alone"},
		{"a journal that is not resumed", "me", whole, false, "-resume continues it, removing it starts again"},
		{"another's journal", "you", whole, true, "left by another run, and what both measured must not mix: me, here you; remove it"},
	} {
		for _, link := range []bool{false, true} {
			os.Remove(path)
			require.NoError(t, os.WriteFile(precious, []byte(c.content), 0o600))
			if link {
				c.says = "it is a symbolic link; remove it, or name another file"
				require.NoError(t, os.Symlink(precious, path))
			} else {
				require.NoError(t, os.Link(precious, path))
			}
			_, err := Open(path, c.by, c.resume)
			require.Fails(t, c.name, err, c.says)
			require.Equal(t, c.name, c.content, string(require.Get(os.ReadFile(precious))(t)))
			require.Get(os.Lstat(path))(t)
		}
	}
	require.NoError(t, os.Symlink(precious, filepath.Join(dir, "late")))
	require.Fails(t, "a link that comes later", other.Keep("k", value{}), "it is a symbolic link")
	require.Equal(t, "what it leads to", whole, string(require.Get(os.ReadFile(precious))(t)))
	var none *Journal
	if _, ok := none.Take("k"); ok || none.Keep("k", value{}) != nil {
		t.Error("nothing answers")
	}
}

// TestOneAtATime: while a run keeps what it measures, another of the same command is refused, and the first loses nothing;
// one that began before the first kept anything is refused when it does.
func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	first, late := require.Get(Open(path, "me", false))(t), require.Get(Open(path, "me", false))(t)
	const writing = "another bbprof is writing it"
	for i := range 3 {
		require.NoError(t, first.Keep("k", value{1, i}))
		_, err := Open(path, "me", i == 1)
		require.Fails(t, "a second run", err, writing)
		require.Fails(t, "one that began before", late.Keep("k", value{2, i}), writing)
	}
	require.NoError(t, first.Close())
	require.Fails(t, "one that began before, after the end", late.Keep("k", value{}), "-resume continues it")
	require.NoError(t, late.Remove())
	again := require.Get(Open(path, "me", true))(t)
	require.Equal(t, "found", 3, again.Found())
	require.NoError(t, again.Remove())
	if _, err := os.Stat(path); err == nil {
		t.Error("it is still there")
	}
}
