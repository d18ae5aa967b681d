package timing

import (
	"encoding/binary"
	"fmt"
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

// TestChooseRuns lets the child choose the number of runs per timing from scripted run times.
func TestChooseRuns(t *testing.T) {
	const phases, searched, warm = 4, 4, 2
	wanted := harness.Runs{Ticks: 1000, Least: 6, Most: 64, Longest: 3000}
	b := bench(t)
	e := asm.NewEmitter(b.images)
	entry := harness.ChooseRuns(e, []int{phases - 2, phases - 1}, searched, wanted, b.child.Resume())
	copy(b.child.Code()[b.images-layout.Code:], e.Bytes())
	for _, c := range []struct {
		took [searched - 1]uint64 // ticks of each run but the first
		want uint64
	}{
		{[...]uint64{100, 100, 100}, 10},
		{[...]uint64{101, 100, 102}, 10}, // the fastest counts,
		{[...]uint64{99, 100, 101}, 11},  // first
		{[...]uint64{101, 102, 99}, 11},  // or last
		{[...]uint64{199, 199, 199}, 6},
		{[...]uint64{200, 200, 200}, 6}, // 5 fill Ticks
		{[...]uint64{599, 599, 599}, 6},
		{[...]uint64{600, 600, 600}, 5}, // and 5 Longest
		{[...]uint64{2999, 2999, 2999}, 2},
		{[...]uint64{3000, 3000, 3000}, 1},
		{[...]uint64{1 << 40, 1 << 40, 1 << 40}, 1},
		{[...]uint64{17, 17, 17}, 59},
		{[...]uint64{16, 16, 16}, 63},
		{[...]uint64{15, 15, 15}, 64},
		{[...]uint64{0, 0, 0}, 64},
	} {
		end := uint64(1 << 50)
		for left := searched; left > 0; left-- {
			b.child.SetWord(layout.Times+8*uint64(left), end)
			if left > 1 {
				end += c.took[searched-left]
			}
		}
		stop, err := b.child.Do([]tracee.Op{tracee.Run(entry, warm)}, runLimit)
		if err != nil || !stop.Done {
			t.Fatalf("%v: %+v, %v", c.took, stop, err)
		}
		require.Equal(t, c.took, c.want, b.child.Word(layout.SlotRuns))
		for phase := uint64(0); phase < phases; phase++ {
			at := layout.Phases + phase*layout.PhaseSize
			got := [2]uint64{b.child.Word(at + 8), b.child.Word(at + 16)}
			ahead := warm + uint64(harness.WarmFor(int(c.want)))
			if is := got == [...]uint64{ahead + c.want, c.want}; is != (phase >= phases-2) {
				t.Errorf("%v ticks: row %d has %d", c.took, phase, got)
			}
		}
	}
}

// TestSamples times images with scripted clocks: run n of the short image takes 2n-1 ticks, and of the long one eight
// times as many. Each timing covers the last runs, and the time of one run is their core.
func TestSamples(t *testing.T) {
	const warm, runs = 2, 3
	b := bench(t)
	e := asm.NewEmitter(b.images)
	square := func(counter uint64, shift byte) image {
		entry := e.PC()
		harness.Epilogue(e, entry, func(e *asm.Emitter) {
			e.IncMem(counter)
			e.Load(asm.RAX, counter)
			e.Raw(0x48, 0x0f, 0xaf, 0xc0) // imul rax, rax
			e.Raw(0x48, 0xc1, 0xe0, shift)
		})
		return image{entry, warm, runs, 0}
	}
	b.CPU.SettlesAtOnce = false
	plan := runPlan{
		pairs:   []pairPlan{{nil, square(layout.Log, 0), square(layout.Log+8, 3), []int{0, 3}}},
		samples: 1, rows: windowRows, polls: windowPolls, idle: anyReading,
	}
	copy(b.child.Code()[b.images-layout.Code:], e.Bytes())
	got := require.Get(b.run(plan))(t)
	ran := [2]float64{}
	for i, ahead := range [][2]float64{{warmShort, warmLong}, {offsetRuns, offsetRuns}} {
		var sums, ones [2][]float64
		for range windowSamples {
			for image, ticks := range []float64{1, 8} {
				ran[image] += ahead[image] + warm + runs
				middle := 2*(ran[image]-1) - 1
				sums[image] = append(sums[image], runs*middle*ticks)
				ones[image] = append(ones[image], middle*ticks)
			}
			ahead = [2]float64{}
		}
		w := got.windows[i]
		images := w.columns[len(w.columns)-2:]
		require.Equal(t, fmt.Sprintf("window %d, all runs", i), [][]float64{sums[0], sums[1]}, images)
		require.Equal(t, fmt.Sprintf("window %d, one run", i), ones, w.perRun)
		if w.samples() != windowSamples || !w.complete {
			t.Errorf("window %d: %d samples", i, w.samples())
		}
	}
	plan.idle = 0 // every reading is a busy one
	for i, w := range require.Get(b.run(plan))(t).windows {
		if w.samples() != 0 || w.complete || w.polls != windowPolls {
			t.Errorf("window %d on a busy core: %d samples, %d readings", i, w.samples(), w.polls)
		}
	}
}

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
			if reading == 'b' {
				took(limit + 1)
			} else {
				took(limit)
				took(stores + map[rune]uint64{'q': 0, 's': 1}[reading])
			}
			if i < c.taken {
				want = reads
			}
		}
		stop, err := b.child.Do([]tracee.Op{
			tracee.Put(at, 0), tracee.Put(layout.SlotIdleProbe, limit), tracee.Put(layout.SlotIdleStores, stores),
			tracee.Put(layout.SlotWait, c.wait), tracee.Run(entry, 0),
		}, runLimit)
		if err != nil || !stop.Done {
			t.Fatalf("%s: %+v, %v", c.script, stop, err)
		}
		got, left := sampleWord(b.child.Samples(), at), b.child.Word(layout.SlotWait)
		givenUp := b.child.Word(layout.SlotIdleProbe) == 0
		if got != want || left != c.left || givenUp != (c.left == 1) {
			t.Errorf("%s%s with %d busy readings to wait for: the clock read %d times, %d left, given up %v; want %d and %d",
				c.script, endless, c.wait, got, left, givenUp, want, c.left)
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
