package tracee

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

// count places an image that counts its runs in a slot.
func count(c *Tracee) {
	place(c, func(e *asm.Emitter) {
		e.Load(asm.RAX, layout.SlotSamples)
		e.AddImm8(asm.RAX, 1)
		e.Store(layout.SlotSamples, asm.RAX)
	})
}

// A list has as many steps as fit, each with as many runs as there is room for their times.
func TestListLength(t *testing.T) {
	c := launch(t)
	count(c)
	runs := slices.Repeat([]Op{Run(entry, 1)}, layout.MaxOps)
	for _, list := range [][]Op{runs[:0], runs[:1], runs, {Run(entry, 2)}, {Run(entry, layout.MaxRuns)}} {
		want := uint64(len(list))
		if len(list) == 1 {
			want = list[0].args[1]
		}
		c.SetWord(layout.SlotSamples, 0)
		if stop := do(t, c, list...); !stop.Done || c.Word(layout.SlotSamples) != want {
			t.Errorf("%d steps, %d runs: %+v after %d", len(list), want, stop, c.Word(layout.SlotSamples))
		}
	}
	if _, err := c.Do(append(runs, Run(entry, 1)), generous); err == nil {
		t.Error("one step more than fits is accepted")
	}
	mustServe(t, c)
}

func TestFailedOp(t *testing.T) {
	c := launch(t)
	count(c)
	c.SetWord(layout.SlotSamples, 0)
	for i := range 4 {
		ops := slices.Repeat([]Op{Run(entry, 1)}, i)
		stop := do(t, c, append(ops, MapFrame(1<<63, 0), Run(entry, 1000))...)
		if stop.Done || stop.FailedOp != i || unix.Errno(stop.Errno) != unix.EINVAL && unix.Errno(stop.Errno) != unix.ENOMEM {
			t.Errorf("after %d steps: %+v", i, stop)
		}
	}
	require.Equal(t, "runs of what stands before a failed step", uint64(0+1+2+3), c.Word(layout.SlotSamples))
}

// A stop reports all of the child's registers, in encoding order.
func TestStopRegisters(t *testing.T) {
	c := launch(t)
	place(c, func(e *asm.Emitter) {
		for r := range asm.Reg(16) {
			e.MovImm(r, 0x1111_0000_0000+uint64(r))
		}
		e.Raw(0xf9)       // stc
		e.Raw(0x0f, 0x0b) // ud2
	})
	for range 2 {
		stop := do(t, c, Run(entry, 1))
		const at = entry + 16*10 + 1
		if stop.Done || stop.FailedOp != -1 || stop.Signal != SIGILL || stop.Regs.RIP != at || stop.Addr != at || stop.Regs.Flags&1 == 0 {
			t.Errorf("%+v, want SIGILL at %#x with carry", stop, uint64(at))
		}
		for r, v := range stop.Regs.GPR {
			require.Equal(t, fmt.Sprint("register ", r), 0x1111_0000_0000+uint64(r), v)
		}
	}
}

// Each list starts with clean registers and flags.
func TestListStartsAfresh(t *testing.T) {
	c := launch(t)
	place(c, func(e *asm.Emitter) {
		e.MovImm(asm.RSP, layout.Samples+0x100)
		e.Raw(0x68, 0x00, 0x46, 0x04, 0x00, 0x9d) // push 0x44600; popf: AC, NT, DF
		e.Raw(0x0f, 0x0b)
	})
	if stop := do(t, c, Run(entry, 1)); stop.Signal != SIGILL || stop.Regs.Flags&0x44400 != 0x44400 {
		t.Fatalf("%+v", stop)
	}
	place(c, func(e *asm.Emitter) { e.Raw(0x0f, 0x0b) })
	if stop := do(t, c, Run(entry, 1)); stop.Regs.Flags&0x44400 != 0 || stop.Regs.GPR[asm.RSP] != 0 {
		t.Errorf("flags %#x, rsp %#x", stop.Regs.Flags, stop.Regs.GPR[asm.RSP])
	}
}

func TestSignals(t *testing.T) {
	c := launch(t)
	for _, s := range []struct {
		name       string
		code       []byte
		sig, codes int
		addr       uint64
	}{
		{"load from an unmapped page", []byte{0x8b, 0x04, 0x25, 0, 0x10, 0x34, 0x12}, SIGSEGV, SegvMapErr, 0x12341000},
		{"store to the code", []byte{0x88, 0x05, 0, 0, 0, 0}, SIGSEGV, SegvAccErr, entry + 6},
		{"store to the dry run's list", []byte{0x88, 0x05, 0xfa, 0xef, 0x3e, 0x00}, SIGSEGV, SegvAccErr, layout.DryRunOps},
		{"hlt", []byte{0xf4}, SIGSEGV, SiKernel, 0},
		{"push non-canonical", []byte{0x48, 0xbc, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0x50}, SIGBUS, SiKernel, 0},
		{"div by 0", []byte{0x31, 0xc9, 0xf7, 0xf1}, SIGFPE, 1, entry + 2},
		{"int3", []byte{0xcc}, SIGTRAP, SiKernel, 0},
	} {
		copy(c.Code()[entry-layout.Code:], s.code)
		stop := do(t, c, unmapBelow(), Run(entry, 1))
		if stop.Done || stop.FailedOp != -1 || stop.Signal != s.sig || stop.Code != s.codes || stop.Addr != s.addr {
			t.Errorf("%s: %+v, want signal %d, code %d, address %#x", s.name, stop, s.sig, s.codes, s.addr)
		}
	}
	mustServe(t, c)
}

// A reset unmaps all pages below and above the own region, up to the end of user space, but not the own region.
func TestUnmap(t *testing.T) {
	c := launch(t)
	before := mappings(t, c)
	for _, addr := range []uint64{0x10_0000, layout.Base - 4096, layout.End, layout.UserEnd - 4096} {
		if stop := do(t, c, MapFrame(addr, 0)); !stop.Done {
			t.Errorf("mapping %#x: %+v", addr, stop)
		}
		if mappings(t, c) == before {
			t.Errorf("nothing was mapped at %#x", addr)
		}
		do(t, c, unmapBelow(), unmapAbove())
		require.Equal(t, fmt.Sprintf("mappings after a page at %#x", addr), before, mappings(t, c))
	}
	if stop := do(t, c, MapFrame(layout.UserEnd, 0)); stop.Done || stop.FailedOp != 0 {
		t.Errorf("the page at the end of user space: %+v", stop)
	}
}

// A window must not fault on bbprof's own pages, not even the first one in a child.
func TestTouched(t *testing.T) {
	list := []Op{UsageBefore()}
	for page := uint64(layout.Samples); page < layout.Samples+layout.SamplesSize; page += layout.PageSize {
		list = append(list, Put(page, 1))
	}
	for len(list) < layout.MaxOps-1 {
		list = append(list, Put(layout.SlotScratch, 1))
	}
	list = append(list, UsageAfter())
	fewest := uint64(math.MaxUint64)
	for range 3 { // the kernel may reclaim pages
		c := launch(t)
		do(t, c, list...)
		const minflt = 64 // ru_minflt in struct rusage
		fewest = min(fewest, c.Word(layout.UsageEnd+minflt)-c.Word(layout.Usage+minflt))
	}
	if fewest > 0 {
		t.Errorf("%d page faults", fewest)
	}
}

func TestSwitches(t *testing.T) {
	c := launch(t)
	do(t, c, UsageBefore())
	for range 20 { // each stop gives the CPU to the monitor
		do(t, c)
	}
	do(t, c, UsageAfter())
	if n := c.Switches(); n < 20 {
		t.Errorf("%d switches in 21 stops", n)
	}
}

func TestBind(t *testing.T) {
	c := launch(t)
	var own, set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &own))
	last := 1023
	for !own.IsSet(last) {
		last--
	}
	require.NoError(t, c.Bind(last))
	if err := unix.SchedGetaffinity(c.pid, &set); err != nil || set.Count() != 1 || !set.IsSet(last) {
		t.Errorf("bound to CPU %d: %v, %v", last, set, err)
	}
	c.Close()
	if err := c.Bind(0); err == nil {
		t.Error("a child that is gone can be bound")
	}
	if err := unix.SchedGetaffinity(0, &set); err != nil || set != own {
		t.Errorf("the monitor itself was bound")
	}
}

// Stepping sees each instruction of a dry run once, including the stub's, and ends as Try does.
func TestStep(t *testing.T) {
	c := launch(t)
	step := func(ops []Op, visit func(Regs), code ...byte) Stop {
		t.Helper()
		copy(c.DryRunCode(), append(code, 0xcc))
		return require.Get(c.Step(ops, layout.DryRunCode, layout.DryRunCode+uint64(len(code))+1, generous, visit))(t)
	}
	seen := map[uint64]int{}
	count := func(r Regs) { seen[r.RIP]++ }
	// Usage in a dry run writes to the closed side.
	if stop := step([]Op{UsageBefore()}, count, 0x90, 0x66, 0x90, 0x90); stop.FailedOp != 0 || stop.Errno == 0 {
		t.Errorf("usage in a dry run: %+v", stop)
	}
	if stop := step([]Op{unmapBelow()}, count, 0x90, 0x66, 0x90, 0x90); !stop.Done {
		t.Errorf("%+v", stop)
	}
	for offset, want := range []int{1, 1, 0, 1, 1} {
		require.Equal(t, fmt.Sprint("byte ", offset), want, seen[layout.DryRunCode+uint64(offset)])
	}
	if stop := step(nil, count, 0x90, 0x0f, 0x0b); stop.Signal != SIGILL || stop.Regs.RIP != layout.DryRunCode+1 {
		t.Errorf("ud2: %+v", stop)
	}
	if stop := step([]Op{MapFrame(1<<63, 0)}, count, 0x90); stop.FailedOp != 0 || stop.Errno == 0 {
		t.Errorf("a failed call: %+v", stop)
	}
	mustServe(t, c)
}

// A prologue restores exactly the listed words, to the fill or to their own values, however many there are.
func TestRestoreWords(t *testing.T) {
	const page, words = 0x10_0000, layout.PageSize / 8
	c := launch(t)
	init := initial.Paper()
	for _, values := range []bool{false, true} {
		place(c, func(e *asm.Emitter) {
			harness.Prologue(e, init, harness.Reset{Memory: true, Values: values}, asm.Features{})
		})
		for _, n := range []int{0, 1, 2, 127, 128, 129, 255, 256, 300} {
			var addrs, own []uint64
			var want [words]uint64
			for i := range want {
				want[i] = 1
				binary.LittleEndian.PutUint64(c.Frame(0)[8*i:], 1)
				if i%2 == 0 && len(addrs) < n || i >= words-(n-words/2) { // every other one, and the last
					addrs, own = append(addrs, page+8*uint64(i)), append(own, uint64(i)<<32)
					if want[i] = init.Fill; values {
						want[i] = uint64(i) << 32
					}
				}
			}
			if !values {
				own = nil
			}
			c.SetRestore(addrs, own)
			if stop := do(t, c, MapFrame(page, 0), Run(entry, 2)); !stop.Done {
				t.Fatalf("%d words: %+v", n, stop)
			}
			var got [words]uint64
			binary.Decode(c.Frame(0), binary.LittleEndian, &got)
			require.Equal(t, fmt.Sprintf("%d words, with values %v", n, values), want, got)
		}
	}
}
