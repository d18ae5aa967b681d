package debuggee

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/verdict"
)

// continueEach is how often this process is continued once the time is up: a program may stop it again.
const continueEach = 100 * time.Millisecond

// ContinueAfter has the kernel continue this process after d if it is stopped then, until cancel is
// called. A program can stop bbprof (kill -STOP $PPID), and no timer of a stopped process ends a
// program; but the kernel's timer goes on and sends SIGCONT, which continues a process whether it
// handles the signal or not (signal(7)).
func ContinueAfter(d time.Duration) (cancel func(), err error) {
	// struct sigevent, asm-generic/siginfo.h: value, signal, SIGEV_SIGNAL (0), padding to 64 bytes.
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{signal: int32(unix.SIGCONT)}
	var timer int32
	if _, _, e := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer))); e != 0 {
		return nil, verdict.Refused("timer_create", e)
	}
	spec := [2]unix.Timespec{unix.NsecToTimespec(continueEach.Nanoseconds()), unix.NsecToTimespec(max(d.Nanoseconds(), 1))} // interval, first
	if _, _, e := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); e != 0 {
		unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
		return nil, verdict.Refused("timer_settime", e)
	}
	return func() { unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0) }, nil
}
