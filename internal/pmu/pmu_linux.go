package pmu

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/verdict"
)

// Counter is an open counter, which stands still until Start.
type Counter struct{ fd int }

// Available is nil where an event can be counted, else a *verdict.HostError.
func (e Event) Available() error {
	c, err := e.Open(0, Thread)
	if err == nil {
		c.Close()
	}
	return err
}

// Open makes a counter for a thread or, with Family, a process of one thread and what it will
// start; 0 is the calling thread.
func (e Event) Open(pid int, s Scope) (*Counter, error) {
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_HARDWARE,
		Config: uint64(e),
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:   unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		// Both times tell whether it had a counter of the CPU for itself all along.
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	if s == Family {
		attr.Bits |= unix.PerfBitInherit
	}
	fd, err := unix.PerfEventOpen(&attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, &verdict.HostError{
			Missing: "no hardware counter",
			Remedy:  "a virtual machine needs a virtual PMU, and /proc/sys/kernel/perf_event_paranoid must be 2 or less", Err: err,
		}
	}
	return &Counter{fd}, nil
}

// Start sets the counter to zero and lets it count.
func (c *Counter) Start() error {
	for _, request := range []uint{unix.PERF_EVENT_IOC_RESET, unix.PERF_EVENT_IOC_ENABLE} {
		if err := unix.IoctlSetInt(c.fd, request, 0); err != nil {
			return fmt.Errorf("starting a counter: %w", err)
		}
	}
	return nil
}

// Stop stops the counter and reads what it counted since Start.
func (c *Counter) Stop() (uint64, error) {
	if err := unix.IoctlSetInt(c.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
		return 0, fmt.Errorf("stopping a counter: %w", err)
	}
	var b [24]byte // value, time enabled, time running
	if n, err := unix.Read(c.fd, b[:]); err != nil || n != len(b) {
		return 0, fmt.Errorf("reading a counter: %d bytes: %w", n, err)
	}
	if enabled, running := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]); running < enabled {
		return 0, &verdict.HostError{Missing: "the hardware counter was shared with somebody else, so its count is not exact", Remedy: "end other users of the CPU's counters, such as perf and the NMI watchdog"}
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// Close gives the counter back.
func (c *Counter) Close() { unix.Close(c.fd) }
