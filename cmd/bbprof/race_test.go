//go:build race

package main

// raced says that the race detector is in, which makes the binary need more of a host than
// bbprof does: shared libraries, and memory at addresses of its choice.
const raced = true
