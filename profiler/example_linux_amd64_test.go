package profiler_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// What is wrong with a block is in its Result; what is wrong with the host is an error.
func ExampleProfiler_Profile() {
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
	case r.Status == profiler.OK:
		fmt.Printf("%.2f cycles, 95 %% interval %.2f to %.2f\n", r.Cycles, r.CILow, r.CIHigh)
	case r.Status == profiler.Rejected:
		fmt.Println("rejected:", r.Reason)
	case r.Status == profiler.Failed:
		fmt.Println("bbprof failed:", r.Failure)
	}
	// Output: rejected: syscall
}
