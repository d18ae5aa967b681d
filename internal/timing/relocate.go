package timing

import "math"

// raiseIdle takes the fastest mode of the probe's readings for that of an idle core if what is known of the core confirms it, but it is above the
// present limit: where the idle time was learned from nothing but the fastest readings, all others are taken for those of a busy core from then on.
func (t *TSC) raiseIdle(readings []float64) {
	mode, ok := fastestMode(readings, t.clock.Step()/t.rate.ticks)
	if ok && t.confirms(mode) && uint64(mode*t.rate.ticks) > t.longestIdle() {
		t.idle, t.report.ProbeIdle = mode, mode
	}
}

// relocate moves to the next CPU when another process keeps the current one busy, and measures the
// clock rate there; if the idle time of the probe was too low, it is raised.
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

// widen prepares for blocks whose vectors have that many bits. A core that uses wider units runs at
// a lower clock (Intel Optimization Manual, "Intel AVX and AVX-512 frequency"): 12 % lower with 512
// bits on Granite Rapids, where every reading of the contention probe then passed for a busy core.
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
	const same = 0.02 // half of what a reading of the probe may be off
	if math.Abs(t.rate.ticks-known.ticks) < same*known.ticks {
		t.rate = known // of more samples
	}
	return nil
}

// measureRate learns the core's present speed without waiting until it is idle. What shares the
// core can only slow the chain, so the fast half of the samples is asked.
func (t *TSC) measureRate() (window, error) {
	chain := t.chains[0]
	got, err := t.run(runPlan{pairs: []pairPlan{{nil, chain, chain, oneWindow}}, samples: 32, times: 1, polls: 64, idle: anyReading, vectorBits: t.width})
	if err != nil {
		return window{}, err
	}
	w := got.windows[0]
	if rate := t.clock.FastRate(w.chains(len(t.chains))); rate > 0 {
		t.rate = clockRate{ticks: rate}
	}
	return w, nil
}
