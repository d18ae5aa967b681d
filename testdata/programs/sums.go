//go:build ignore

// This program is sums.c in Go, with what only Go has: a stack that grows, a collector and
// goroutines.
//
//	go build -o gosums sums.go
//	./gosums 1000
package main

import (
	"fmt"
	"os"
	"strconv"
)

// triangle is 0 + 1 + ... + n-1.
//
//go:noinline
func triangle(n uint64) (sum uint64) {
	for i := range n {
		sum += i
	}
	return sum
}

// gauss is the same by a formula.
//
//go:noinline
func gauss(n uint64) uint64 { return n * (n - 1) / 2 }

// deep needs a kilobyte of stack a level, and so makes the stack grow.
//
//go:noinline
func deep(n uint64) uint64 {
	var page [128]uint64
	page[n%128] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + page[n%128]
}

// garbage allocates 1 KiB n times.
//
//go:noinline
func garbage(n uint64) (size int) {
	for range n {
		kept = make([]byte, 1024)
		size += len(kept)
	}
	return size
}

var kept []byte

// relay waits n times for another goroutine.
//
//go:noinline
func relay(n uint64) (sum uint64) {
	c := make(chan uint64)
	go func() {
		for i := range n {
			c <- i
		}
		close(c)
	}()
	for i := range c {
		sum += i
	}
	return sum
}

func main() {
	n, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println(triangle(n), gauss(n), deep(n), garbage(n), relay(n))
}
