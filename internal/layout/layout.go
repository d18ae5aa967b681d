// Package layout is the child's address map: bbprof's own regions.
//
// The child holds nothing but the own region below and the pages that package mapping puts elsewhere for the block:
//
//	Base ┬ stub        4 KiB  r-x  works through the list; the only syscall instructions
//	     ├ frames    512 KiB  rw-  the physical pages; the child maps copies of these
//	     ├ counters   64 KiB  r--  the kernel's pages of the events that the child counts,
//	     │                         if any; closed with the side below
//	     │
//	     ├ log         4 MiB  rw-  effective addresses, written by the           ┐
//	     │                         instrumented image                           │
//	     ├ control     4 KiB  rw-  slots shared by monitor, stub and images      │
//	     ├ list      256 KiB  rw-  what the stub is to do: system calls and runs │ one
//	     ├ samples    64 KiB  rw-  clock readings, written by the sampler        │ side
//	     ├ restore    64 KiB  rw-  addresses of the words to put back            │
//	     ├ code        2 MiB  r-x  sampler, calibration chains, the block's      │
//	     │                         images                                       ┘
//	     │
//	     ├ dry loop    4 KiB  rw-  the counter of a dry run's loop, if it needs one
//	     ├ dry list   64 KiB  r-x  what the stub is to do for a dry run
//	     ├ dry code    2 MiB  r-x  the image of a dry run
//	End
//
// A block does a dry run first, while the side that measurements need is there without any rights; its later runs
// have that side open. It does the same in both unless it reads something that differs. The first such thing can only
// be bbprof's own memory: on the closed side, where the dry run faults; or the counter, which is closed later, and
// there it faults then. All else keeps the value it had in a dry run until the next one. So a block that has ended
// with the side closed, and runs when it is open, never reaches for it.
//
// The region lies between where Linux puts position-independent programs (about 0x5555…) and its mmap area (about
// 0x7f…), so launching never collides; a block reaches it only by forging an address.
package layout

// The own region. Everything in it is within ±2 GiB of everything else, so that generated code reaches all of it
// rip-relative without spending a register.
const (
	Base     = 0x6000_0000_0000
	Stub     = Base
	Frames   = Base + 0x0001_0000
	Counters = Base + 0x000a_0000
	Log      = Base + 0x0039_f000 // one side, from here without a gap
	Control  = Base + 0x0079_f000
	Ops      = Base + 0x007a_0000
	Samples  = Base + 0x007e_0000
	Restore  = Base + 0x007f_0000
	Code     = Base + 0x0080_0000
	CodeEnd  = Base + 0x00a0_0000

	DryRunLoop = Base + 0x00be_f000
	DryRunOps  = Base + 0x00bf_0000
	DryRunCode = Base + 0x00c0_0000
	End        = Base + 0x00e0_0000

	PageSize    = 4096
	ControlSize = PageSize
	OpsSize     = 256 << 10
	SamplesSize = 64 << 10
	RestoreSize = 64 << 10
	FramesSize  = MaxFrames * PageSize
	CodeSize    = CodeEnd - Code
	LogSize     = Control - Log

	DryRunLoopSize = PageSize
	DryRunOpsSize  = 64 << 10
	DryRunCodeSize = End - DryRunCode

	// MaxCounters is how many events the child can map, and MaxCounted how many of them it can read at a time: more
	// than cores have counters.
	MaxCounters = 16
	MaxCounted  = 12

	// MaxFrames is how many frames a block can be given: with more than L1D has ways, what a page on each costs is
	// measured on purpose.
	MaxFrames = 128

	// UserEnd is the first address that user space cannot map with 4-level paging: Linux keeps the last page below
	// 2^47 unmapped (TASK_SIZE_MAX, asm/page_64.h).
	UserEnd = 1<<47 - PageSize

	// Home is where the block believes that it stands: rip-relative operands are resolved against it, in every copy.
	// It lies apart from the code, so that small displacements do not hit the own region, and close enough for disp32
	// to reach ±1.75 GiB around it.
	Home = Base + 0x1000_0000
)

// Slots of the control page, 8 bytes each. The first line holds what every run touches.
const (
	SlotCount      = Control + 8*iota // runs left before an image returns
	SlotReturn                        // where an image goes when SlotCount reaches 0
	SlotEntry                         // entry of the image that the sampler is at
	SlotPhase                         // address of the current phase
	SlotStart                         // clock reading at the start of the contention probe
	SlotOut                           // where the next difference goes
	SlotKept                          // SlotOut after the last confirmed sample
	SlotDither                        // delay before the next timing, in loop iterations
	SlotSamples                       // samples still wanted
	SlotPolls                         // contention probe readings left before the sampler gives up
	SlotIdleProbe                     // longest contention probe reading of a core that is not shared
	SlotContention                    // the last contention probe reading
	SlotOps                           // address of the next step of the list
	SlotOpsEnd                        // address past the last
	SlotMXCSR                         // value for ldmxcsr
	SlotFlags                         // a stack of one word, for popfq
	SlotRestore                       // words to put back before each run
	SlotScratch                       // the register that the instrumented image borrows
	SlotDispatch                      // iterations of the loop before the first copy, beyond the least
	SlotLoop                          // iterations left of a loop that finds no free register
	SlotWait                          // busy contention probe readings left before an idle core is waited for no longer
	SlotIdleNeeded                    // idle ones in a row that make the core idle
	SlotRuns                          // runs of the block's images that are timed at once
	SlotIdleStores                    // as SlotIdleProbe, of the burst of stores
	SlotPhasesEnd                     // address past the last phase
	SlotTurns                         // turns of a loop whose entry chose them
	slotsEnd
)

const (
	Phases    = Control + 0x0e0 // table of phases, PhaseSize each: entry, runs, timed runs, bytes of room for the times of these
	PhaseSize = 32
	MaxPhases = (Usage - Phases) / PhaseSize

	Usage    = Control + 0x200 // struct rusage (getrusage(2), 144 bytes) before a window
	UsageEnd = Control + 0x300 // and after it

	SlotLost = Control + 0x3f8 // events that were not on one counter all the time

	// Times holds the clock at the end of each run by the number of runs left, itself included: the last is Times[1].
	Times   = Control + 0x400
	MaxRuns = (Control+ControlSize-Times)/8 - 1
)

// While events are counted nothing is sampled, and the tables below stand where samples do. They start at lines that
// the control page's busiest, the first, does not share a set with.
const (
	countSelects = Samples + 0x400
	countLocks   = countSelects + 8*MaxCounted
	countTables  = countLocks + 8*MaxCounted

	// CountRuns is how many runs of an image a table holds.
	CountRuns      = 23
	countTableSize = 8 * (CountRuns + 1)
)

// CountSelect is where the number of event i's counter stands, CountLock its page's lock.
func CountSelect(i int) uint64 { return countSelects + 8*uint64(i) }

func CountLock(i int) uint64 { return countLocks + 8*uint64(i) }

// CountTable holds event i's readings, by the number of runs left as in Times.
func CountTable(i int) uint64 { return countTables + uint64(i)*countTableSize }

func CounterPage(i int) uint64 { return Counters + uint64(i)*PageSize }

// What a dry run finds in memory: constants, ahead of its list, and the counter of a loop.
const (
	DryRunMXCSR = DryRunOps + 0x00 // value for ldmxcsr
	DryRunFlags = DryRunOps + 0x08 // a stack of one word, for popfq
	DryRunList  = DryRunOps + OpSize
	DryRunCount = DryRunLoop // iterations left of a loop that finds no free register

	// MaxDryRunOps is how many steps a dry run's list holds.
	MaxDryRunOps = DryRunOpsSize/OpSize - 1
)

const (
	// OpSize is one step of the list: number, six arguments, result.
	OpSize = 64
	// MaxOps is how many steps a list holds: a child run maps a block's pages twice, and a run may touch a thousand.
	MaxOps = OpsSize / OpSize
	// MaxRestore is how many words a prologue can put back.
	MaxRestore = RestoreSize / 8
	// MaxValues is how many, if each has a value of its own beside its address.
	MaxValues = RestoreSize / 16
)

// A window is where the own region stands a second time, within reach of rip-relative operands of a program that it
// does not reach from Base: the same memory, but for the stub and the frames. The images of a block that is replayed
// from a captured state run there. Generated code reaches the own region rip-relative, and so does not depend on
// which of the two it runs in.
const (
	WindowSize  = End - Base
	WindowAlign = 1 << 30
)

// Shift is how far after the own region its window stands; 0 if that is 0, no window.
func Shift(window uint64) uint64 {
	if window == 0 {
		return 0
	}
	return window - Base
}

// WindowFor lists where a window can be for a program's code at an address, the nearest first. It is within 1 GiB below or
// above the code, so that generated code also reaches 1 GiB on the other side. The child's filter tells the window and the
// own region apart by the upper halves of addresses.
func WindowFor(code uint64) (windows []uint64) {
	here := code &^ (WindowAlign - 1)
	for _, at := range []uint64{here, here + WindowAlign, here - WindowAlign} {
		if mappable(at, WindowSize) && at>>32 != Base>>32 {
			windows = append(windows, at)
		}
	}
	return windows
}

// Owns reports whether any of the n bytes at addr is bbprof's.
func Owns(addr, n uint64) bool {
	return addr < End && addr+n > Base
}

// mappable reports whether pages for the n bytes at addr can be expected to be mappable for a block: they are user
// space's, not bbprof's, and above the pages that only a right lets one map (vm.mmap_min_addr).
func mappable(addr, n uint64) bool {
	const lowest = 64 << 10
	return addr >= lowest && addr < UserEnd-n && !Owns(addr, n)
}

func PageOf(addr uint64) uint64 { return addr &^ (PageSize - 1) }
