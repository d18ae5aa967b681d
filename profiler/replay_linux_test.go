package profiler

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// asMachine reduces a state to the registers of this CPU.
func (b bench) asMachine(c *initial.Captured) *initial.Captured {
	has := *c
	has.Vectors = nil
	for _, v := range c.Vectors {
		switch {
		case !b.cpu.Features.AVX:
			v.Bits = 128
		case !b.cpu.Features.AVX512:
			v.Bits = min(v.Bits, 256)
		}
		clear(v.Words[v.Bits/64:])
		if v.Reg < 16 || b.cpu.Features.AVX512 {
			has.Vectors = append(has.Vectors, v)
		}
	}
	switch {
	case !b.cpu.Features.AVX512:
		has.Opmasks = [8]uint64{}
	case !b.cpu.Features.AVX512BW:
		for i := range has.Opmasks {
			has.Opmasks[i] &= 0xffff
		}
	}
	return &has
}

// TestReplayOnce: a block at any address finds all of a captured state, and its result is returned.
func TestReplayOnce(t *testing.T) {
	b := openBench(t)
	for i, c := range []struct {
		name    string
		address uint64
		hex     string
		want    func(before, after *initial.Captured)
	}{
		{"nothing", pieCode, "90", func(_, _ *initial.Captured) {}},
		{"a load", pieCode, "488b07", func(b, a *initial.Captured) { a.GPR[asm.RAX] = word(&b.Pages[0], 0x10) }},
		{"a store", pieCode, "488907", func(b, a *initial.Captured) { setWord(&a.Pages[0], 0x10, b.GPR[asm.RAX]) }},
		{"thread-local", pieCode, "64488b042528000000", func(b, a *initial.Captured) { a.GPR[asm.RAX] = word(&b.Pages[2], 0x128) }},
		{"rip-relative load", pieCode, "488b05" + le32(heapPage+0x20-pieCode-7), func(b, a *initial.Captured) { a.GPR[asm.RAX] = word(&b.Pages[0], 0x20) }},
		{"rip-relative address", pieCode, "488d0500100000", func(b, a *initial.Captured) { a.GPR[asm.RAX] = pieCode + 7 + 0x1000 }},
		{"of a static program", staticCode, "488d05f9efffff", func(b, a *initial.Captured) { a.GPR[asm.RAX] = staticCode - 0x1000 }},
		{"of a library", libraryCode, "488d05f9efffff", func(b, a *initial.Captured) { a.GPR[asm.RAX] = libraryCode - 0x1000 }},
		{"a push", libraryCode, "50", func(b, a *initial.Captured) {
			a.GPR[asm.RSP] -= 8
			setWord(&a.Pages[2], 0x7f8, b.GPR[asm.RAX])
		}},
		{"fxch", pieCode, "d9c9", func(b, a *initial.Captured) {
			r := &a.X87.Registers
			r[0], r[1] = r[1], r[0]
			a.X87.Status &^= 1 << 9 // C1
		}},
		{"fchs", pieCode, "d9e0", func(_, a *initial.Captured) {
			a.X87.Registers[0][9] ^= 0x80
			a.X87.Status &^= 1 << 9 // C1
		}},
		{"512-bit move", pieCode, "62f1fd486fc1", func(b, a *initial.Captured) { // vmovdqa64 zmm0, zmm1
			a.Vectors = append([]initial.Vector{{Reg: 0, Bits: b.Vectors[1].Bits, Words: b.Vectors[1].Words}}, b.Vectors[1:]...)
		}},
		{"direction", pieCode, "fd", func(_, a *initial.Captured) { a.Flags |= 1 << 10 }},
	} {
		if c.name == "512-bit move" && !b.cpu.Features.AVX512 {
			continue
		}
		before := b.asMachine(somewhere(rand.New(rand.NewPCG(5, uint64(i))), c.address, heapPage, 0x7fff_f7fb_a000, stackPage))
		before.GPR[asm.RDI], before.GPR[asm.RSP] = heapPage+0x10, stackPage+0x800
		before.X87.Tags = 0xff
		want := *before
		want.Pages = append([]initial.Page(nil), before.Pages...)
		c.want(before, &want)
		require.Equal(t, c.name, &want, require.Get(b.replay(require.Hex(t, c.hex), before))(t))
	}
}

// replay is Profiler.Replay without a Profiler.
func (b bench) replay(code []byte, c *initial.Captured) (*initial.Captured, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	block := Block{Code: code, Setup: Setup{Captured: c}}
	b.window = b.windowFor(block)
	require.NoError(b.t, b.ready())
	return b.replayOnce(block)
}

func word(p *initial.Page, at int) uint64 { return binary.LittleEndian.Uint64(p.Data[at:]) }

func setWord(p *initial.Page, at int, v uint64) { binary.LittleEndian.PutUint64(p.Data[at:], v) }

func le32(v uint64) string {
	return hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, uint32(v)))
}

// TestHostileStates: no captured state harms the child or bbprof.
func TestHostileStates(t *testing.T) {
	b := openBench(t)
	rng := rand.New(rand.NewPCG(6, 0))
	load, nop := "488b07", "90" // mov rax, [rdi]
	many := make([]uint64, layout.MaxFrames+1)
	for i := range many {
		many[i] = heapPage + uint64(i)*layout.PageSize
	}
	for _, c := range []struct {
		name, hex string
		state     *initial.Captured
		change    func(*initial.Captured)
		want      verdict.Reason // "" is none, "-" an error that is no rejection
	}{
		{"trap flag", nop, somewhere(rng, pieCode), func(c *initial.Captured) { c.Flags |= 1 << 8 }, "-"},
		{"all other flags", nop, somewhere(rng, pieCode), func(c *initial.Captured) { c.Flags = ^uint64(1 << 8) }, ""},
		{"alignment check", "488b4701", somewhere(rng, pieCode, heapPage), func(c *initial.Captured) { c.Flags, c.GPR[asm.RDI] = c.Flags|1<<18, heapPage }, verdict.SIGBUS},
		{"unmasked division by zero", "f30f5ec1", somewhere(rng, pieCode), func(c *initial.Captured) { c.MXCSR, c.Vectors = 0, nil }, verdict.SIGFPE},
		{"unmasked x87 exception", "d9e8", somewhere(rng, pieCode), func(c *initial.Captured) { c.X87.Control, c.X87.Status = 0, 0x8081 }, verdict.SIGFPE},
		{"reserved bits of mxcsr", nop, somewhere(rng, pieCode), func(c *initial.Captured) { c.MXCSR = 1 << 16 }, "-"},
		{"segment base of the kernel", nop, somewhere(rng, pieCode), func(c *initial.Captured) { c.FSBase = 1 << 63 }, "-"},
		{"block of the kernel", nop, somewhere(rng, 1<<63), nil, "-"},
		{"pages in disorder", nop, somewhere(rng, pieCode, heapPage, heapPage), nil, "-"},
		{"half a page", nop, somewhere(rng, pieCode, heapPage+8), nil, "-"},
		{"vector register 32", nop, somewhere(rng, pieCode), func(c *initial.Captured) { c.Vectors[0].Reg = 32 }, "-"},
		{"page of bbprof's", nop, somewhere(rng, pieCode, layout.Control), nil, verdict.Unmappable},
		{"last page of bbprof's", nop, somewhere(rng, pieCode, layout.End-layout.PageSize), nil, verdict.Unmappable},
		{"page of the kernel", nop, somewhere(rng, pieCode, 1<<63), nil, verdict.Unmappable},
		{"vsyscall page", nop, somewhere(rng, pieCode, 0xffff_ffff_ff60_0000), nil, verdict.Unmappable},
		{"non-canonical page", nop, somewhere(rng, pieCode, 1<<48), nil, verdict.Unmappable},
		{"page above user space", nop, somewhere(rng, pieCode, layout.UserEnd), nil, verdict.Unmappable},
		{"last page of user space", nop, somewhere(rng, pieCode, layout.UserEnd-layout.PageSize), nil, ""},
		{"as many pages as frames", nop, somewhere(rng, pieCode, many[1:]...), nil, ""},
		{"a page more", nop, somewhere(rng, pieCode, many...), nil, verdict.TooManyPages},
		{"non-canonical pointer", load, somewhere(rng, pieCode), func(c *initial.Captured) { c.GPR[asm.RDI] = 1 << 62 }, verdict.Unmappable},
		{"uncaptured page", load, somewhere(rng, pieCode, heapPage), func(c *initial.Captured) { c.GPR[asm.RDI] = heapPage - 8 }, verdict.Unmappable},
		{"pointer to bbprof's memory", load, somewhere(rng, pieCode), func(c *initial.Captured) { c.GPR[asm.RDI] = layout.Control }, verdict.Unmappable},
		{"pages where the window would be", "488d0500000000", somewhere(rng, pieCode, 0x5555_4000_0000, 0x5555_8000_1000), nil, ""},
		{"pages in all windows", "488d0500000000", somewhere(rng, pieCode, 0x5555_0000_2000, 0x5555_4000_0000, 0x5555_8000_1000), nil, verdict.Unmappable},
		{"code that no window is near", "488d0500000000", somewhere(rng, layout.Base+0x1234), nil, ""},
		{"system call", "0f05", somewhere(rng, pieCode), nil, verdict.Syscall},
	} {
		if c.change != nil {
			c.change(c.state)
		}
		_, err := b.replay(require.Hex(t, c.hex), c.state)
		got := verdict.ReasonOf(err)
		if err != nil {
			got = cmp.Or(got, "-")
		}
		if got != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, err := b.block(require.Hex(t, "488b00"), initial.Paper(), 1, 4); err != nil && b.window == 0 {
			t.Errorf("after %s, a block in the paper's state: %v", c.name, err)
		}
	}
}

// TestLeavesState: only copies that stay within a captured state are taken, and it is restored before each run.
func TestLeavesState(t *testing.T) {
	b := openBench(t)
	const second = heapPage + layout.PageSize
	for i, c := range []struct {
		name, hex string
		change    func(*initial.Captured)
		within    int // 0: all
		why       verdict.Reason
		reject    verdict.Reason
	}{
		{"stays", "488b07", nil, 0, "", ""},
		{"walks off its page", "488b07" + "4883c708", func(c *initial.Captured) { c.GPR[asm.RDI] = second + 0xf80 }, 16, verdict.Unmappable, ""},
		{"walks off after two", "488b07" + "4883c708", func(c *initial.Captured) { c.GPR[asm.RDI] = second + 0xff0 }, 2, verdict.Unmappable, ""},
		{"walks off at once", "488b07" + "4883c708", func(c *initial.Captured) { c.GPR[asm.RDI] = second + 0xff8 }, 1, verdict.Unmappable, verdict.LeavesState},
		{"walks to a page that it cannot write", "48c70700000000" + "4881c700010000",
			func(c *initial.Captured) { c.Pages[1].Writable = false }, 16, verdict.SIGSEGV, ""},
		{"follows a list to its end", "488b3f", func(c *initial.Captured) {
			setWord(&c.Pages[0], 0, heapPage+0x40)
			setWord(&c.Pages[0], 0x40, heapPage+0x80)
			setWord(&c.Pages[0], 0x80, 0)
		}, 3, verdict.Unmappable, ""},
		{"divides until 0", "48ffc9" + "31d2" + "48f7f1", func(c *initial.Captured) { c.GPR[asm.RCX] = 5 }, 4, verdict.SIGFPE, ""},
		{"cannot start", "488b07", func(c *initial.Captured) { c.GPR[asm.RDI] = 0 }, 0, "", verdict.Unmappable},
		{"changes and restores", "48ff07", nil, 0, "", ""},
	} {
		state := b.asMachine(somewhere(rand.New(rand.NewPCG(7, uint64(i))), pieCode, heapPage, second))
		state.GPR[asm.RDI] = heapPage
		if c.change != nil {
			c.change(state)
		}
		m, err := b.prepareBlock(Block{Code: require.Hex(t, c.hex), Setup: Setup{Captured: state}})
		reason := rejectionOf(t, err).Reason
		left := m.Left
		if reason != c.reject || (left == nil) != (c.within == 0) || left != nil && (left.Copy != c.within || left.Why.Reason != c.why) {
			t.Errorf("%s: rejected for %q and left: %v; want %q, %d copies within, %s", c.name, reason, left, c.reject, c.within, c.why)
			continue
		}
		if err != nil {
			continue
		}
		if m.Factors.Long > c.within && c.within > 0 {
			t.Errorf("%s: %v copies", c.name, m.Factors)
		}
		first := b.run(m, b.build(m, 1))
		b.run(m, b.build(m, m.Factors.Long))
		require.Equal(t, c.name, "", first.difference(b.run(m, b.build(m, 1))))
	}
}

// TestLeavesEarly: too few copies within the state are rejected, unless the user chose their number.
func TestLeavesEarly(t *testing.T) {
	state := &initial.Captured{Address: pieCode, Pages: []initial.Page{{Address: heapPage, Writable: true}}}
	state.MXCSR, state.GPR[asm.RDI] = initial.DefaultMXCSR, heapPage+layout.PageSize-4*8
	block := Block{Code: require.Hex(t, "488b07"+"4883c708"), Setup: Setup{Captured: state}} // four copies reach the page's end
	for _, c := range []struct {
		unroll *unroll.Factors
		early  bool
	}{{nil, true}, {&unroll.Factors{Short: 2, Long: 4}, false}, {&unroll.Factors{Short: 2, Long: 5}, true}} {
		r := require.Get(start(t, Options{Unroll: c.unroll}).Profile(t.Context(), block))(t)
		if early := r.Reason == verdict.LeavesState; early != c.early || r.Captured.Within != 4 && early {
			t.Errorf("%v: %s %v, %d copies within; want too early: %v", c.unroll, r.Status, r.Rejection, r.Captured.Within, c.early)
		}
	}
}

// TestReplayLosesChild: the error names the cause of a lost child, and a child that is lost once is replaced.
func TestReplayLosesChild(t *testing.T) {
	b := openBench(t)
	block := Block{Code: []byte{0x90}, Setup: Setup{Captured: &initial.Captured{Address: pieCode}}}
	lose := func() error {
		b.child.Kill()
		return b.child.Complete(nil, generous, "nothing")
	}
	tries := 0
	if _, err := b.withChild(t.Context(), block, func() error {
		if tries++; tries == 1 {
			return lose()
		}
		return nil
	}); err != nil || tries != 2 {
		t.Errorf("lost once: %v after %d tries", err, tries)
	}
	if _, err := b.withChild(t.Context(), block, lose); !errors.As(err, new(*tracee.DeadError)) {
		t.Errorf("lost twice: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := b.withChild(ctx, block, func() error { cancel(); return lose() }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, err := b.withChild(t.Context(), block, func() error {
		entry := b.timer.Images()
		copy(b.child.Code()[entry-layout.Code:], []byte{0xeb, 0xfe}) // jmp $
		return b.child.Complete([]tracee.Op{tracee.Run(entry, 1)}, 20*time.Millisecond, "an endless loop")
	})
	if verdict.ReasonOf(err) != verdict.Timeout {
		t.Errorf("endless: %v", err)
	}
}
