package program

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Setup is what a program should not depend on, and does.
type Setup struct {
	// EnvBytes is how many bytes are added to the environment: the length of the value of
	// BBPROF_PAD, which is there with 0 bytes too. The strings of the environment stand above
	// the stack, so it starts lower by as much, to the multiple of 16 below.
	EnvBytes int `json:"env_bytes"`
	// StackShift is by how many more bytes the stack starts lower, a multiple of 16.
	StackShift int `json:"stack_shift_bytes"`
	// HeapShift is by how many bytes the heap starts higher: the break is moved before the program's
	// first instruction. glibc rounds up to a multiple of 16.
	HeapShift int `json:"heap_shift_bytes,omitzero"`
	// ImageShift is by how many bytes the program's own code and static data stand lower, a multiple of a page, and
	// more than their size. The program must be position-independent and linked dynamically.
	ImageShift int `json:"image_shift_bytes,omitzero"`
	// Request is what becomes of one block of the heap.
	Request Request `json:"request,omitzero"`
}

// Request is a call of malloc(3) from the program's entry on, at which a run is stopped for a moment. Its time counts
// from there, so that set-ups in which a block moves and in which it does not have the same stops.
type Request struct {
	Number int    `json:"number"` // 1 for the first
	Bytes  uint64 `json:"bytes"`  // that it asks for, as a check that it is the one that was meant
	// Align is the power of two that its address is made a multiple of, by memalign(3); 0 leaves it.
	Align int `json:"align,omitzero"`
}

const page = 4096

// padName is the variable that pads the environment.
const padName = "BBPROF_PAD"

// MaxEnvBytes is the longest padding: the kernel takes no string of more than 32 pages
// (MAX_ARG_STRLEN, linux/binfmts.h), with the name and the final 0.
const MaxEnvBytes = 32*4096 - len(padName) - 2

func (s Setup) Check() error {
	switch {
	case s.EnvBytes < 0 || s.EnvBytes > MaxEnvBytes:
		return fmt.Errorf("an environment can be padded by 0 to %d bytes, not by %d", MaxEnvBytes, s.EnvBytes)
	case s.HeapShift < 0 || s.HeapShift > 1<<20:
		return fmt.Errorf("the heap can be shifted by 0 to 1 MiB, not by %d bytes", s.HeapShift)
	case s.ImageShift < 0 || s.ImageShift%page != 0 || s.ImageShift > 1<<40:
		return fmt.Errorf("a program's code can be shifted by whole pages up to 1 TiB, not by %d bytes", s.ImageShift)
	case s.StackShift < 0 || s.StackShift%16 != 0 || s.StackShift > 1<<20:
		return fmt.Errorf("the stack can be shifted by multiples of 16 bytes up to 1 MiB, not by %d", s.StackShift)
	}
	return nil
}

// environ is an environment padded by s.
func (s Setup) environ(base []string) []string {
	env := make([]string, 0, len(base)+1)
	for _, v := range base {
		if !strings.HasPrefix(v, padName+"=") {
			env = append(env, v)
		}
	}
	return append(env, s.padding())
}

func (s Setup) padding() string { return padName + "=" + strings.Repeat("x", s.EnvBytes) }

// Layouts draws n set-ups: the environment grows by up to a page, beyond which addresses
// repeat in their low 12 bits, the stack starts up to 8 KiB lower, as far as the kernel moves it
// when it randomises (arch_align_stack, arch/x86/kernel/process.c), and the heap up to a page
// higher. One seed gives the same set-ups every time.
func Layouts(n int, seed uint64) []Setup {
	rng := rand.New(rand.NewPCG(seed, 0))
	layouts := make([]Setup, n)
	for i := range layouts {
		layouts[i] = Setup{EnvBytes: rng.IntN(4096), StackShift: 16 * rng.IntN(8192/16), HeapShift: 16 * rng.IntN(4096/16)}
	}
	return layouts
}
