package timing

import "math"

// relocate leaves a CPU that another process keeps busy for the next one and measures the clock rate
// there. It raises the probe's idle time if that was too low.
func (t *TSC) relocate() error {
	if err := t.CPUs.Next(t.child); err != nil {
		return err
	}
	w, err := t.measureRate()
	if err == nil {
		t.raiseIdle(probeCycles(w, t.clock))
	}
	return err
}

// widen prepares for blocks with vectors of this width. A core that uses wider units runs at a lower
// clock (Intel Optimization Manual, "Intel AVX and AVX-512 frequency"): 12 % lower with 512 bits on
// Granite Rapids, where every reading of the contention probe then looked busy.
func (t *TSC) widen(bits int) error {
	bits = max(bits, 128)
	if bits == max(t.width, 128) {
		return nil
	}
	t.width = bits
	known := t.rate
	if _, err := t.measureRate(); err != nil {
		return err
	}
	const same = 0.02 // half of a probe reading's tolerance
	if math.Abs(t.rate.ticks-known.ticks) < same*known.ticks {
		t.rate = known // of more samples
	}
	return nil
}

// measureRate measures the core's present rate without waiting until it is idle. A neighbour can only
// slow the chain, so the fast half of the samples counts.
func (t *TSC) measureRate() (window, error) {
	chain := t.chains[0]
	got, err := t.run(runPlan{pairs: []pairPlan{{nil, chain, chain, oneWindow}}, samples: 32, rows: startRows, polls: 64,
		idle: anyReading, vectorBits: t.width})
	if err != nil {
		return window{}, err
	}
	w := got.windows[0]
	if rate := t.clock.FastRate(w.chains()); rate > 0 {
		t.rate = clockRate{ticks: rate}
	}
	return w, nil
}
