package tracee

import "fmt"

// StopError says that the child stopped before it was through with what it was given.
type StopError struct {
	Doing string // what it was given, such as "timing"
	Stop
}

func (e *StopError) Error() string {
	if e.FailedOp >= 0 {
		return fmt.Sprintf("%s stopped: step %d failed with errno %d", e.Doing, e.FailedOp, e.Errno)
	}
	return fmt.Sprintf("%s stopped: signal %d, code %d, address %#x at %#x", e.Doing, e.Signal, e.Code, e.Addr, e.Regs.RIP)
}

// Completed is nil if the child is through, else a *StopError.
func (s Stop) Completed(doing string) error {
	if s.Done {
		return nil
	}
	return &StopError{doing, s}
}
