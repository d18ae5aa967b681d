package harness

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// CounterRead appends the instruction that reads the counter selected by ecx into edx:eax.
// It is Rdpmc, or Rdtsc to run the same code without counters.
type CounterRead func(e *asm.Emitter)

// Counters configures how the code around a block reads hardware counters.
//
// The kernel tells user code in a mapped page how to read an event (struct perf_event_mmap_page, linux/perf_event.h):
// under a sequence lock the number of the counter that holds the event, if one does, and an offset. The protocol is
// to read lock and number, execute rdpmc, and start over if the lock has changed since. Here one critical section
// spans all runs of an image: Open reads locks and numbers, the end of each run only executes rdpmc, and Close checks
// the locks. So the timed runs do not touch the pages, each of which takes a line of the same L1D set, and the
// offset, constant under the lock, cancels.
type Counters struct {
	Pages []uint64 // addresses of the events' pages, core cycles first, at most layout.MaxCounted
	Read  CounterRead
}

// Offsets in struct perf_event_mmap_page.
const (
	PageLock  = 8 // both are 32 bits wide
	PageIndex = 12
)

// Clock appends code that waits for everything before it, stores all counters but the first in
// their tables, indexed by the number of runs left, and leaves the first in rax. It changes rcx
// and rdx. Counters have fewer than 64 bits; take differences modulo that.
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
	e.Lfence() // later code must not overlap the read
}

func (c Counters) read(e *asm.Emitter, i int) {
	e.Load(asm.RCX, layout.CountSelect(i))
	c.Read(e)
	e.Shl(asm.RDX, 32)
	e.Or(asm.RAX, asm.RDX)
}

// Open appends code that opens the critical section and jumps to done. It stores each event's
// lock and counter number. It counts events without a counter in SlotLost and reads counter 0
// for them, which every core has, so that nothing faults.
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

// Close appends code that closes the critical section and jumps to done. It counts in SlotLost
// the events whose lock has changed because they lost or changed their counter.
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
