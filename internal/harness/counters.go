package harness

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// CounterRead appends the instruction that reads a counter: what ecx selects, into edx:eax.
// It is Rdpmc; Rdtsc in its place runs the same code where there are no counters.
type CounterRead func(e *asm.Emitter)

// Counters says how the code around a block reads hardware counters.
//
// The kernel tells user code in a mapped page how to read an event (struct
// perf_event_mmap_page, linux/perf_event.h): under a sequence lock the number of the counter
// that the event is on, if it is on one, and an offset. The protocol is to read lock and
// number, execute rdpmc, and to start over if the lock has changed since. Here one critical
// section spans all runs of an image: Open reads locks and numbers, every run's end executes
// rdpmc alone, Close checks whether a lock has changed. So the pages, of which each takes a line
// of the same L1D set, are not touched while time counts, and the offset, constant under the
// lock, cancels.
type Counters struct {
	Pages []uint64 // addresses of the events' pages, core cycles first, at most layout.MaxCounted
	Read  CounterRead
}

// Offsets in struct perf_event_mmap_page.
const (
	PageLock  = 8 // both are 32 bits wide
	PageIndex = 12
)

// Clock appends code that waits for everything before it, notes all counters but the first in
// their tables under the number of runs left, and leaves the first in rax. It changes rcx and
// rdx. Counters have fewer than 64 bits; differences are taken modulo that.
func (c Counters) Clock(e *asm.Emitter) {
	e.Lfence()
	for i := len(c.Pages) - 1; i > 0; i-- {
		c.read(e, i)
		e.Load(asm.RCX, layout.SlotCount)
		e.Lea(asm.RDX, layout.CountTable(i))
		e.StoreIndexed(asm.RDX, asm.RCX, asm.RAX)
	}
	e.Lfence()
	c.read(e, 0)
	e.Lfence() // what follows waits, so that it never runs beside the read
}

func (c Counters) read(e *asm.Emitter, i int) {
	e.Load(asm.RCX, layout.CountSelect(i))
	c.Read(e)
	e.Shl(asm.RDX, 32)
	e.Or(asm.RAX, asm.RDX)
}

// Open appends code that opens the critical section and goes to done: it notes each event's
// lock and counter, and counts in SlotLost those that are on none. Those are read as counter 0,
// which every core has, so that nothing faults.
func (c Counters) Open(e *asm.Emitter, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	for i, page := range c.Pages {
		e.Load32(asm.RAX, page+PageLock)
		e.Store(layout.CountLock(i), asm.RAX)
		e.Load32(asm.RCX, page+PageIndex)
		e.AddImm8(asm.RCX, 0)
		on := e.ForwardJnz()
		e.IncMem(layout.SlotLost)
		e.AddImm8(asm.RCX, 1)
		e.Bind(on)
		e.AddImm8(asm.RCX, -1)
		e.Store(layout.CountSelect(i), asm.RCX)
	}
	e.Lfence()
	e.Jmp(done)
	return entry
}

// Close appends code that closes the critical section and goes to done: it counts in SlotLost
// the events whose lock has changed, which were taken off their counter, or put onto another.
func (c Counters) Close(e *asm.Emitter, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.Lfence()
	for i, page := range c.Pages {
		e.Load32(asm.RAX, page+PageLock)
		e.SubMem(asm.RAX, layout.CountLock(i))
		same := e.ForwardJz()
		e.IncMem(layout.SlotLost)
		e.Bind(same)
	}
	e.Jmp(done)
	return entry
}
