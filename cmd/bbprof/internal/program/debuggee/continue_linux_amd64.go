package debuggee

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/verdict"
)

const (
	// continueEach is each timer's period once the time is up: a program may stop bbprof again.
	continueEach = 100 * time.Millisecond
	// continuers is the number of timers, staggered over that period. A stop discards a pending SIGCONT, and the kernel
	// rearms a timer only when its signal is taken (signal(7), posix-timers.c). With one timer, a program that stopped
	// bbprof every 10 ms held it forever if other work kept bbprof off the CPU for as long.
	continuers = 16
)

// ContinueAfter makes the kernel continue this process if it is stopped after d, until cancel is called. A program can
// stop bbprof (kill -STOP $PPID), and a stopped process cannot enforce its timeouts; but kernel timers still send
// SIGCONT, which continues a process whether it handles the signal or not (signal(7)).
func ContinueAfter(d time.Duration) (cancel func(), err error) {
	var timers []int32
	cancel = func() {
		for _, timer := range timers {
			unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
		}
	}
	for i := range continuers {
		timer, err := continuer(max(d, 1)+time.Duration(i)*continueEach/continuers, continueEach)
		if err != nil && i == 0 {
			return nil, err
		}
		if err != nil {
			break // RLIMIT_SIGPENDING allows no more
		}
		timers = append(timers, timer)
	}
	return cancel, nil
}

func continuer(first, each time.Duration) (timer int32, err error) {
	// struct sigevent, asm-generic/siginfo.h: value, signal, SIGEV_SIGNAL (0), padding to 64 bytes.
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{signal: int32(unix.SIGCONT)}
	if _, _, e := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer))); e != 0 {
		return 0, verdict.Refused("timer_create", e)
	}
	spec := [2]unix.Timespec{unix.NsecToTimespec(each.Nanoseconds()), unix.NsecToTimespec(first.Nanoseconds())} // interval, first
	if _, _, e := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); e != 0 {
		unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
		return 0, verdict.Refused("timer_settime", e)
	}
	return timer, nil
}
