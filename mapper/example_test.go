package mapper_test

import (
	"encoding/hex"
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// A load of 16 bytes that must be aligned: to 16 bytes where nothing is known of its program, else to where that has it.
func ExamplePlace() {
	movaps := []byte{0x0f, 0x28, 0x05, 0x01, 0, 0, 0} // movaps xmm0, [rip+1]
	fmt.Println(hex.EncodeToString(mapper.Place(movaps, nil)))
	fmt.Println(hex.EncodeToString(mapper.Place(movaps, new(uint64(0x401018)))))
	// Output:
	// 0f280509000000
	// 0f280519000000
}

// A load of 8 bytes that crosses a line where all registers hold the paper's value: rbx is moved by 3 bytes.
func ExampleMover() {
	insts, err := asm.Decode([]byte{0x48, 0x8b, 0x43, 0x3d}) // mov rax, [rbx+0x3d]
	if err != nil {
		fmt.Println(err)
		return
	}
	state, ok := mapper.Mover{Insts: insts, Copies: 64, StoreBuffer: 56}.Move(initial.Paper(), verdict.Misaligned)
	fmt.Println(state.Set, ok)
	// Output:
	// rbx=0x12345603 true
}
