package limits

import "syscall"

// stdoutFlags is what fcntl(2) said of descriptor 1 when the process started; 0 in programs that
// start at Go's own entry.
var stdoutFlags int64

// StdoutClosed reports whether standard output was closed when the process started, as far as is
// known: without the entry that the Makefile asks for, a closed one cannot be told from /dev/null.
func StdoutClosed() bool { return stdoutFlags == -int64(syscall.EBADF) }
