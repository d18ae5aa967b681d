package batch

import (
	"fmt"
	"strconv"
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

// ArrayShard returns the part with the task's number in the Slurm job array, which must have all numbers from 0.
func ArrayShard(getenv func(string) string) (Shard, error) {
	var v [4]int
	for i, name := range []string{taskID, taskMin, taskMax, taskCount} {
		var err error
		if v[i], err = strconv.Atoi(getenv(name)); err != nil || v[i] < 0 {
			return Shard{}, fmt.Errorf("%s is %q, so this is not a task of a Slurm job array; write I/N, or submit with sbatch --array=0-7", name, getenv(name))
		}
	}
	if id, least, most, count := v[0], v[1], v[2], v[3]; least == 0 && count == most+1 {
		return Shard{id, count}, nil
	}
	return Shard{}, fmt.Errorf("the array has %d tasks from %d to %d, and auto needs all numbers from 0; to run some tasks again "+
		"write $%s/N, with N as the whole array had", v[3], v[1], v[2], taskID)
}

// ArrayWorkers returns the number of CPUs that Slurm gives a task, 0 if unknown: on clusters that do not bind
// tasks, the affinity mask includes other tasks' CPUs.
func ArrayWorkers(getenv func(string) string) int {
	n, _ := strconv.Atoi(getenv(cpusPerTask))
	return max(n, 0)
}
