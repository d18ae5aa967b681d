package profiler

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/space"
	"github.com/bbprof/bbprof/internal/tracee"
)

// TestLull runs the code that waits for a quiet core with a clock by script: which readings are quiet
// (q) and busy (b) decides how many it takes and how many more it may.
func TestLull(t *testing.T) {
	const (
		calm    = 3
		limit   = 10            // ticks of a quiet reading
		at      = space.Samples // how many times the clock was read
		times   = space.Samples + 64
		atMost  = 16 // readings
		endless = "b"
	)
	b := openBench(t)
	scripted := func(e *asm.Emitter) {
		e.IncMem(at)
		e.Load(asm.RCX, at)
		e.Lea(asm.RDX, times)
		e.LoadIndexed(asm.RAX, asm.RDX, asm.RCX)
	}
	e := asm.NewEmitter(b.images)
	entry := e.Lull(scripted, 1, 128, calm, b.child.Resume())
	copy(b.child.Code()[b.images-space.Code:], e.Bytes())
	for _, c := range []struct {
		script string // behind it all readings are busy
		wait   uint64
		taken  uint64 // readings
		left   uint64
	}{
		{"q", 5, 1, 5},
		{"bqqq", 5, 4, 4},
		{"bqqbqqq", 5, 7, 3},
		{"bqqbqqq", 2, 4, 1}, // the second busy one is the last that is waited for
		{endless, 5, 5, 1},
		{endless, 1, 1, 1},
		{"q", 1, 1, 1},
		{"bqqq", 1, 1, 1},
	} {
		now := uint64(0)
		for i := range uint64(atMost) {
			took := uint64(limit + 1)
			if i < uint64(len(c.script)) && c.script[i] == 'q' {
				took = limit
			}
			binary.LittleEndian.PutUint64(b.child.Samples()[times-space.Samples+8*(2*i+1):], now)
			now += took
			binary.LittleEndian.PutUint64(b.child.Samples()[times-space.Samples+8*(2*i+2):], now)
			now += 1000
		}
		stop, err := b.child.Do([]tracee.Op{
			tracee.Put(at, 0), tracee.Put(space.SlotQuiet, limit), tracee.Put(space.SlotWait, c.wait), tracee.Run(entry, 0),
		}, runLimit)
		if err != nil || !stop.Done {
			t.Fatalf("%s: %+v, %v", c.script, stop, err)
		}
		if taken := b.sampled(at) / 2; taken != c.taken || b.child.Word(space.SlotWait) != c.left {
			t.Errorf("%s%s with %d busy readings to wait for: %d readings, %d left; want %d and %d",
				c.script, strings.Repeat(endless, 3), c.wait, taken, b.child.Word(space.SlotWait), c.taken, c.left)
		}
	}
}
