//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const noFollow = unix.O_NOFOLLOW

// Lock keeps other runs off a file until it is closed, since what both append would mix. File systems without
// locks do without.
func Lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another bbprof is writing it; wait until that has ended, or name another file")
	}
	return nil
}
