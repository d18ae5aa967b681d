//go:build !linux || !amd64

package debuggee

import (
	"fmt"
	"runtime"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Process needs Linux on x86-64; elsewhere this type lets its users compile and report why they cannot measure.
type Process struct{}

func elsewhere() error {
	return &verdict.HostError{
		Missing: fmt.Sprintf("this is %s on %s", runtime.GOOS, runtime.GOARCH),
		Remedy:  "run bbprof on Linux on an x86-64 machine",
	}
}

func Start(Config) (*Process, error) { return nil, elsewhere() }

func ContinueAfter(time.Duration) (cancel func(), err error) { return func() {}, nil }

// The other methods are never called.

func (p *Process) ID() int                                  { return 0 }
func (p *Process) Kill()                                    {}
func (p *Process) Close()                                   {}
func (p *Process) Foreign(func(int, asm.Regs) bool)         {}
func (p *Process) OnCall(func() error)                      {}
func (p *Process) Run() (Stop, error)                       { return Stop{}, elsewhere() }
func (p *Process) ToExec() (*End, error)                    { return nil, elsewhere() }
func (p *Process) Image() (string, error)                   { return "", elsewhere() }
func (p *Process) Has(string) (bool, error)                 { return false, elsewhere() }
func (p *Process) Watch()                                   {}
func (p *Process) Started() []string                        { return nil }
func (p *Process) Step(int) (Step, error)                   { return Step{}, elsewhere() }
func (p *Process) RunCopied(int, uint64) (uint64, error)    { return 0, elsewhere() }
func (p *Process) DropCopies(int) error                     { return elsewhere() }
func (p *Process) RunTo(int, uint64) (Step, error)          { return Step{}, elsewhere() }
func (p *Process) Regs(int) (asm.Regs, error)               { return asm.Regs{}, elsewhere() }
func (p *Process) State(int) (State, error)                 { return State{}, elsewhere() }
func (p *Process) Page(uint64, *[4096]byte) error           { return elsewhere() }
func (p *Process) FixRandom() error                         { return elsewhere() }
func (p *Process) Born() (threads, children int)            { return 0, 0 }
func (p *Process) Code(uint64, []byte) int                  { return 0 }
func (p *Process) Break(uint64) error                       { return elsewhere() }
func (p *Process) Unbreak(uint64) error                     { return elsewhere() }
func (p *Process) Word(uint64) (uint64, error)              { return 0, elsewhere() }
func (p *Process) OneMapping(uint64, uint64) bool           { return false }
func (p *Process) Entry() (uint64, error)                   { return 0, elsewhere() }
func (p *Process) StackDepth() (int, error)                 { return 0, elsewhere() }
func (p *Process) ShiftStack(int) error                     { return elsewhere() }
func (p *Process) ShiftHeap(int) error                      { return elsewhere() }
func (p *Process) ShiftImage(uint64, uint64, int) error     { return elsewhere() }
func (p *Process) Divert(int, uint64, uint64, uint64) error { return elsewhere() }
func (p *Process) CPUTime() (time.Duration, error)          { return 0, elsewhere() }
func (p *Process) Detach() error                            { return elsewhere() }
func (p *Process) Fork(int) (*Process, error)               { return nil, elsewhere() }
func (p *Process) RunCopy(uint64, int, int, func(uint64) []byte) (uint64, error) {
	return 0, elsewhere()
}
func (p *Process) Wait() (End, time.Duration, error) { return End{}, 0, elsewhere() }
