package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// inMemory returns an anonymous file in memory.
func inMemory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
