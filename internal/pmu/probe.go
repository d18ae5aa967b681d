// Package pmu finds and opens hardware counters. It has the few system calls that counting needs, as an
// interface, so that a scripted kernel can replace them in tests; the events of each kind of core with
// their sources; and the probe that finds which events this kernel lets this process count.
//
// github.com/elastic/go-perf supplies the meaning of perf(1)'s names for the kernel's generic events
// (linux.go). The calls are our own, since the child, which has no Go runtime, opens and maps the
// events that it counts, and since tests replace the kernel.
//
// It knows nothing of children and blocks.
package pmu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/internal/cpu"
)

type CPU struct {
	cpu.ID
	Number int // of the logical CPU: a hybrid CPU has two kinds of core, each with its PMU
}

type Device struct {
	Name   string `json:"name"` // below /sys/bus/event_source/devices: cpu, cpu_core or cpu_atom
	Type   uint32 `json:"type"`
	Hybrid bool   `json:"hybrid"`
}

type PMU struct {
	// Available says that core cycles can be counted; otherwise Reason says why not, and Remedy what would help.
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"`
	Remedy    string `json:"remedy,omitempty"`

	Device Device `json:"device"`
	// Core is the events table's name of this core, Generic if it is not in it.
	Core Core `json:"core"`
	// Counters is the number of events that can be counted together with core cycles, found by trying.
	Counters int `json:"counters"`
	// Watchdog says that the NMI watchdog is on, which holds a counter of its own.
	Watchdog bool `json:"nmi_watchdog"`
	// Paranoid is /proc/sys/kernel/perf_event_paranoid; unprivileged processes may count in user
	// mode up to 2. It is UnknownLevel where there is no such file.
	Paranoid int `json:"perf_event_paranoid"`
	// RDPMC is the device's file of that name: 0 forbids the instruction in user mode, 1 allows it
	// to those who have mapped an event, 2 to all; UnknownLevel where there is no file.
	RDPMC int `json:"rdpmc_setting"`
	// UserRDPMC says that a mapped event allowed the instruction (cap_user_rdpmc), for counters of Width bits.
	UserRDPMC bool `json:"user_rdpmc"`
	Width     int  `json:"counter_bits"`
	// Events has one event for each role, core cycles first. Those that cannot be counted say why.
	Events []Event `json:"events"`
}

const UnknownLevel = -99

func (p PMU) Event(role Role) Event {
	for _, e := range p.Events {
		if e.Role == role {
			return e
		}
	}
	return Event{Role: role, Why: p.Reason}
}

const devices = cpu.Devices

// Probe finds, by trying, what the kernel can count for this process on a CPU, to which the calling goroutine should
// be bound. An error is a failure of bbprof; that nothing can be counted is no error, and is in the PMU.
func Probe(k Kernel, on CPU) (PMU, error) {
	runtime.LockOSThread() // events count the thread that opens them
	defer runtime.UnlockOSThread()
	p := PMU{
		Paranoid: level(k, "/proc/sys/kernel/perf_event_paranoid"),
		Watchdog: level(k, "/proc/sys/kernel/nmi_watchdog") > 0,
		Device:   device(k, on.Number),
	}
	p.RDPMC = level(k, path.Join(devices, p.Device.Name, "rdpmc"))
	p.Core = Core(cpu.EventsOf(on.ID, p.Device.Name))
	var err error
	if p.Events, err = eventsOf(p.Core, p.Device); err != nil {
		return p, err
	}
	cycles := p.Events[0].Attr
	if err := p.tryCycles(k, cycles); err != nil {
		for i := range p.Events {
			if p.Events[i].Why == "" { // otherwise the core has no such event
				p.Events[i].Why = p.Reason
			}
		}
		return p, nil
	}
	p.Available, p.Events[0].Available = true, true
	for i := range p.Events[1:] {
		p.Events[1+i].try(k, cycles)
	}
	for i, e := range p.Events {
		if e.Shares != "" {
			other := p.Event(e.Shares)
			p.Events[i].Available, p.Events[i].Why = other.Available, other.Why
		}
	}
	branches := p.Device.generic(TypeHardware, hwBranches) // on a programmable counter everywhere
	for group := []Attr{cycles, branches}; len(group) <= maxCounters; group = append(group, branches) {
		if _, err := Try(k, group); err != nil {
			break
		}
		p.Counters = len(group) - 1
	}
	return p, nil
}

// maxCounters ends the search: no core has more.
const maxCounters = 16

// tryCycles counts a loop's core cycles and checks whether user code may read the counter.
func (p *PMU) tryCycles(k Kernel, cycles Attr) error {
	c, err := Try(k, []Attr{cycles})
	if err == nil {
		err = plausible(c)
	}
	if err != nil {
		p.Reason, p.Remedy = p.explain(err)
		return err
	}
	p.UserRDPMC, p.Width = userRDPMC(k, cycles)
	return nil
}

func (e *Event) try(k Kernel, cycles Attr) {
	if e.Why != "" || e.Shares != "" {
		return
	}
	_, err := Try(k, []Attr{cycles, e.Attr})
	switch {
	case err == nil:
		e.Available = true
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EOPNOTSUPP):
		e.Why = "the kernel knows no such event here: " + err.Error()
	default:
		e.Why = err.Error()
	}
}

// NotRunningError says that a group was not on its counters all the time that it was enabled, since
// fewer counters are free than it has events. Its counts are refused, not scaled.
type NotRunningError struct{ Enabled, Running uint64 }

func (e *NotRunningError) Error() string {
	return fmt.Sprintf("it was on a counter for %d of %d ns: too few counters are free", e.Running, e.Enabled)
}

// Try counts a loop with a group of events, the first the leader. A *NotRunningError says
// that the group does not fit the counters that are free; so may EINVAL.
func Try(k Kernel, group []Attr) (Counts, error) {
	fds, err := OpenGroup(k, group, 0)
	if err != nil {
		return Counts{}, err
	}
	defer CloseAll(k, fds)
	return Count(k, fds[0], len(group), func() error {
		sum := 0
		for i := range spinIterations {
			sum += i
		}
		runtime.KeepAlive(sum)
		return nil
	})
}

// Count counts a group of n events, given its leader, while do runs. It refuses one not counted all the time.
func Count(k Kernel, leader, n int, do func() error) (Counts, error) {
	if err := start(k, leader); err != nil {
		return Counts{}, err
	}
	err := do()
	if off := k.Control(leader, Disable); err == nil && off != nil {
		err = fmt.Errorf("disabling counters: %w", off)
	}
	if err != nil {
		return Counts{}, err
	}
	return ReadGroup(k, leader, n)
}

// start sets a group's counters to 0 and enables them.
func start(k Kernel, leader int) error {
	for _, request := range []Request{Reset, Enable} {
		if err := k.Control(leader, request); err != nil {
			return fmt.Errorf("starting counters: %w", err)
		}
	}
	return nil
}

// spinIterations makes the loop last some 10 µs: long beside the kernel's own work around it.
const spinIterations = 20_000

// OpenGroup opens events for a process as one group, the first the leader.
func OpenGroup(k Kernel, group []Attr, pid int) (fds []int, err error) {
	leader := -1
	for i, a := range group {
		a.Leader = i == 0
		fd, err := k.Open(a, pid, leader)
		if err != nil {
			CloseAll(k, fds)
			return nil, err
		}
		fds = append(fds, fd)
		leader = fds[0]
	}
	return fds, nil
}

func CloseAll(k Kernel, fds []int) {
	for i := range fds {
		k.Close(fds[len(fds)-1-i])
	}
}

// Counts holds a group's counts. Enabled and Running are in nanoseconds.
type Counts struct {
	Enabled, Running uint64
	Values           []uint64
}

// ReadGroup reads a group of n events, given its leader, and refuses counts that do not cover all the time.
func ReadGroup(k Kernel, fd, n int) (Counts, error) {
	b := make([]byte, 8*(3+n))
	got, err := k.Read(fd, b)
	if err != nil {
		return Counts{}, err
	}
	return decode(b[:got], n)
}

// decode parses what read(2) returns for a group of n events (perf_event_open(2), "Reading results"):
// n, the time enabled, the time running, then one value for each event. For a pinned group that lost its
// counters read returns no bytes.
func decode(b []byte, n int) (c Counts, err error) {
	if len(b) == 0 {
		return c, &NotRunningError{}
	}
	if len(b) != 8*(3+n) || binary.LittleEndian.Uint64(b) != uint64(n) {
		return c, fmt.Errorf("reading a group of %d events gave %d bytes: % x", n, len(b), b[:min(len(b), 8)])
	}
	c.Enabled, c.Running = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	for i := range n {
		c.Values = append(c.Values, binary.LittleEndian.Uint64(b[24+8*i:]))
	}
	if c.Running == 0 || c.Enabled != c.Running {
		return c, &NotRunningError{c.Enabled, c.Running}
	}
	return c, nil
}

// fastest is more cycles a nanosecond than any core has.
const fastest = 10

// plausible checks core cycles against the time in which they were counted.
func plausible(c Counts) error {
	if n := c.Values[0]; n == 0 || n > fastest*c.Running {
		return fmt.Errorf("the counter reads nonsense: %d cycles in %d ns", n, c.Running)
	}
	return nil
}

// Offsets in struct perf_event_mmap_page (linux/perf_event.h), beside those that the child reads: see package
// harness.
const (
	PageCapabilities = 40
	PageWidth        = 48 // u16

	capUserRDPMC = 1 << 2
)

func userRDPMC(k Kernel, a Attr) (allowed bool, width int) {
	fds, err := OpenGroup(k, []Attr{a}, 0)
	if err != nil {
		return false, 0
	}
	defer CloseAll(k, fds)
	page, err := k.Map(fds[0])
	if err != nil {
		return false, 0
	}
	defer k.Unmap(page)
	width = int(binary.LittleEndian.Uint16(page[PageWidth:]))
	return binary.LittleEndian.Uint64(page[PageCapabilities:])&capUserRDPMC != 0 && width > 0, width
}

func level(k Kernel, name string) int {
	b, err := k.ReadFile(name)
	if err != nil {
		return UnknownLevel
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return UnknownLevel
	}
	return n
}

// device is the PMU of a logical CPU; a hybrid CPU has one for each kind of core.
func device(k Kernel, number int) Device {
	if kind := cpu.Kind(k.ReadFile, number); kind != "" {
		return Device{kind, uint32(level(k, path.Join(devices, kind, "type"))), true}
	}
	return Device{Name: "cpu", Type: TypeRaw}
}

// userModeLevel is the highest perf_event_paranoid with which a process may count its own user mode without
// privileges (Documentation/admin-guide/sysctl/kernel.rst; some distributions add levels above).
const userModeLevel = 2

func (p *PMU) explain(err error) (reason, remedy string) {
	var notRunning *NotRunningError
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Sprintf("the kernel offers no hardware counters, as in most virtual machines (%v)", err),
			"run on bare metal, or give the virtual machine a PMU (QEMU: -cpu host,pmu=on)"
	case (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)) && p.Paranoid > userModeLevel:
		return fmt.Sprintf("counting is forbidden: kernel.perf_event_paranoid is %d", p.Paranoid),
			fmt.Sprintf("sudo sysctl kernel.perf_event_paranoid=%d, or run with CAP_PERFMON", userModeLevel)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Sprintf("perf_event_open is refused, though kernel.perf_event_paranoid allows it (%v)", err),
			"allow perf_event_open in the container's seccomp profile (docker: --cap-add=PERFMON)"
	case errors.Is(err, syscall.ENOSYS):
		return "the kernel, or a system-call filter, knows no perf_event_open",
			"use a kernel with CONFIG_PERF_EVENTS, and allow the call in the container's seccomp profile"
	case errors.As(err, &notRunning):
		holder := "another user of the counters holds them"
		if p.Watchdog {
			holder = "the NMI watchdog, or another user of the counters, holds them"
		}
		return "core cycles get no counter: " + holder, "sudo sysctl kernel.nmi_watchdog=0, and end other profilers"
	}
	return err.Error(), ""
}
