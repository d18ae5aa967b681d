package timing

import (
	"github.com/bbprof/bbprof/internal/pmu"
)

// Stimulus is a block with a known number of each event.
type Stimulus struct {
	Block
	Must func(pmu.Event) float64 // per iteration
}

// stimulusReplicates is small because a stimulus's counts are the same in all replicates.
const stimulusReplicates = 2

// Tally counts all events over a stimulus. No count rejects the block.
func (t *Counters) Tally(s Stimulus, p Plan) (Tallies, error) {
	c := t.series(s.Block, p)
	for n := range stimulusReplicates {
		if err := c.replicate(n, func(pass, _ int, l Layout) error { return c.tally(s, pass, l) }); err != nil {
			return nil, err
		}
	}
	return c.timed.Events, nil
}

// tally counts the events of a pass in one layout.
func (c *counterSeries) tally(s Stimulus, pass int, l Layout) error {
	p := c.passes[pass]
	var both [2]Readings
	for i, im := range []Image{c.pair.Short, c.pair.Long} {
		for try := 0; ; try++ {
			r, err := c.count(p, im, l.Offset(), s.Must)
			if err != nil {
				return err
			}
			if both[i] = r; r.Switches == 0 && r.Lost == 0 {
				break
			}
			if try == countedTries {
				return nil // without this window
			}
		}
	}
	c.timed.Events.add(p.events, c.pair, both, PaperIdentical)
	return nil
}
