package pmu

// Kernel is what of the operating system counting takes: the perf_event_open family of system
// calls and the files that tell what they will answer. [Linux] is the real one.
//
// Errors are the kernel's own numbers, such as syscall.EACCES.
type Kernel interface {
	// Open starts an event for a process (0 is the calling thread) on any CPU, in the group of
	// the event with that descriptor, or with -1 as the leader of its own.
	Open(a Attr, pid, group int) (fd int, err error)
	// Control enables, disables or resets the whole group of an event.
	Control(fd int, request Request) error
	// Read reads what an event's read format gives, here always a whole group; see [Decode].
	Read(fd int, b []byte) (n int, err error)
	// Map maps the one page that tells user code how to read the event (struct
	// perf_event_mmap_page, linux/perf_event.h); Unmap gives it back.
	Map(fd int) (page []byte, err error)
	Unmap(page []byte) error
	Close(fd int) error
	// ReadFile reads a file of /proc or /sys.
	ReadFile(name string) ([]byte, error)
	// List names the files of a folder of /sys, ascending.
	List(dir string) ([]string, error)
	// Work has the kernel copy KernelLines cache lines for the calling thread, whose own code hardly runs.
	Work() error
}

// KernelLines is how many cache lines [Kernel].Work copies: more than L1D holds many times over.
const KernelLines = 1 << 14

// Attr is what of struct perf_event_attr (linux/perf_event.h) differs from event to event. All
// events count in user mode alone but those that never happen there, and a group's leader is pinned: it is always on its
// counters, or in an error state that shows. The leader starts disabled, and with it the group.
type Attr struct {
	Type    uint32
	Config  uint64
	Config1 uint64
	Leader  bool
	// Inherit counts what the process starts too. Such an event is no group's.
	Inherit bool
}

// ofKernel reports whether the event happens in the kernel alone, so that without its mode
// none would be counted: context switches and migrations (enum perf_sw_ids).
func (a Attr) ofKernel() bool {
	const contextSwitches, migrations = 3, 4
	return a.Type == TypeSoftware && (a.Config == contextSwitches || a.Config == migrations)
}

// Request is an ioctl of a group (perf_event_open(2)).
type Request int

const (
	Enable Request = iota
	Disable
	Reset
)

// Major event types (enum perf_type_id, linux/perf_event.h). PMUs of their own have numbers in
// /sys/bus/event_source/devices/*/type.
const (
	TypeHardware = 0
	TypeSoftware = 1
	TypeHWCache  = 3
	TypeRaw      = 4
)
