package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Siblings are the allowed and other CPUs that are hardware threads of one core, itself
// included; itself alone where the kernel does not tell.
func Siblings(cpu int) []int { return siblings(os.DirFS("/sys"), cpu) }

func siblings(sys fs.FS, cpu int) []int {
	text, err := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
	if err != nil {
		return []int{cpu}
	}
	cpus, err := ParseList(string(text))
	if err != nil {
		return []int{cpu}
	}
	return cpus
}

// Quota is how many CPUs' worth of time this process's cgroups leave it, 0 if they set no
// limit.
func Quota() int { return quota(os.DirFS("/")) }

func quota(root fs.FS) (least int) {
	read := func(name string) string {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	note := func(limit int) {
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	for line := range strings.Lines(read("proc/self/cgroup")) { // cgroups(7)
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for dir := strings.Trim(parts[2], "/"); ; dir = path.Dir(dir) { // any parent may set a limit
			if parts[1] == "" {
				note(parseQuota(read(path.Join("sys/fs/cgroup", dir, "cpu.max"))))
			} else if strings.Contains(","+parts[1]+",", ",cpu,") {
				at := path.Join("sys/fs/cgroup", parts[1], dir)
				note(parseQuota(read(path.Join(at, "cpu.cfs_quota_us")) + " " + read(path.Join(at, "cpu.cfs_period_us"))))
			}
			if dir == "" || dir == "." {
				break
			}
		}
	}
	return least
}

// Confine binds all threads that this process has, and so all that they start, to some CPUs.
// Threads that measure bind themselves afterwards.
func Confine(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	// A thread may start another meanwhile, so until a round finds none that is new.
	done := map[string]bool{}
	for before := -1; before != len(done); {
		before = len(done)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("asking for the threads: %w", err)
		}
		for _, t := range threads {
			if done[t.Name()] {
				continue
			}
			done[t.Name()] = true
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("binding thread %d to the CPUs %v: %w", tid, cpus, err)
			}
		}
	}
	return nil
}

// Kernel is the running kernel's release.
func Kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
