package tracee

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// openCounters makes the child open the events and map their pages, because the kernel allows rdpmc only to the
// process that maps an event. The monitor takes a descriptor of each, to switch them on and off; the child closes
// its own.
func (t *Tracee) openCounters(counters []Counter) error {
	if len(counters) > layout.MaxCounters {
		return fmt.Errorf("%d events to map, at most %d fit", len(counters), layout.MaxCounters)
	}
	var own []uint64 // the child's descriptors
	for i, c := range counters {
		group := ^uint64(0)
		if c.Leader >= 0 {
			group = own[c.Leader]
		}
		copy(t.Samples(), c.Attr) // where the child can read it
		const anyCPU = ^uint64(0)
		fd, err := t.inject(unix.SYS_PERF_EVENT_OPEN, layout.Samples, 0, anyCPU, group, 0)
		if err != nil {
			return &CounterError{Index: i, What: "opening", Err: err}
		}
		own = append(own, fd)
		const fixed = unix.MAP_SHARED | unix.MAP_FIXED_NOREPLACE
		at := []uint64{layout.CounterPage(i)}
		if t.window != 0 {
			at = append(at, layout.CounterPage(i)+layout.Shift(t.window))
		}
		for _, addr := range at {
			if _, err := t.inject(unix.SYS_MMAP, addr, layout.PageSize, unix.PROT_READ, fixed, fd, 0); err != nil {
				return &CounterError{Index: i, What: "mapping", Err: err}
			}
		}
		ours, err := unix.PidfdGetfd(t.pidfd, int(fd), 0)
		switch {
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EBADF): // Linux before 5.6; EBADF: no pidfd, before 5.2
			return &verdict.HostError{Missing: "pidfd_getfd, by which an event of the child is turned on",
				Remedy: "use Linux 5.6 or later, or -clock tsc", Err: err}
		case err != nil:
			return &CounterError{Index: i, What: "taking a descriptor of", Err: err}
		}
		t.counters = append(t.counters, ours)
	}
	for _, fd := range own {
		if _, err := t.inject(unix.SYS_CLOSE, fd); err != nil {
			return fmt.Errorf("closing an event's descriptor in the child: %w", err)
		}
	}
	clear(t.Samples()[:layout.PageSize])
	return nil
}

// Counters returns the monitor's descriptors of the child's events in the order of Launch, while the child lives.
func (t *Tracee) Counters() []int { return t.counters }

// PID returns the child's process number, 0 once it has ended.
func (t *Tracee) PID() int { return t.pid }
