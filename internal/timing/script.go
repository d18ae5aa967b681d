package timing

import (
	"math"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
)

// Script simulates the counters of a CPU for tests: it supplies the counts of whatever the child ran.
type Script struct {
	// Block sets the readings of an image with these iterations; Chain, of a calibration chain.
	Block func(events pmu.Pass, iterations int, r *Readings)
	Chain func(c clock.Chain, r *Readings)
	// Lie replaces an event's count per iteration of a stimulus, which should be must; nil: all are correct.
	Lie func(e pmu.Event, must float64) float64
}

// Chains simulates a clock with this many ticks for an add and three times as many for an imul.
func Chains(add float64) func(clock.Chain, *Readings) {
	const around = 50
	return func(c clock.Chain, r *Readings) {
		ticks := add * float64(c.Length())
		if c.Multiply {
			ticks *= 3
		}
		r.Say(around + uint64(math.Round(ticks)))
	}
}

func (s *Script) block(events pmu.Pass, iterations int, must func(pmu.Event) float64, r *Readings) {
	if must == nil {
		s.Block(events, iterations, r)
		return
	}
	r.Say(uint64(iterations))
	for k, e := range events[1:] {
		for j := range r.Counts[k+1] {
			r.Counts[k+1][j] = uint64(math.Round(float64(iterations) * s.countOf(e, must(e))))
		}
	}
}

func (s *Script) countOf(e pmu.Event, must float64) float64 {
	if s.Lie == nil {
		return must
	}
	return s.Lie(e, must)
}

// Readings holds the counts of the timed runs of one image.
type Readings struct {
	Counts   [][]uint64 // by event of the pass, then by run
	Switches uint64     // context switches seen
	Lost     uint64     // events that were taken off their counter
}

// Say sets each run to these cycles and no other event.
func (r *Readings) Say(cycles uint64) {
	for _, column := range r.Counts {
		clear(column)
	}
	for j := range r.Counts[0] {
		r.Counts[0][j] = cycles
	}
	r.Switches, r.Lost = 0, 0
}

// scriptedPage returns the address of an event's kernel page: at the log's end, beyond a short block's trace.
func scriptedPage(i int) uint64 { return layout.Log + layout.LogSize - uint64(i+1)*layout.PageSize }

// openScripted opens the events of a scripted kernel, in place of the child, and copies their pages,
// which name their counters, into the log.
func (t *Counters) openScripted() error {
	for i := range t.passes {
		p := &t.passes[i]
		fds, err := pmu.OpenGroup(t.kernel, p.events.Attrs(), t.child.PID())
		if err != nil {
			return err
		}
		p.leader = fds[0]
		for k, fd := range fds {
			page, err := t.kernel.Map(fd)
			if err != nil {
				return err
			}
			copy(t.child.Log()[p.clock.Pages[k]-layout.Log:], page)
			if err := t.kernel.Unmap(page); err != nil {
				return err
			}
		}
	}
	return nil
}
