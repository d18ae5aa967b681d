//go:build !linux

package host

import "github.com/bbprof/bbprof/verdict"

func notLinux() error {
	return &verdict.HostError{Missing: "this is not Linux", Remedy: "run bbprof on Linux on an x86-64 machine"}
}

// AllowedCPUs needs Linux.
func AllowedCPUs() ([]int, error) { return nil, notLinux() }

// PinThread needs Linux.
func PinThread(int) error { return notLinux() }

// Siblings needs Linux.
func Siblings(cpu int) []int { return []int{cpu} }

// Quota needs Linux.
func Quota() int { return 0 }

// MemoryLimit needs Linux.
func MemoryLimit() int64 { return 0 }

// Confine needs Linux.
func Confine([]int) error { return notLinux() }

// Kernel needs Linux.
func Kernel() string { return "" }
