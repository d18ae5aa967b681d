// Package pmutest is a scripted kernel: it answers the calls that counting needs, or refuses them, like a kernel with
// a PMU, so that counting can be tested on a machine without one.
package pmutest

import (
	"encoding/binary"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"syscall"

	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/pmu"
)

// Kernel is the script. The zero value has no PMU; see New.
type Kernel struct {
	Files map[string]string // what ReadFile reads

	Counters int // programmable ones, beside the one of core cycles
	Held     int // of them by somebody else, such as the NMI watchdog

	Refuse error                          // every event of the CPU
	NoSoft error                          // every event of software
	Opens  func(pmu.Attr) error           // nil: the CPU has all events
	Counts func(pmu.Attr) (n uint64)      // in a try; nil: 1000 of each
	Share  func(events int) (run float64) // of the time that a group is on its counters; nil: all or, without room, none
	RDPMC  bool                           // mapped pages allow it

	Mapped int // pages mapped and not given back
	next   int
	events map[int]*event
}

type event struct {
	attr    pmu.Attr
	group   []int
	enabled bool
	ran     bool
}

// New is a kernel with a PMU that hides nothing: so many programmable counters, user mode may
// count and read.
func New(counters int) *Kernel {
	return &Kernel{
		Counters: counters,
		RDPMC:    true,
		Files: map[string]string{
			"/proc/sys/kernel/perf_event_paranoid":           "2\n",
			"/proc/sys/kernel/nmi_watchdog":                  "0\n",
			"/sys/bus/event_source/devices/cpu/type":         "4\n",
			"/sys/bus/event_source/devices/cpu/rdpmc":        "1\n",
			"/sys/bus/event_source/devices/cpu/format/event": "config:0-7,32-35\n",
			"/sys/bus/event_source/devices/cpu/format/umask": "config:8-15\n",
		},
	}
}

// Paranoid sets perf_event_paranoid, with what the kernel then answers a process without
// privileges: levels above 2 are those of distributions that forbid all of it.
func (k *Kernel) Paranoid(level int) *Kernel {
	k.Files["/proc/sys/kernel/perf_event_paranoid"] = strconv.Itoa(level)
	if level > 2 {
		k.Refuse = syscall.EACCES
	}
	return k
}

// Watchdog turns the NMI watchdog on, which takes a counter.
func (k *Kernel) Watchdog() *Kernel {
	k.Files["/proc/sys/kernel/nmi_watchdog"] = "1\n"
	k.Held = 1
	return k
}

// Open validates as the kernel does: a group that could never be on the CPU's counters is
// EINVAL, even if others hold some of them.
func (k *Kernel) Open(a pmu.Attr, pid, group int) (int, error) {
	if a.Type == pmu.TypeSoftware && k.NoSoft != nil {
		return -1, k.NoSoft
	}
	if a.Type != pmu.TypeSoftware {
		if k.Refuse != nil {
			return -1, k.Refuse
		}
		if k.Opens != nil {
			if err := k.Opens(a); err != nil {
				return -1, err
			}
		}
	}
	if k.events == nil {
		k.events, k.next = map[int]*event{}, 100
	}
	if group >= 0 && len(k.events[group].group) > k.Counters {
		return -1, syscall.EINVAL
	}
	k.next++
	k.events[k.next] = &event{attr: a}
	leader := group
	if group < 0 {
		leader = k.next
	}
	k.events[leader].group = append(k.events[leader].group, k.next)
	return k.next, nil
}

func (k *Kernel) Control(fd int, request pmu.Request) error {
	e, ok := k.events[fd]
	if !ok {
		return syscall.EBADF
	}
	switch request {
	case pmu.Enable:
		e.enabled, e.ran = true, true
	case pmu.Disable:
		e.enabled = false
	case pmu.Reset:
		e.ran = e.enabled
	}
	return nil
}

const enabledTime = 10_000 // ns

func (k *Kernel) Read(fd int, b []byte) (int, error) {
	e, ok := k.events[fd]
	if !ok {
		return 0, syscall.EBADF
	}
	share := 1.0
	if len(e.group) > k.Counters+1-k.Held {
		share = 0
	}
	if k.Share != nil {
		share = k.Share(len(e.group))
	}
	if share == 0 {
		return 0, nil // a pinned group without counters is in an error state
	}
	words := []uint64{uint64(len(e.group)), 0, 0}
	if e.ran {
		words[1], words[2] = enabledTime, uint64(share*enabledTime)
	}
	for _, member := range e.group {
		n, attr := uint64(1000), k.events[member].attr
		if k.Counts != nil {
			n = k.Counts(attr)
		}
		words = append(words, n)
	}
	if e.attr.Inherit { // value first, no number of events
		words = []uint64{words[3], words[1], words[2]}
	}
	if len(b) < 8*len(words) {
		return 0, syscall.ENOSPC
	}
	for i, w := range words {
		binary.LittleEndian.PutUint64(b[8*i:], w)
	}
	return 8 * len(words), nil
}

// Map makes the page of an event that is on counter 0.
func (k *Kernel) Map(fd int) ([]byte, error) {
	if _, ok := k.events[fd]; !ok {
		return nil, syscall.EBADF
	}
	k.Mapped++
	p := make([]byte, 4096)
	binary.LittleEndian.PutUint32(p[harness.PageIndex:], 1)
	binary.LittleEndian.PutUint16(p[pmu.PageWidth:], 48)
	if k.RDPMC {
		p[pmu.PageCapabilities] = 1 << 2
	}
	return p, nil
}

func (k *Kernel) Unmap([]byte) error { k.Mapped--; return nil }

func (k *Kernel) Close(fd int) error {
	if _, ok := k.events[fd]; !ok {
		return syscall.EBADF
	}
	delete(k.events, fd)
	return nil
}

// Open events and mapped pages.
func (k *Kernel) Left() int { return len(k.events) + k.Mapped }

func (k *Kernel) ReadFile(name string) ([]byte, error) {
	if s, ok := k.Files[name]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

func (k *Kernel) List(dir string) (names []string, err error) {
	for file := range k.Files {
		if path.Dir(file) == dir {
			names = append(names, path.Base(file))
		}
	}
	if names == nil {
		return nil, fs.ErrNotExist
	}
	slices.Sort(names)
	return names, nil
}
