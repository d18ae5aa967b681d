package count

import (
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/pmu"
)

func (s *session) byCounter(f frame) (Call, error) {
	c, err := pmu.OpenProcess(s.opts.Kernel, pmu.ProcessInstructions, f.thread)
	if err != nil {
		return Call{}, err
	}
	defer c.Close()
	// Nothing executes between the entry and the breakpoint there: the counter shows a stop's overhead.
	overhead, stop, err := s.stretch(c)
	if err != nil {
		return Call{}, err
	}
	if stop.End != nil || stop.Thread != f.thread || stop.Regs.RIP != f.entry {
		return Call{}, launch.Errorf(s.name, "count by single steps: -method step",
			"a signal or another thread came between two stops at %#x", f.entry)
	}
	if err := s.enter(f); err != nil {
		return Call{}, err
	}
	var call Call
	read := uint64(0)
	for {
		n, stop, err := s.stretch(c)
		if err != nil {
			return Call{}, err
		}
		read += n
		call.Instructions += n - min(n, overhead)
		if stop.End != nil {
			s.end = stop.End
			return call, nil
		}
		if s.returned(f, stop.Thread, stop.Regs) {
			if stop.Thread != f.thread {
				return Call{}, launch.Errorf(s.name, "run a Go program with GOMAXPROCS=1",
					"it went on in another thread, whose instructions are not counted")
			}
			break
		}
		if err := s.pass(stop.Thread, f, &call); err != nil {
			return Call{}, err
		}
	}
	if read == 0 {
		return Call{}, errZero
	}
	call.Returned = true
	return call, nil
}

func (s *session) stretch(c *pmu.Process) (uint64, debuggee.Stop, error) {
	if err := c.Start(); err != nil {
		return 0, debuggee.Stop{}, err
	}
	stop, err := s.Run()
	if err != nil {
		return 0, stop, err
	}
	n, err := c.Stop()
	return n, stop, err
}
