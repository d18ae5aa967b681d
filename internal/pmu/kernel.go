package pmu

// Kernel is the part of the operating system that counting needs: the perf_event_open family of system
// calls, and the files that describe it. [Linux] is the real one.
//
// Errors are the kernel's own numbers, such as syscall.EACCES.
type Kernel interface {
	// Open starts an event for a process (0 is the calling thread) on any CPU, in the group of
	// the event with that descriptor, or with -1 as the leader of its own.
	Open(a Attr, pid, group int) (fd int, err error)
	// Control enables, disables or resets the whole group of an event.
	Control(fd int, request Request) error
	// Read reads a group of events; see decode.
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
}

// Attr holds the fields of struct perf_event_attr (linux/perf_event.h) that differ between events. Events count user
// mode alone, except those that happen only in the kernel. A group's leader is pinned, so that it is always on its
// counters or in a visible error state. It starts disabled, and so does its group.
type Attr struct {
	Type    uint32
	Config  uint64
	Config1 uint64
	Leader  bool
	// Inherit counts the process's children, too. Such an event cannot be in a group.
	Inherit bool
}

// ofKernel reports whether the event happens only in kernel mode: context switches and migrations (enum perf_sw_ids).
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
