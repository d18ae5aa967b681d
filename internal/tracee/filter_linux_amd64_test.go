package tracee

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

// Attempts of a block that breaks out of its copies: system calls from its own code and through the stub's syscall
// instruction, with registers of its choice. None may reach the kernel, whatever happens to the list.

// callAt places code that loads the arguments of a system call and jumps to a syscall instruction; the stub after
// its gate takes rbx as the list.
func callAt(c *Tracee, at, nr uint64, args ...uint64) {
	place(c, func(e *asm.Emitter) {
		call(e, nr, args...)
		e.MovImm(asm.RBX, layout.Ops)
		e.Jmp(at)
	})
}

// callHere places code with its own syscall instruction.
func callHere(c *Tracee, nr uint64, args ...uint64) {
	place(c, func(e *asm.Emitter) {
		call(e, nr, args...)
		e.Syscall()
	})
}

func call(e *asm.Emitter, nr uint64, args ...uint64) {
	for i, a := range args {
		e.MovImm([]asm.Reg{asm.RDI, asm.RSI, asm.RDX, asm.R10, asm.R8, asm.R9}[i], a)
	}
	e.MovImm(asm.RAX, nr)
}

// mappings reads the child's address space from /proc.
func mappings(t *testing.T, c *Tracee) string {
	t.Helper()
	b := require.Get(os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.pid)))(t)
	return string(b)
}

// forbidden lists calls that must not pass from anywhere.
var forbidden = []struct {
	name string
	nr   uint64
	args []uint64
}{
	{"write", unix.SYS_WRITE, []uint64{1, layout.Stub, 16}},
	{"exit", unix.SYS_EXIT, []uint64{0}},
	{"exit_group", unix.SYS_EXIT_GROUP, []uint64{0}},
	{"fork", unix.SYS_FORK, nil},
	{"execve", unix.SYS_EXECVE, []uint64{layout.Stub, 0, 0}},
	{"kill itself", unix.SYS_KILL, []uint64{0, 9}},
	{"getpid", unix.SYS_GETPID, nil},
	{"mmap", unix.SYS_MMAP, []uint64{0x1000_0000, 4096, 7, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED, ^uint64(0), 0}},
	{"mprotect of the code", unix.SYS_MPROTECT, []uint64{layout.Code, layout.CodeSize, 7}},
	{"rt_sigreturn", unix.SYS_RT_SIGRETURN, nil},
	{"x32 munmap", 1<<30 | sysMunmap, []uint64{0, layout.Base}},
	{"number above 32 bits' sign", 1<<31 | sysMunmap, []uint64{0, layout.Base}},

	{"munmap of one page below", sysMunmap, []uint64{0x1000_0000, 4096}},
	{"munmap below and the stub", sysMunmap, []uint64{0, layout.Base + 4096}},
	{"munmap of everything", sysMunmap, []uint64{0, layout.UserEnd}},
	{"munmap of the stub", sysMunmap, []uint64{layout.Stub, 4096}},
	{"munmap from the end of the code", sysMunmap, []uint64{layout.End - 4096, layout.UserEnd - layout.End}},
	{"munmap below, other upper half of the length", sysMunmap, []uint64{0, layout.Base + 1<<32}},
	{"munmap below, other upper half of the address", sysMunmap, []uint64{1 << 32, layout.Base}},

	{"getrusage over the slots", sysGetrusage, []uint64{0, layout.Control}},
	{"getrusage over the list", sysGetrusage, []uint64{0, layout.Ops}},
	{"getrusage of another", sysGetrusage, []uint64{^uint64(0), layout.Usage}},
	{"getrusage, other upper half", sysGetrusage, []uint64{0, layout.Usage + 1<<32}},

	{"remap onto the stub", sysMremap, []uint64{layout.Frames, 0, 4096, 3, layout.Stub}},
	{"remap onto the control page", sysMremap, []uint64{layout.Frames, 0, 4096, 3, layout.Control}},
	{"remap onto the code", sysMremap, []uint64{layout.Frames, 0, 4096, 3, layout.Code}},
	{"remap onto the last page of the code", sysMremap, []uint64{layout.Frames, 0, 4096, 3, layout.End - 4096}},
	{"remap into a gap", sysMremap, []uint64{layout.Frames, 0, 4096, 3, layout.Base + 0x1000}},
	{"remap of the code", sysMremap, []uint64{layout.Code, 0, 4096, 3, 0x1000_0000}},
	{"remap of the stub", sysMremap, []uint64{layout.Stub, 0, 4096, 3, 0x1000_0000}},
	{"remap of the page before the frames", sysMremap, []uint64{layout.Frames - 4096, 0, 4096, 3, 0x1000_0000}},
	{"remap of the page after the frames", sysMremap, []uint64{layout.Frames + layout.FramesSize, 0, 4096, 3, 0x1000_0000}},
	{"remap of frames of another upper half", sysMremap, []uint64{layout.Frames + 1<<32, 0, 4096, 3, 0x1000_0000}},
	{"remap that moves the frame", sysMremap, []uint64{layout.Frames, 4096, 4096, 3, 0x1000_0000}},
	{"remap of two pages, into the own region", sysMremap, []uint64{layout.Frames, 0, 8192, 3, layout.Base - 4096}},
	{"remap without a place", sysMremap, []uint64{layout.Frames, 0, 4096, 1, 0x1000_0000}},
	{"remap in place", sysMremap, []uint64{layout.Frames, 0, 4096, 0, 0x1000_0000}},
	{"remap that leaves the old", sysMremap, []uint64{layout.Frames, 0, 4096, 7, 0x1000_0000}},
	{"remap, other upper half of the flags", sysMremap, []uint64{layout.Frames, 0, 4096, 1<<32 | 3, 0x1000_0000}},
}

func TestForbiddenCalls(t *testing.T) {
	c := launch(t)
	gate := c.stub.gate - 2 // the syscall instruction itself
	before := mappings(t, c)
	region := func() string {
		return string(slices.Concat(c.shared.mem[:offControl], c.shared.mem[offSamples:offCode]))
	}
	slots := region()
	check := func(name string) {
		t.Helper()
		stop := do(t, c, Run(entry, 1))
		if stop.Signal != SIGSYS || stop.Code != 1 { // SYS_SECCOMP
			t.Errorf("%s: %+v, want SIGSYS", name, stop)
		}
		require.Equal(t, name, before, mappings(t, c))
	}
	for _, f := range forbidden {
		callAt(c, gate, f.nr, f.args...)
		check(f.name + " through the gate")
		callHere(c, f.nr, f.args...)
		check(f.name + " from the code")
		callAt(c, c.stub.inject, f.nr, f.args...)
		check(f.name + " through the set-up gate")
	}
	for _, op := range []Op{unmapBelow(), unmapAbove(), UsageBefore(), UsageAfter(), MapFrame(0x1000_0000, 0)} {
		callHere(c, op.number, op.args[:]...)
		check(fmt.Sprintf("call %d, which may pass the gate, from the code", op.number))
	}
	require.Equal(t, "own region", slots, region())
	mustServe(t, c)
}

// The 32-bit entries: another table of numbers, in which 1 is exit and 11 execve.
func TestCompatibilityCalls(t *testing.T) {
	c := launch(t)
	before := mappings(t, c)
	for _, nr := range []uint64{1, 2, 4, 11, 25, 90, sysMunmap, sysMremap, sysGetrusage} {
		place(c, func(e *asm.Emitter) {
			call(e, nr, 0, 0)
			e.Raw(0xcd, 0x80) // int 0x80
		})
		// A kernel without 32-bit emulation refuses the instruction itself, with SIGSEGV.
		if stop := do(t, c, Run(entry, 1)); stop.Signal != SIGSYS && stop.Signal != SIGSEGV {
			t.Errorf("int 0x80 with %d: %+v", nr, stop)
		}
	}
	require.Equal(t, "the address space is now", before, mappings(t, c))
	mustServe(t, c)
}

// sysenter is invalid in 64-bit mode on some AMD cores. Elsewhere it is a 32-bit call, after which Linux continues
// in 32-bit mode: the child is lost and reported as such.
func TestSysenter(t *testing.T) {
	for _, nr := range []uint64{1, 2, 4, sysMunmap} { // exit, fork, write, execve
		c := launch(t)
		place(c, func(e *asm.Emitter) {
			call(e, nr, 0, 0)
			e.MovImm(asm.RBX, 7)
			e.MovImm(asm.RSP, 0x1000_0100) // holds the sixth argument
			e.MovImm(asm.RBP, 0x1000_0100)
			e.Raw(0x0f, 0x34)
		})
		stop, err := c.Do([]Op{MapFrame(0x1000_0000, 0), Run(entry, 1)}, generous)
		if err == nil && stop.Signal == SIGILL {
			mustServe(t, c)
		} else {
			mustBeLost(t, c, stop, err)
		}
		c.Close()
	}
}

func mustBeLost(t *testing.T, c *Tracee, stop Stop, err error) {
	t.Helper()
	dead, ok := errors.AsType[*DeadError](err)
	if !ok || !strings.Contains(dead.Status, "64-bit") || dead.Overtime || c.Alive() {
		t.Errorf("%+v, %v, alive %v; want a child lost in 32-bit mode", stop, err, c.Alive())
	}
}

// Every process keeps the vsyscall page; its calls go through the filter.
func TestVsyscall(t *testing.T) {
	c := launch(t)
	for i := range uint64(3) { // gettimeofday, time, getcpu
		const result = layout.Samples + 0x100
		clear(c.Samples()[:0x1000])
		place(c, func(e *asm.Emitter) {
			e.MovImm(asm.RSP, layout.Samples+0x800)
			e.MovImm(asm.RDI, result)
			e.MovImm(asm.RSI, result+64)
			e.MovImm(asm.RAX, 0xffff_ffff_ff60_0000+i*1024)
			e.Raw(0xff, 0xd0) // call rax
		})
		stop := do(t, c, Run(entry, 1))
		if stop.Signal != SIGSYS && stop.Signal != SIGSEGV {
			t.Errorf("call %d: %+v", i, stop)
		}
		require.Equal(t, fmt.Sprintf("the results of call %d", i), make([]byte, 256), c.Samples()[0x100:0x200])
	}
	mustServe(t, c)
}

// The last addresses for a frame next to the own region. After a successful call the stub continues with the list,
// so the list ends.
func TestRemapBoundary(t *testing.T) {
	c := launch(t)
	for _, addr := range []uint64{layout.Base - 4096, layout.End, layout.Base + 1<<32 - 4096, layout.Base + 1<<32, 0x1000_0000} {
		for _, frame := range []int{0, layout.MaxFrames - 1} {
			if stop := do(t, c, unmapBelow(), unmapAbove(), MapFrame(addr, frame)); !stop.Done {
				t.Fatalf("frame %d at %#x: %+v", frame, addr, stop)
			}
			c.Frame(frame)[8] = byte(7 + frame)
			place(c, func(e *asm.Emitter) {
				e.MovImm(asm.RSI, addr)
				e.LoadAt(asm.RAX, asm.RSI, 8)
				e.Store(layout.SlotSamples, asm.RAX)
			})
			if stop := do(t, c, Run(entry, 1)); !stop.Done || byte(c.Word(layout.SlotSamples)) != byte(7+frame) {
				t.Errorf("frame %d at %#x: %+v, reads %#x", frame, addr, stop, c.Word(layout.SlotSamples))
			}
		}
	}
	for _, op := range []Op{MapFrame(0x1000_0000, -1), MapFrame(0x1000_0000, layout.MaxFrames),
		MapFrame(layout.Base, 0), MapFrame(layout.End-4096, 0)} {
		require.Equal(t, fmt.Sprintf("%#x", op.args), SIGSYS, do(t, c, op).Signal)
	}
}

// A far return leads to a 32-bit code segment, where int 0x80 and sysenter use another table of calls. bbprof has
// no executable memory below 4 GiB, so the child faults at once; it cannot be restored and is reported as lost.
func TestFarReturnTo32Bit(t *testing.T) {
	c := launch(t)
	const userCS32 = 0x23 // __USER32_CS (asm/segment.h)
	place(c, func(e *asm.Emitter) {
		e.MovImm(asm.RSP, layout.Samples+0x800)
		e.MovImm(asm.RAX, userCS32)
		e.Raw(0x50) // push rax
		e.MovImm(asm.RAX, entry&0xffff_ffff)
		e.Raw(0x50)
		e.Raw(0x48, 0xcb) // retfq
	})
	stop, err := c.Do([]Op{unmapBelow(), Run(entry, 1)}, generous)
	mustBeLost(t, c, stop, err)
}

// request is struct seccomp_data (linux/seccomp.h).
type request struct {
	nr, arch uint32
	ip       uint64
	args     [6]uint64
}

// verdictOf interprets a filter like the kernel, as far as ours needs it.
func verdictOf(t *testing.T, prog []bpfInsn, r request) uint32 {
	t.Helper()
	data := require.Get(binary.Append(nil, binary.LittleEndian, r))(t)
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		switch {
		case in.code == bpfLoad:
			acc = binary.LittleEndian.Uint32(data[in.k:])
		case in.code == bpfRet:
			return in.k
		case in.code == bpfJeq && acc == in.k, in.code == bpfJge && acc >= in.k:
			pc += int(in.jt)
		case in.code == bpfJeq, in.code == bpfJge:
			pc += int(in.jf)
		default:
			t.Fatalf("instruction %d: code %#x", pc, in.code)
		}
	}
	t.Fatal("the filter runs off its end")
	return 0
}

// permitted is an independent formulation of the filter.
func permitted(gate uint64, r request) bool {
	if r.arch != archX8664 || r.ip != gate {
		return false
	}
	a := r.args
	switch r.nr {
	case 11: // munmap
		return a[0] == 0 && a[1] == layout.Base || a[0] == layout.End && a[1] == 1<<47-4096-layout.End
	case 10: // mprotect
		return slices.Contains([][3]uint64{
			{layout.Log, layout.CodeEnd - layout.Log, 0}, {layout.DryRunLoop, 4096, 3}, {layout.DryRunLoop, 4096, 0}, {layout.Log, layout.Code - layout.Log, 3},
			{layout.Code, layout.CodeEnd - layout.Code, 5},
		}, [3]uint64(a[:3]))
	case 98: // getrusage
		return a[0] == 0 && (a[1] == layout.Usage || a[1] == layout.UsageEnd)
	case 25: // mremap
		return a[0] >= layout.Frames && a[0] < layout.Frames+layout.FramesSize && a[1] == 0 && a[2] == 4096 && a[3] == 3 &&
			(a[4] < layout.Base || a[4] >= layout.End)
	}
	return false
}

// Permitted requests, and each with one field changed: to its neighbours, to another upper half, to anything.
func TestFilterByRequest(t *testing.T) {
	gate := buildStub(0, 0).gate
	prog := filter(gate, 0, 0)
	var good []request
	for _, op := range slices.Concat([]Op{
		unmapBelow(), unmapAbove(), UsageBefore(), UsageAfter(),
		MapFrame(0, 0), MapFrame(0x1234_5000, 3), MapFrame(layout.Base-4096, 0), MapFrame(layout.End, 15), MapFrame(1<<47, 0),
	}, toDryRun(0, 0), toMeasure(0, 0), OpenCounter(0), closeCounter(0)) {
		good = append(good, request{uint32(op.number), archX8664, gate, op.args})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	interesting := []uint64{0, 1, 2, 3, 4096, 8192, layout.Base, layout.Stub, layout.Control, layout.Usage, layout.UsageEnd,
		layout.Ops, layout.Frames, layout.Frames + layout.FramesSize, layout.Code, layout.End, layout.UserEnd, layout.UserEnd - layout.End,
		1 << 31, 1 << 32, 1 << 47, 1 << 63, ^uint64(0)}
	change := func(v uint64) uint64 {
		switch rng.IntN(4) {
		case 0:
			return v + rng.Uint64N(3) - 1
		case 1:
			return v ^ 1<<rng.IntN(64)
		case 2:
			return interesting[rng.IntN(len(interesting))] + rng.Uint64N(3)*4096 - 4096
		}
		return v + rng.Uint64N(3)<<32
	}
	seen := map[bool]int{}
	for i := range 60_000 {
		r := good[i%len(good)]
		if i >= len(good) {
			switch f := rng.IntN(9); f {
			case 0:
				r.nr = uint32(change(uint64(r.nr)))
			case 1:
				r.arch = []uint32{archX8664, 0x4000_0003, 0xc000_003e ^ 1<<rng.IntN(32)}[rng.IntN(3)] // AUDIT_ARCH_I386
			case 2:
				r.ip = change(r.ip)
			default:
				r.args[f-3] = change(r.args[f-3])
			}
		}
		may := permitted(gate, r)
		seen[may]++
		want := map[bool]uint32{true: retAllow, false: retTrap}[may]
		if got := verdictOf(t, prog, r); got != want {
			t.Fatalf("%+v: %#x, want %#x", r, got, want)
		}
	}
	if seen[true] < 1000 || seen[false] < 1000 {
		t.Errorf("permitted and not: %v, one side is hardly tested", seen)
	}
}
