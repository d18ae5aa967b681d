package batch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
)

// Slurm tells a task of a job array its number, the array's extent, and its number of CPUs in these variables
// (sbatch(1), OUTPUT ENVIRONMENT VARIABLES).
const (
	taskID      = "SLURM_ARRAY_TASK_ID"
	taskMin     = "SLURM_ARRAY_TASK_MIN"
	taskMax     = "SLURM_ARRAY_TASK_MAX"
	taskCount   = "SLURM_ARRAY_TASK_COUNT"
	cpusPerTask = "SLURM_CPUS_PER_TASK"
)

// ArrayShard parses auto or auto/N: a task takes the part with its number in the Slurm job array. N is the number
// of parts, required when only some tasks run (again), since Slurm then does not tell it.
func ArrayShard(s string, getenv func(string) string) (Shard, error) {
	of, named := strings.CutPrefix(s, "auto/")
	var v [4]int
	for i, name := range []string{taskID, taskMin, taskMax, taskCount} {
		var err error
		if v[i], err = strconv.Atoi(getenv(name)); err != nil || v[i] < 0 {
			return Shard{}, fmt.Errorf("%s is %q, so this is not a task of a Slurm job array; write I/N, or submit with sbatch --array=0-7", name, getenv(name))
		}
	}
	id, least, most, count := v[0], v[1], v[2], v[3]
	if named {
		n, err := strconv.Atoi(of)
		if err != nil || n < 1 {
			return Shard{}, fmt.Errorf("write auto/N with the number of all parts, such as auto/8")
		}
		if id >= n {
			return Shard{}, fmt.Errorf("%s is %d, and of %d parts the last is %d", taskID, id, n, n-1)
		}
		return Shard{id, n}, nil
	}
	if least != 0 || count != most+1 {
		return Shard{}, fmt.Errorf("the array has %d tasks from %d to %d, and auto needs all numbers from 0; to run "+
			"some tasks again write auto/N, with N as the whole array had", count, least, most)
	}
	return Shard{id, count}, nil
}

// ArrayWorkers returns the number of CPUs that Slurm gives a task, 0 if unknown: on clusters that do not bind
// tasks, the affinity mask includes other tasks' CPUs.
func ArrayWorkers(getenv func(string) string) int {
	n, err := strconv.Atoi(getenv(cpusPerTask))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// ShardRows counts a shard's missing rows.
type ShardRows struct {
	Shard Shard
	Rows  int64
}

// mostShards bounds the shards counted individually, far above the tasks of an array (Slurm's MaxArraySize is
// 4,000,001 at most).
const mostShards = 1 << 22

// missingRows counts the missing rows of a corpus per shard, from 0.
type missingRows struct {
	next func() (input.Row, error) // of the corpus
	rows []int64
}

// add counts the rows first to last, which must follow those of earlier calls.
func (u *missingRows) add(first, last int64) error {
	for at := int64(0); at < last; {
		row, err := u.next()
		if err != nil {
			return err
		}
		if at = row.Number; at >= first {
			u.rows[(Shard{0, len(u.rows)}).of(&row)]++
		}
	}
	return nil
}

func (u *missingRows) shards() (list []ShardRows) {
	for i, n := range u.rows {
		if n > 0 {
			list = append(list, ShardRows{Shard{i, len(u.rows)}, n})
		}
	}
	return list
}
