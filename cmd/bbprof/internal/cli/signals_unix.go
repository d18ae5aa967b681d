//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// IgnoreFileLimit makes a limit on the size of files an error like any other, which can be
// explained, instead of a signal.
func IgnoreFileLimit() { signal.Ignore(syscall.SIGXFSZ) }
