package tracee

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/verdict"
)

// An exhausted resource is reported with the knob that raises it; other errors are not.
func TestExhausted(t *testing.T) {
	for errno, hint := range map[syscall.Errno]string{
		syscall.EAGAIN: "ulimit -u", syscall.EMFILE: "ulimit -n", syscall.ENFILE: "fs.file-max",
		syscall.ENOMEM: "vm.overcommit_ratio", syscall.EFBIG: "ulimit -f", syscall.ENOSPC: "cgroup",
	} {
		var host *verdict.HostError
		if err := exhausted("a thing", errno); !errors.As(err, &host) || !strings.Contains(host.Remedy, hint) || !strings.Contains(host.Missing, "a thing") {
			t.Errorf("%v: %v", errno, err)
		}
	}
	var host *verdict.HostError
	if err := exhausted("a thing", syscall.EIO); errors.As(err, &host) || !errors.Is(err, syscall.EIO) {
		t.Errorf("EIO: %v", err)
	}
}
