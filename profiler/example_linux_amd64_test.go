package profiler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// One block: a multiplication that depends on the one before takes as long as its latency.
func ExampleProfiler_Profile() {
	p, err := profiler.New(context.Background(), profiler.Options{})
	if err != nil {
		fmt.Println(err) // a *verdict.HostError: this host cannot measure
		return
	}
	defer p.Close()
	r, err := p.Profile(context.Background(), profiler.Block{Code: []byte{0x48, 0x0f, 0xaf, 0xc0}}) // imul rax, rax
	if err != nil {
		fmt.Println(err)
		return
	}
	if r.Status == profiler.OK {
		fmt.Printf("%.2f cycles, 95 %% interval %.2f to %.2f\n", r.Cycles, r.CILow, r.CIHigh)
	}
}

// A list of blocks with a profiler on each of some cores. The CPUs should be of different physical
// cores: hardware threads of one core disturb each other.
func Example_workers() {
	blocks := [][]byte{{0x90}, {0x48, 0x01, 0xc0}, {0x48, 0x0f, 0xaf, 0xc0}}
	work := make(chan []byte)
	var workers sync.WaitGroup
	for _, cpu := range []int{0, 1} {
		p, err := profiler.New(context.Background(), profiler.Options{CPUs: []int{cpu}})
		if err != nil {
			fmt.Println(err)
			continue
		}
		workers.Go(func() {
			defer p.Close()
			for code := range work {
				r, err := p.Profile(context.Background(), profiler.Block{Code: code})
				fmt.Println(r.Hex, r.Status, r.Cycles, err)
			}
		})
	}
	go func() {
		defer close(work)
		for _, code := range blocks {
			work <- code
		}
	}()
	workers.Wait()
}

// What is wrong with a block is in its Result; what is wrong with the host is an error.
func Example_errors() {
	p, err := profiler.New(context.Background(), profiler.Options{Budget: 1})
	var host *verdict.HostError
	if errors.As(err, &host) {
		fmt.Println("this host lacks", host.Missing, "- remedy:", host.Remedy)
		return
	}
	if err != nil {
		fmt.Println("the options are wrong:", err)
		return
	}
	defer p.Close()
	r, err := p.Profile(context.Background(), profiler.Block{Code: []byte{0x0f, 0x05}}) // syscall
	switch {
	case err != nil:
		fmt.Println("no other block would fare better:", err)
	case r.Status == profiler.Rejected:
		fmt.Println("rejected:", r.Reason)
	case r.Status == profiler.Failed:
		fmt.Println("bbprof failed:", r.Failure)
	}
	// Output: rejected: syscall
}
