package batch

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestArrayShard: a task takes the part with its number if the array has all numbers from 0.
func TestArrayShard(t *testing.T) {
	for _, c := range []struct {
		env   string // ID MIN MAX COUNT
		want  Shard
		wrong string
	}{
		{"0 0 7 8", Shard{0, 8}, ""},
		{"7 0 7 8", Shard{7, 8}, ""},
		{"0 0 0 1", Shard{0, 1}, ""},
		{"3 3 3 1", Shard{}, "write $SLURM_ARRAY_TASK_ID/N"},
		{"1 1 8 8", Shard{}, "all numbers from 0"},
		{"0 0 7 2", Shard{}, "all numbers from 0"},
		{"", Shard{}, "not a task of a Slurm job array"},
		{"-1 0 7 8", Shard{}, "not a task of a Slurm job array"},
	} {
		env := map[string]string{}
		for i, v := range strings.Fields(c.env) {
			env[[]string{taskID, taskMin, taskMax, taskCount}[i]] = v
		}
		got, err := ArrayShard(func(name string) string { return env[name] })
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q is %v, error %v; want %v, %q", c.env, got, err, c.want, c.wrong)
		}
	}
}

func TestArrayWorkers(t *testing.T) {
	for value, want := range map[string]int{"8": 8, "": 0, "x": 0, "-2": 0} {
		require.Equal(t, value, want, ArrayWorkers(func(string) string { return value }))
	}
}
