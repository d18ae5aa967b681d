package sigchld

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// NotOfStops has the kernel send no SIGCHLD when a child stops, only when it ends. A traced child
// stops tens of thousands of times a second, and each signal would wake some thread of this process
// to run the Go runtime's handler, on whatever CPU, during a measurement. Waiting for a
// child does not need the signal. If the kernel refuses, nothing changes.
func NotOfStops() {
	change(func(flags uint64) uint64 { return flags | noStops })
}

const noStops = 1 // SA_NOCLDSTOP, linux/signal.h

// change changes the flags that SIGCHLD is handled with.
func change(flags func(uint64) uint64) {
	// struct kernel_sigaction, x86-64 (linux/signal_types.h).
	var action struct {
		handler  uintptr
		flags    uint64
		restorer uintptr
		mask     uint64
	}
	const setSize = unsafe.Sizeof(action.mask)
	call := func(set, old unsafe.Pointer) unix.Errno {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(set), uintptr(old), setSize, 0, 0)
		return e
	}
	if call(nil, unsafe.Pointer(&action)) == 0 {
		action.flags = flags(action.flags)
		call(unsafe.Pointer(&action), nil)
	}
}
