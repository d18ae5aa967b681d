//go:build !amd64

package program

// chain is never run: programs are measured on x86-64 alone.
func chain(uint64) {}
