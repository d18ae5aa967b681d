// Package limits ends a process whose resource limits leave Go's runtime too little, and says so.
// Where the runtime can start no thread, poll no file, open none or reserve no memory it dies with a
// trace and exit code 2, which means bad usage. All of that is checked when this
// package is initialised: other packages that bbprof is made of start timers and open files in their
// own initialisation. Packages are initialised in the
// order of their paths, as far as their imports allow (Go specification, "Package initialization"),
// and this one imports next to nothing.
//
// What the runtime needs before any package is initialised, no package can check: below some 760
// MiB of address space and 4 threads, or under a filter that refuses clone or mmap, it dies all the same.
package limits
