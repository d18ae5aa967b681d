package timing

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// TestWaitIdle runs the wait for an idle core with a scripted clock. The script's readings are idle (q), busy (b),
// or idle with slow stores (s); they determine how many readings it takes and how many remain.
func TestWaitIdle(t *testing.T) {
	const (
		calm    = 3
		limit   = 10             // ticks of an idle reading
		stores  = 20             // of its stores
		at      = layout.Samples // how many times the clock was read
		times   = layout.Samples + 64
		endless = "bbbbbbbb"
	)
	b := bench(t)
	scripted := func(e *asm.Emitter) {
		e.IncMem(at)
		e.Load(asm.RCX, at)
		e.Lea(asm.RDX, times)
		e.LoadIndexed(asm.RAX, asm.RDX, asm.RCX)
	}
	e := asm.NewEmitter(b.images)
	entry := harness.WaitIdle(e, scripted, harness.Probe{Iterations: 1}, 128, calm, b.child.Resume())
	copy(b.child.Code()[b.images-layout.Code:], e.Bytes())
	for _, c := range []struct {
		script string // after it all readings are busy
		wait   uint64
		taken  int // readings
		left   uint64
	}{
		{"q", 5, 1, 5},
		{"bqqq", 5, 4, 4},
		{"sqq", 5, 3, 4}, // slow stores alone, at first: two idle ones are enough
		{"sqsqqq", 5, 6, 3},
		{"sbqqq", 5, 5, 3},
		{"bqqbqqq", 5, 7, 3},
		{"bqqsqqq", 5, 7, 3},
		{"bqqbqqq", 2, 4, 1}, // the second busy one is the last that is waited for
		{"", 5, 5, 1},
		{"", 1, 1, 1},
		{"bqqq", 1, 1, 1},
	} {
		reads, now := uint64(0), uint64(0)
		took := func(ticks uint64) {
			for _, d := range []uint64{1000, ticks} {
				reads++
				now += d
				binary.LittleEndian.PutUint64(b.child.Samples()[times-layout.Samples+8*reads:], now)
			}
		}
		want := uint64(0) // clock readings
		for i, reading := range c.script + endless {
			switch reading {
			case 'q':
				took(limit)
				took(stores)
			case 's':
				took(limit)
				took(stores + 1)
			case 'b':
				took(limit + 1)
			}
			if i < c.taken {
				want = reads
			}
		}
		stop, err := b.child.Do([]tracee.Op{
			tracee.Put(at, 0), tracee.Put(layout.SlotIdleProbe, limit), tracee.Put(layout.SlotIdleStores, stores), tracee.Put(layout.SlotWait, c.wait), tracee.Run(entry, 0),
		}, runLimit)
		if err != nil || !stop.Done {
			t.Fatalf("%s: %+v, %v", c.script, stop, err)
		}
		if given := b.child.Word(layout.SlotIdleProbe) == 0; given != (c.left == 1) {
			t.Errorf("%s%s with %d busy readings to wait for: given up %v", c.script, endless, c.wait, given)
		}
		if got := sampleWord(b.child.Samples(), at); got != want || b.child.Word(layout.SlotWait) != c.left {
			t.Errorf("%s%s with %d busy readings to wait for: the clock read %d times, %d left; want %d and %d",
				c.script, endless, c.wait, got, b.child.Word(layout.SlotWait), want, c.left)
		}
	}
}

// bench is a child with an uncalibrated timer. It belongs to the test's goroutine.
func bench(t *testing.T) *TSC {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the child is bound to the thread, which ends with the test
	init := initial.Paper()
	child, err := tracee.Launch(0, init.FSBase, init.GSBase)
	require.Measure(t, err)
	t.Cleanup(child.Close)
	timer := NewUncalibrated(Config{CPU: host.Detect(), Init: init})
	require.NoError(t, timer.Attach(t.Context(), child))
	return timer
}
