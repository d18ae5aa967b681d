//go:build !linux

package pmu

import "github.com/bbprof/bbprof/verdict"

// Counter needs Linux.
type Counter struct{}

func elsewhere() error {
	return &verdict.HostError{Missing: "this is not Linux", Remedy: "run bbprof on Linux on an x86-64 machine"}
}

// Available returns a *verdict.HostError.
func (Event) Available() error { return elsewhere() }

// Open returns a *verdict.HostError.
func (Event) Open(int, Scope) (*Counter, error) { return nil, elsewhere() }

// The others have nothing to work on.

func (*Counter) Start() error          { return elsewhere() }
func (*Counter) Stop() (uint64, error) { return 0, elsewhere() }
func (*Counter) Close()                {}
