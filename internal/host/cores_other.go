//go:build !linux

package host

import "github.com/bbprof/bbprof/verdict"

func notLinux() error {
	return &verdict.HostError{Missing: "this is not Linux", Remedy: "run bbprof on Linux on an x86-64 machine"}
}

func AllowedCPUs() ([]int, error) { return nil, notLinux() }

func PinThread(int) error { return notLinux() }

func Siblings(cpu int) []int { return []int{cpu} }

func Quota() int { return 0 }

func Confine([]int) error { return notLinux() }
