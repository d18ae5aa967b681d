// Command measures measures add rax, rax by the library alone; TestLibrarySize bounds its size.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/bbprof/bbprof/profiler"
)

func main() {
	p, err := profiler.New(profiler.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer p.Close()
	r, err := p.Profile(context.Background(), profiler.Block{Code: []byte{0x48, 0x01, 0xc0}})
	fmt.Println(r.Cycles, err)
}
