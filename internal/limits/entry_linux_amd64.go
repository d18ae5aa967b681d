package limits

import (
	"os"
	"syscall"
)

// notAsked is no answer of fcntl(2).
const notAsked = -1 << 20

// stdoutFlags is what fcntl(2) said of descriptor 1 when the process started; notAsked in programs that
// start at Go's own entry.
var stdoutFlags int64 = notAsked

// StdoutClosed reports whether standard output was closed when the process started, which the entry that the Makefile asks
// for knows. Elsewhere it may have been where Go has opened /dev/null for reading and writing in its place: so does Python's
// subprocess.DEVNULL, and nothing tells the two apart.
func StdoutClosed() (closed, maybe bool) {
	if stdoutFlags != notAsked {
		return stdoutFlags == -int64(syscall.EBADF), false
	}
	const stdout, kcmp, kcmpFile = 1, 312, 0 // asm/unistd_64.h, linux/kcmp.h
	flags, _, err := syscall.RawSyscall(syscall.SYS_FCNTL, stdout, syscall.F_GETFL, 0)
	var info syscall.Stat_t
	if err != 0 || flags&syscall.O_ACCMODE != syscall.O_RDWR || syscall.Fstat(stdout, &info) != nil || info.Rdev != 1<<8|3 { // /dev/null (devices.txt)
		return false, false
	}
	self := uintptr(os.Getpid())
	for _, other := range []uintptr{0, 2} { // what Go opens is open once
		if same, _, err := syscall.RawSyscall6(kcmp, self, self, kcmpFile, stdout, other, 0); err == 0 && same == 0 {
			return false, false
		}
	}
	return false, true
}
