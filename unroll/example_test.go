package unroll_test

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/unroll"
)

// Two images of a block on a core with Skylake's front end, and the throughput that follows from their times.
func Example() {
	insts, err := asm.Decode([]byte{0x48, 0x0f, 0xaf, 0xc3, 0x48, 0x01, 0xc8}) // imul rax, rbx; add rax, rcx
	if err != nil {
		fmt.Println(err)
		return
	}
	skylake := unroll.FrontEnd{L1I: 32 << 10, OpCache: unroll.OpCache{Lines: 256, OpsPerLine: 6, Window: 32}}
	f, fits, err := unroll.Choose(insts, skylake)
	fmt.Println(f, fits, err)
	fmt.Println(unroll.Throughput(137+4*float64(f.Short), 137+4*float64(f.Long), f), "cycles")
	// Output:
	// 32,160 true <nil>
	// 4 cycles
}
