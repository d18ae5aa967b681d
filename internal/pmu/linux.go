//go:build linux

package pmu

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/elastic/go-perf"
	"golang.org/x/sys/unix"
)

// Linux is the kernel that this process runs on.
type Linux struct{}

// readFormat makes a read give the whole group: the number of events, the times that it was
// enabled and running, then a value each (perf_event_open(2), "Reading results").
const readFormat = unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING

// sys is the kernel's structure.
func (a Attr) sys() unix.PerfEventAttr {
	s := unix.PerfEventAttr{
		Type: a.Type, Config: a.Config, Ext1: a.Config1,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})), // an older kernel takes more, if it is zero
		Read_format: readFormat,
		Bits:        unix.PerfBitExcludeHv,
	}
	if !a.ofKernel() {
		s.Bits |= unix.PerfBitExcludeKernel
	}
	if a.Leader {
		s.Bits |= unix.PerfBitDisabled | unix.PerfBitPinned
	}
	if a.Inherit {
		s.Bits |= unix.PerfBitInherit
		s.Read_format &^= unix.PERF_FORMAT_GROUP // inherit does not work with it (perf_event_open(2))
	}
	return s
}

// Bytes is the structure as it stands in memory, for a process that opens the event itself.
func (a Attr) Bytes() []byte {
	s := a.sys()
	b := make([]byte, s.Size)
	copy(b, unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s)))
	return b
}

func (Linux) Open(a Attr, pid, group int) (int, error) {
	s := a.sys()
	return unix.PerfEventOpen(&s, pid, -1, group, unix.PERF_FLAG_FD_CLOEXEC)
}

func (Linux) Control(fd int, request Request) error {
	number := map[Request]uint{Enable: unix.PERF_EVENT_IOC_ENABLE, Disable: unix.PERF_EVENT_IOC_DISABLE, Reset: unix.PERF_EVENT_IOC_RESET}[request]
	return unix.IoctlSetInt(fd, number, unix.PERF_IOC_FLAG_GROUP)
}

func (Linux) Read(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

func (Linux) Map(fd int) ([]byte, error) {
	return unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
}

func (Linux) Unmap(page []byte) error { return unix.Munmap(page) }

func (Linux) Close(fd int) error { return unix.Close(fd) }

func (Linux) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

func (Linux) List(dir string) (names []string, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names, err
}

func genericNames() map[string]Attr {
	names := map[string]Attr{}
	for _, c := range append(perf.AllHardwareCounters(), perf.AllSoftwareCounters()...) {
		names[fmt.Sprint(c)] = attrOf(c)
	}
	// perf(1)'s other names, which the library keeps to itself.
	for alias, name := range map[string]string{"cycles": "cpu-cycles", "branches": "branch-instructions", "faults": "page-faults",
		"cs": "context-switches", "migrations": "cpu-migrations"} {
		names[alias] = names[name]
	}
	caches := map[string]perf.Cache{"L1-dcache": perf.L1D, "L1-icache": perf.L1I, "LLC": perf.LL,
		"dTLB": perf.DTLB, "iTLB": perf.ITLB, "branch": perf.BPU, "node": perf.NODE}
	ops := map[string]perf.CacheOp{"load": perf.Read, "store": perf.Write, "prefetch": perf.Prefetch}
	for cache, c := range caches {
		for op, o := range ops {
			plural := op + "s"
			if o == perf.Prefetch {
				plural = op + "es"
			}
			names[cache+"-"+plural] = attrOf(perf.HardwareCacheCounter{Cache: c, Op: o, Result: perf.Access})
			names[cache+"-"+op+"-misses"] = attrOf(perf.HardwareCacheCounter{Cache: c, Op: o, Result: perf.Miss})
		}
	}
	return names
}

func attrOf(c perf.Configurator) Attr {
	var a perf.Attr
	if c.Configure(&a) != nil { // those of numbers alone cannot fail
		return Attr{}
	}
	return Attr{Type: uint32(a.Type), Config: a.Config, Config1: a.Config1}
}
