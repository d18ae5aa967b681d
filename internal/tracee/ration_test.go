package tracee

import (
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
)

// script lists the timer and CPU clock events of a ration of 500 ms, checked every 50.
type script struct {
	name string
	cpu  []time.Duration // CPU clock when the timer fires, in ms
	want []time.Duration // next timer interval, in ms
	end  outcome
}

func TestRation(t *testing.T) {
	const start = 7_000 // CPU clock at the list's start
	for _, c := range []script{
		{"an endless loop on an idle machine",
			[]time.Duration{50, 100, 150, 200, 250, 300, 350, 400, 450, 500},
			[]time.Duration{50, 50, 50, 50, 50, 50, 50, 50, 50, 0}, overtime},
		{"the same, and the clock lags by a tick",
			[]time.Duration{46, 98, 146, 198, 246, 298, 346, 398, 446, 495, 496},
			[]time.Duration{50, 50, 50, 50, 50, 50, 50, 50, 50, 1, 0}, overtime},
		{"a millisecond less than all is not all",
			[]time.Duration{50, 100, 150, 200, 250, 300, 350, 400, 450, 499, 500},
			[]time.Duration{50, 50, 50, 50, 50, 50, 50, 50, 50, 1, 0}, overtime},
		{"half a CPU",
			[]time.Duration{50, 75, 100, 125, 150, 175, 200, 225, 250, 275, 300, 325, 350, 375, 400, 425, 450, 475, 500},
			[]time.Duration{50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 25, 0}, overtime},
		{"frozen from the beginning, for however long: the first slice only is lost",
			[]time.Duration{0, 0, 0, 50},
			[]time.Duration{50, 50, 50, 50}, inTime},
		{"a pause that the clock takes for the child's: no more counts than was waited for",
			[]time.Duration{50, 60_000, 60_050},
			[]time.Duration{50, 50, 50}, inTime},
		{"the same, ahead of the first time that the clock is read",
			[]time.Duration{60_000, 60_050},
			[]time.Duration{50, 50}, inTime},
	} {
		var r ration
		if first := r.begin(500 * time.Millisecond); first != 50*time.Millisecond {
			t.Errorf("%s: the timer is set for %v at first", c.name, first)
		}
		for i, ms := range c.cpu {
			next, outcome := r.fired((start + ms) * time.Millisecond)
			want := inTime
			if i == len(c.cpu)-1 {
				want = c.end
			}
			if next != c.want[i]*time.Millisecond || outcome != want {
				t.Errorf("%s: step %d: %v and %v, want %v ms and %v", c.name, i, next, outcome, int(c.want[i]), want)
				break
			}
		}
	}
}

// TestRationOfNothing: a child that never gets a CPU is given up after exactly twenty times its limit, and not for
// overtime.
func TestRationOfNothing(t *testing.T) {
	const limit = 500 * time.Millisecond
	var r ration
	waited := r.begin(limit)
	for {
		next, outcome := r.fired(time.Hour)
		if outcome != inTime {
			if outcome != starved || waited != patience*limit {
				t.Errorf("outcome %v after %v", outcome, waited)
			}
			return
		}
		if waited += next; waited > 2*patience*limit {
			t.Fatal("it waits for ever")
		}
	}
}

// TestShortRations are so short that only the wall clock counts.
func TestShortRations(t *testing.T) {
	for limit, first := range map[time.Duration]time.Duration{
		0: 0, time.Microsecond: time.Microsecond, leastSlice: leastSlice, leastSlice + 1: leastSlice,
		10 * leastSlice: leastSlice, 20 * leastSlice: 2 * leastSlice,
	} {
		var r ration
		require.Equal(t, limit, first, r.begin(limit))
		_, outcome := r.fired(time.Hour)
		want := inTime
		if limit <= leastSlice {
			want = overtime
		}
		if outcome != want {
			t.Errorf("%v: outcome %v, want %v", limit, outcome, want)
		}
	}
}
