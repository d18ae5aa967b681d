package tracee

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/bbprof/bbprof/verdict"
)

// exhausted says which limit of this host prevents something.
func exhausted(what string, err error) error {
	missing, remedy := "", ""
	switch {
	case errors.Is(err, syscall.EAGAIN): // fork(2), clone(2)
		missing, remedy = "no more processes are allowed", "raise ulimit -u, or the pids limit of the cgroup (docker: --pids-limit)"
	case errors.Is(err, syscall.EMFILE):
		missing, remedy = "no more files may be open in this process", "raise ulimit -n"
	case errors.Is(err, syscall.ENFILE):
		missing, remedy = "no more files may be open on this host", "raise fs.file-max"
	case errors.Is(err, syscall.ENOMEM):
		missing, remedy = "the kernel has no memory left, or none for this process",
			"raise ulimit -v or the memory limit of the cgroup; with vm.overcommit_memory=2, vm.overcommit_ratio"
	case errors.Is(err, syscall.EFBIG):
		missing, remedy = "files may not grow as large as bbprof's shared memory", "raise ulimit -f"
	case errors.Is(err, syscall.ENOSPC):
		missing, remedy = "the memory that files may take is used up", "free memory, or raise the memory limit of the cgroup"
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return &verdict.HostError{Missing: fmt.Sprintf("%s, and bbprof needs %s", missing, what), Remedy: remedy, Err: err}
}
