//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreFileLimit makes a limit on the size of files an error like any other, which can be
// explained, instead of a signal.
func ignoreFileLimit() { signal.Ignore(syscall.SIGXFSZ) }
