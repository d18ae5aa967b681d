//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// IgnoreFileLimit turns exceeding the file size limit from a signal into an error that can be explained.
func IgnoreFileLimit() { signal.Ignore(syscall.SIGXFSZ) }
