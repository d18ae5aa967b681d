package pmu

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/bbprof/bbprof/verdict"
)

// Process counts one event of another process, in user mode.
type Process struct {
	k    Kernel
	fd   int
	attr Attr
}

// Generic events (enum perf_hw_id, linux/perf_event.h), which need no table of the core's events.
var (
	ProcessCycles       = Attr{Type: TypeHardware, Config: 0, Inherit: true} // with its children
	ProcessInstructions = Attr{Type: TypeHardware, Config: 1}                // of one thread alone
)

// OpenProcess opens a counter for a stopped thread, or for the calling thread if pid is 0.
func OpenProcess(k Kernel, a Attr, pid int) (*Process, error) {
	a.Leader = true
	fd, err := k.Open(a, pid, -1)
	if err == nil {
		return &Process{k, fd, a}, nil
	}
	remedy := "a virtual machine needs a virtual PMU"
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		remedy = "run as root, with CAP_PERFMON, or with /proc/sys/kernel/perf_event_paranoid at 2 or below"
	}
	return nil, &verdict.HostError{Missing: "the CPU's counters cannot be used", Remedy: remedy, Err: err}
}

// CanCount reports whether the event can be counted here.
func CanCount(k Kernel, a Attr) bool {
	p, err := OpenProcess(k, a, 0)
	if err != nil {
		return false
	}
	p.Close()
	return true
}

func (p *Process) Start() error { return start(p.k, p.fd) }

// Stop stops the counter and returns its count since Start. A *verdict.HostError says that somebody
// else used the counter meanwhile.
func (p *Process) Stop() (uint64, error) {
	err := p.k.Control(p.fd, Disable)
	if err != nil {
		return 0, fmt.Errorf("stopping a counter: %w", err)
	}
	var c Counts
	if p.attr.Inherit {
		c, err = p.readOne()
	} else {
		c, err = ReadGroup(p.k, p.fd, 1)
	}
	if shared := (*NotRunningError)(nil); errors.As(err, &shared) {
		return 0, &verdict.HostError{Missing: "the CPU's counter was not free all the time",
			Remedy: "end other users of the counters, such as perf and the NMI watchdog", Err: err}
	}
	if err != nil {
		return 0, fmt.Errorf("reading a counter: %w", err)
	}
	return c.Values[0], nil
}

// readOne reads an inherited event, for which the kernel gives no group but the value, then both times.
func (p *Process) readOne() (Counts, error) {
	var b [24]byte
	n, err := p.k.Read(p.fd, b[:])
	if err != nil || n == 0 {
		return Counts{}, cmp.Or(err, error(&NotRunningError{}))
	}
	return decode(slices.Concat(binary.LittleEndian.AppendUint64(nil, 1), b[8:], b[:8]), 1) // in the format of a group of one
}

func (p *Process) Close() { p.k.Close(p.fd) }
