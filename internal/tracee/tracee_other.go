//go:build !linux || !amd64

package tracee

import (
	"fmt"
	"runtime"
	"time"

	"github.com/bbprof/bbprof/verdict"
)

// Tracee needs Linux on x86-64; elsewhere Launch fails, so that callers compile and can say why.
type Tracee struct {
	shared
	SpeculativeStoreBypass string
}

func elsewhere() error {
	return &verdict.HostError{
		Missing: fmt.Sprintf("this is %s on %s", runtime.GOOS, runtime.GOARCH),
		Remedy:  "run bbprof on Linux on an x86-64 machine",
	}
}

func Launch(window, fsBase, gsBase uint64, counters ...Counter) (*Tracee, error) {
	return nil, elsewhere()
}

func (t *Tracee) Do([]Op, time.Duration) (Stop, error) { return Stop{}, elsewhere() }

func (t *Tracee) Try([]Op, uint64, uint64, time.Duration) (Stop, error) { return Stop{}, elsewhere() }

func (t *Tracee) Step([]Op, uint64, uint64, time.Duration, func(Regs)) (Stop, error) {
	return Stop{}, elsewhere()
}

func (t *Tracee) Bind(int) error { return elsewhere() }

// The other methods do nothing without a child.

func (t *Tracee) Close()                  {}
func (t *Tracee) Kill()                   {}
func (t *Tracee) Alive() bool             { return false }
func (t *Tracee) XSave() ([]byte, error)  { return nil, elsewhere() }
func (t *Tracee) SetBases(uint64, uint64) {}
func (t *Tracee) Resume() uint64          { return 0 }
func (t *Tracee) Counters() []int         { return nil }
func (t *Tracee) PID() int                { return 0 }
func (t *Tracee) CPUTime() time.Duration  { return 0 }
