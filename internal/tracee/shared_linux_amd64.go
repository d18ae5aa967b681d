package tracee

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// region is a part of the own region: its address and permissions in the child, and its offset in the shared memory.
type region struct {
	name   string
	addr   uint64
	size   uint64
	prot   int
	offset uint64
}

// Nothing is both writable and executable in the child. It starts on the measuring side.
var regions = [...]region{
	{"the control page", layout.Control, layout.ControlSize, unix.PROT_READ | unix.PROT_WRITE, offControl},
	{"the list", layout.Ops, layout.OpsSize, unix.PROT_READ | unix.PROT_WRITE, offOps},
	{"the samples", layout.Samples, layout.SamplesSize, unix.PROT_READ | unix.PROT_WRITE, offSamples},
	{"the restore list", layout.Restore, layout.RestoreSize, unix.PROT_READ | unix.PROT_WRITE, offRestore},
	{"the frames", layout.Frames, layout.FramesSize, unix.PROT_READ | unix.PROT_WRITE, offFrames},
	{"the code", layout.Code, layout.CodeSize, unix.PROT_READ | unix.PROT_EXEC, offCode},
	{"the log", layout.Log, layout.LogSize, unix.PROT_READ | unix.PROT_WRITE, offLog},
	{"the dry run's loop", layout.DryRunLoop, layout.DryRunLoopSize, unix.PROT_NONE, offDryRunLoop},
	{"the dry run's side", layout.DryRunOps, layout.End - layout.DryRunOps, unix.PROT_READ | unix.PROT_EXEC, offDryRun},
}

// regions returns the child's regions. Its window repeats all but the frames.
func (t *Tracee) regions() []region {
	all := slices.Clone(regions[:])
	for _, r := range regions {
		if t.window != 0 && r.addr != layout.Frames {
			r.name, r.addr = r.name+" in the window", r.addr+layout.Shift(t.window)
			all = append(all, r)
		}
	}
	return all
}

func (s *shared) create() error {
	fd, err := memfd("bbprof-shared")
	if err != nil {
		return err
	}
	err = unix.Ftruncate(fd, sharedSize)
	refused := isRefusal(err)
	if err == nil {
		s.mem, err = unix.Mmap(fd, 0, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		s.fd = fd
		return nil
	}
	unix.Close(fd)
	if refused {
		return verdict.Refused("ftruncate", err)
	}
	return exhausted(fmt.Sprintf("%d MiB of shared memory", sharedSize>>20), err)
}

func (s *shared) close() {
	if s.mem != nil {
		unix.Munmap(s.mem)
		unix.Close(s.fd)
		s.mem = nil
	}
}

// memfd creates anonymous memory with a descriptor. MFD_EXEC (Linux 6.3) keeps it executable even if
// vm.memfd_noexec has another default; older kernels reject the flag.
func memfd(name string) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	switch {
	case isRefusal(err):
		noexec, _ := os.ReadFile("/proc/sys/vm/memfd_noexec")
		return -1, memfdRefused(err, strings.TrimSpace(string(noexec)))
	case err != nil:
		return -1, exhausted("memory with a descriptor", err)
	}
	return fd, nil
}

// memfdRefused explains an error by the level of vm.memfd_noexec (Documentation/admin-guide/sysctl/vm.rst since
// Linux 6.3): 2 refuses memory that is not sealed against execution, with EACCES.
func memfdRefused(err error, noexec string) error {
	if noexec == "2" && errors.Is(err, unix.EACCES) {
		return &verdict.HostError{
			Missing: "memfd_create makes nothing executable (vm.memfd_noexec is 2), and the child is built in memory",
			Remedy:  "sudo sysctl vm.memfd_noexec=1", Err: err,
		}
	}
	return &verdict.HostError{
		Missing: "memfd_create is refused, and the child is built in memory",
		Remedy:  "allow memfd_create in the seccomp profile (" + unprofiled + "), on Linux 3.17 or later", Err: err,
	}
}
