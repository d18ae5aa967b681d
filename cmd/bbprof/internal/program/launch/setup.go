package launch

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Setup holds what a program should not depend on, but does.
type Setup struct {
	// EnvBytes is the number of bytes added to the environment: the length of BBPROF_PAD's value; the variable exists
	// even with 0. The strings are above the stack, which starts as much lower, rounded down to a multiple of 16.
	EnvBytes int `json:"env_bytes"`
	// StackShift lowers the start of the stack further, by a multiple of 16.
	StackShift int `json:"stack_shift_bytes"`
	// EqualStack has the stack of every program start at the same address, whatever its name, its arguments and the rest of
	// its environment: only EnvBytes, rounded up to a multiple of 16, and StackShift lower it.
	EqualStack bool `json:"equal_stack,omitzero"`
	// FromExec has the time of the dynamic linker count, too.
	FromExec bool `json:"from_exec,omitzero"`
	// HeapShift raises the start of the heap: the break is moved before the program's first instruction. glibc rounds
	// up to a multiple of 16.
	HeapShift int `json:"heap_shift_bytes,omitzero"`
	// ImageShift lowers the program's own code and static data by a multiple of a page larger than they are. The
	// program must be position-independent and dynamically linked.
	ImageShift int `json:"image_shift_bytes,omitzero"`
	// Request modifies one heap block.
	Request Request `json:"request,omitzero"`
}

// Request is a malloc(3) call after the program's entry, at which a run stops briefly. Time counts from there, so that
// set-ups with and without a moved block have the same stops.
type Request struct {
	Number int    `json:"number"` // 1 for the first
	Bytes  uint64 `json:"bytes"`  // expected size, to check that it is the intended call
	// Align makes the block's address a multiple of this power of two, by memalign(3); 0 leaves it.
	Align int `json:"align,omitzero"`
}

const page = 4096

const padName = "BBPROF_PAD"

// maxEnvBytes is the longest padding: the kernel rejects strings of more than 32 pages (MAX_ARG_STRLEN,
// linux/binfmts.h), with the name and the final 0.
const maxEnvBytes = 32*4096 - len(padName) - 2

func (s Setup) Check() error {
	switch {
	case s.EnvBytes < 0 || s.EnvBytes > maxEnvBytes:
		return fmt.Errorf("an environment can be padded by 0 to %d bytes, not by %d", maxEnvBytes, s.EnvBytes)
	case s.HeapShift < 0 || s.HeapShift > 1<<20:
		return fmt.Errorf("the heap can be shifted by 0 to 1 MiB, not by %d bytes", s.HeapShift)
	case s.ImageShift < 0 || s.ImageShift%page != 0 || s.ImageShift > 1<<40:
		return fmt.Errorf("a program's code can be shifted by whole pages up to 1 TiB, not by %d bytes", s.ImageShift)
	case s.StackShift < 0 || s.StackShift%16 != 0 || s.StackShift > 1<<20:
		return fmt.Errorf("the stack can be shifted by multiples of 16 bytes up to 1 MiB, not by %d", s.StackShift)
	}
	return nil
}

// stringsUnit is more than the strings of most programs' arguments and environment. A program with more of them starts
// lower by a multiple of it, at the same place in its page. The kernel maps 128 KiB below them (setup_arg_pages,
// fs/exec.c), into which the start is moved.
const stringsUnit = 64 << 10

// lowered returns by how much the stack must start lower that starts so far below its top.
func (s Setup) lowered(depth int) int {
	if !s.EqualStack {
		return s.StackShift
	}
	own := depth - s.EnvBytes
	return (own/stringsUnit+1)*stringsUnit + (s.EnvBytes+15)&^15 + s.StackShift - depth
}

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

// Layouts draws n set-ups in which to compare programs, reproducibly by seed: the environment grows by up to a page, beyond which the low 12 address
// bits repeat; the stack starts up to 8 KiB lower, as in the kernel's randomisation (arch_align_stack,
// arch/x86/kernel/process.c); the heap starts up to a page higher.
func Layouts(n int, seed uint64) []Setup {
	rng := rand.New(rand.NewPCG(seed, 0))
	layouts := make([]Setup, n)
	for i := range layouts {
		layouts[i] = Setup{EqualStack: true, EnvBytes: rng.IntN(4096), StackShift: 16 * rng.IntN(8192/16), HeapShift: 16 * rng.IntN(4096/16)}
	}
	return layouts
}
