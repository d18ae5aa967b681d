package batch

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/require"
)

// TestArrayShard: a task takes the part with its number if the array has all numbers from 0; otherwise the number
// of parts is required, and a number beyond it is refused.
func TestArrayShard(t *testing.T) {
	for _, c := range []struct {
		text, env string // ID MIN MAX COUNT
		want      Shard
		wrong     string
	}{
		{"auto", "0 0 7 8", Shard{0, 8}, ""},
		{"auto", "7 0 7 8", Shard{7, 8}, ""},
		{"auto", "0 0 0 1", Shard{0, 1}, ""},
		{"auto", "3 3 3 1", Shard{}, "write auto/N"},
		{"auto", "1 1 8 8", Shard{}, "all numbers from 0"},
		{"auto", "0 0 7 2", Shard{}, "all numbers from 0"},
		{"auto/8", "3 3 5 2", Shard{3, 8}, ""},
		{"auto/8", "7 7 7 1", Shard{7, 8}, ""},
		{"auto/8", "8 8 8 1", Shard{}, "of 8 parts the last is 7"},
		{"auto/0", "0 0 0 1", Shard{}, "such as auto/8"},
		{"auto/x", "0 0 0 1", Shard{}, "such as auto/8"},
		{"auto", "", Shard{}, "not a task of a Slurm job array"},
		{"auto", "-1 0 7 8", Shard{}, "not a task of a Slurm job array"},
	} {
		env := map[string]string{}
		for i, v := range strings.Fields(c.env) {
			env[[]string{taskID, taskMin, taskMax, taskCount}[i]] = v
		}
		got, err := ArrayShard(c.text, func(name string) string { return env[name] })
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s of %q is %v, error %v; want %v, %q", c.text, c.env, got, err, c.want, c.wrong)
		}
	}
}

func TestArrayWorkers(t *testing.T) {
	for value, want := range map[string]int{"8": 8, "": 0, "x": 0, "-2": 0} {
		require.Equal(t, value, want, ArrayWorkers(func(string) string { return value }))
	}
}

// TestUnfinished: each missing row counts towards its shard, even after more gaps than are listed.
func TestUnfinished(t *testing.T) {
	corpus := text(200)
	names := parts(t, corpus, 4, nothing)
	lines := strings.SplitAfter(readFile(t, names[3]), "\n")
	os.WriteFile(names[3], []byte(strings.Join(lines[:len(lines)-6], "")), 0o666) // its last rows
	unfinished := func(corpus string, total int64) ([]ShardRows, error) {
		m := require.Get(OpenMerge([]string{names[0], names[1], names[3]}, false))(t)
		defer m.Close()
		report, err := m.Run(open(t, corpus).Next, total, func([]string) error { return nil })
		return report.Unfinished, err
	}
	got, err := unfinished(corpus, 200)
	want := []ShardRows{{Shard{2, 4}, int64(len(rows(t, names[2])))}, {Shard{3, 4}, 5}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := unfinished(text(20), 200); err != io.EOF {
		t.Errorf("a corpus that is too short: %v", err)
	}
}
