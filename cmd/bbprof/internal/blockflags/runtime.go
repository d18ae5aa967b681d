package blockflags

import "runtime"

// Quiet keeps Go's runtime off the workers' CPUs while the returned memory is alive.
func Quiet() (ballast []byte) {
	// A thread that waits for its child is in a system call. Unless another processor (P) is idle, Go's monitor wakes
	// every 20 µs to try to retake that thread's (runtime/proc.go, sysmon and retake), which disturbs the worker that
	// measures on the CPU. Hence two Ps more than threads can run.
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	// A collection runs on the workers' CPUs and begins when the heap has doubled. Untouched memory makes it rare:
	// 2,000 blocks took 2.1 s without it and 1.5 with it (two CPUs, Zen 4).
	return make([]byte, 48<<20)
}
