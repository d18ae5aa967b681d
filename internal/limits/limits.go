// Package limits exits with an explanation if the process's resource limits are too low for Go's runtime. If the
// runtime cannot start a thread, poll or open a file, or reserve memory, it dies with a trace and exit code 2, which
// means bad usage. The checks run when this package is initialised, because other packages of bbprof start timers and
// open files in their initialisation. Packages are initialised in the order of their paths, as far as imports allow
// (Go specification, "Package initialization"), and this one imports next to nothing.
//
// No package can check what the runtime needs before initialisation: below some 740 MiB of address space,
// between 1150 and 1250 MiB, below 4 threads, or under a filter that refuses clone or mmap, it still dies.
package limits
