package measuring

import "runtime"

// Quiet keeps Go's runtime off the CPUs that workers measure on, as long as what it returns is alive.
func Quiet() (ballast []byte) {
	// A thread that waits for its child is in a system call. As long as there is an idle
	// processor besides, Go's monitor lets it be; if there is none, it wakes every 20 µs to check
	// whether it can take that one (runtime/proc.go, sysmon and retake), each time at the expense
	// of the worker that measures on the CPU. So there are two more than threads can run at a time.
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	// A collection runs on the CPUs that workers measure on. Memory that nobody touches makes it rare, since the next one begins
	// when the heap has doubled: 2,000 blocks took 2.1 s without it and 1.5 with it (two CPUs, Zen 4).
	return make([]byte, 48<<20)
}
