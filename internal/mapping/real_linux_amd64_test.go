package mapping

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// child launches a real child, or skips the test with the host's error.
func child(t *testing.T) *tracee.Tracee {
	t.Helper()
	runtime.LockOSThread()
	init := initial.Paper()
	c, err := tracee.Launch(0, init.FSBase, init.GSBase)
	if err != nil {
		runtime.UnlockOSThread()
		require.Measure(t, err)
	}
	t.Cleanup(func() {
		c.Close()
		runtime.UnlockOSThread()
	})
	return c
}

// mapReal maps copies of a block in a real child. It rejects nothing: what must not run raises its signal.
func mapReal(t *testing.T, c *tracee.Tracee, p Plan, copies int, code []byte) (Plan, harness.Image, Mapping, error) {
	t.Helper()
	insts := require.Get(asm.Decode(code))(t)
	p.Insts, p.Init = insts, initial.Paper()
	frame := harness.Harness{Init: p.Init, Reset: harness.Reset{Flags: true, X87: true}, Clock: harness.TSC}
	dry := require.Get(harness.BuildDryRun(insts, copies, nil, frame))(t)
	im := require.Get(harness.Build(layout.Code, insts, copies, nil, frame))(t)
	for _, slot := range []uint64{layout.SlotFlags, layout.DryRunFlags} {
		c.SetWord(slot, 0x202)
	}
	c.SetWord(layout.DryRunMXCSR, initial.DefaultMXCSR)
	copy(c.DryRunCode(), dry.Code)
	copy(c.Code(), im.Code)
	m, err := mapPages(c, p, dry)
	return p, im, m, err
}

var usual = Plan{Frames: 1, Pages: 16, Limit: 30 * time.Second}

func code(parts ...[]byte) []byte { return slices.Concat(parts...) }

// set is mov r64, imm64 with the register's number.
func set(r byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0x48, 0xb8 | r}, v)
}

const (
	rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi = 0, 1, 2, 3, 4, 5, 6, 7

	crooked = 0x1234_5678_9abc_def0 // not canonical, whatever the paging
)

var (
	load    = []byte{0x48, 0x8b, 0x03}                               // mov rax, [rbx]
	storeIt = []byte{0x48, 0xc7, 0x43, 0x08, 0x01, 0x00, 0x00, 0x00} // mov qword [rbx+8], 1
	nop     = []byte{0x90}
)

func TestPagesOfRealBlocks(t *testing.T) {
	c := child(t)
	for _, b := range []struct {
		name  string
		code  []byte
		pages []uint64
	}{
		{"no access", nop, nil},
		{"load", load, []uint64{0x1234_5000}},
		{"across two pages", code(set(rbx, 0x1234_5ffc), load), []uint64{0x1234_5000, 0x1234_6000}},
		{"across two pages, by one byte", code(set(rbx, 0x1234_5ff9), load), []uint64{0x1234_5000, 0x1234_6000}},
		{"up to the end of a page", code(set(rbx, 0x1234_5ff8), load), []uint64{0x1234_5000}},
		{"two pages, the upper first", []byte{0x8a, 0x83, 0, 0x10, 0, 0, 0x8a, 0x03}, []uint64{0x1234_6000, 0x1234_5000}},
		{"push", []byte{0x50}, []uint64{0x1234_5000}},
		{"fs", []byte{0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, []uint64{0x2345_6000}},
		{"gs", []byte{0x65, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, []uint64{0x3456_7000}},
		{"32-bit address", code(set(rbx, 0xffff_ffff_1234_5600), []byte{0x67, 0x8b, 0x03}), []uint64{0x1234_5000}},
		{"rip-relative", []byte{0x8b, 0x05, 0, 0x10, 0, 0}, []uint64{layout.Home + 0x1000}},
		{"a pointer from memory", code(load, []byte{0x8a, 0x80, 0, 0x20, 0, 0}), []uint64{0x1234_5000, 0x1234_7000}},
		{"below the own region", code(set(rbx, layout.Base-8), load), []uint64{layout.Base - 0x1000}},
		{"above it", code(set(rbx, layout.End), load), []uint64{layout.End}},
		{"the last page of user space", code(set(rbx, layout.UserEnd-8), load), []uint64{layout.UserEnd - 0x1000}},
	} {
		p, im, m, err := mapReal(t, c, usual, 3, b.code)
		require.NoError(t, err)
		var got []uint64
		for _, page := range m.Pages {
			got = append(got, page.Addr)
		}
		if !slices.Equal(got, b.pages) || m.Stops != len(b.pages)+1 {
			t.Errorf("%s: pages %#x in %d stops, want %#x", b.name, got, m.Stops, b.pages)
		}
		// With the same pages mapped again it runs through at once.
		list := append(m.remap(0, 0), tracee.UsageBefore(), tracee.Run(im.Address, 5), tracee.UsageAfter())
		fewest := uint64(math.MaxUint64)
		for try := 0; try < 4 && fewest > 0; try++ { // the first time, code may fault
			if stop, err := c.Do(list, p.Limit); err != nil || !stop.Done {
				t.Errorf("%s: remapped, %+v, %v", b.name, stop, err)
			}
			const minflt = 64 // ru_minflt in struct rusage
			fewest = min(fewest, c.Word(layout.UsageEnd+minflt)-c.Word(layout.Usage+minflt))
		}
		if fewest > 0 {
			t.Errorf("%s: %d page faults after the pages were mapped", b.name, fewest)
		}
	}
}

func TestRejectionsOfRealBlocks(t *testing.T) {
	c := child(t)
	at := func(v uint64) *uint64 { return &v }
	for _, b := range []struct {
		name   string
		code   []byte
		reason verdict.Reason
		index  int
		addr   *uint64
		hint   string
	}{
		{"non-canonical load", code(set(rbx, crooked), load), verdict.Unmappable, 1, at(crooked), "canonical"},
		{"non-canonical push", code(set(rsp, crooked), []byte{0x50}), verdict.Unmappable, 1, at(crooked - 8), "canonical"},
		{"non-canonical by rbp", code(set(rbp, crooked), []byte{0x8b, 0x45, 0x00}), verdict.Unmappable, 1, at(crooked), "canonical"},
		{"non-canonical leave", code(set(rbp, crooked), []byte{0xc9}), verdict.Unmappable, 1, at(crooked), "canonical"},
		{"non-canonical lodsb", code(set(rsi, crooked), []byte{0xac}), verdict.Unmappable, 1, at(crooked), "canonical"},
		{"non-canonical by index", code(set(rbx, crooked), []byte{0x8b, 0x44, 0xcb, 0x08}), verdict.Unmappable, 1,
			at(crooked + 8*0x1234_5600 + 8), "canonical"},
		{"kernel half", code(set(rbx, ^uint64(0)-0xfff), load), verdict.Unmappable, 1, at(^uint64(0) - 0xfff), "kernel"},
		{"the page that user space lacks", code(set(rbx, layout.UserEnd), load), verdict.Unmappable, 1, at(layout.UserEnd), "above user space"},
		{"into that page", code(set(rbx, layout.UserEnd-4), load), verdict.Unmappable, 1, at(layout.UserEnd), "above user space"},
		{"store to the code", code(set(rbx, layout.Code), storeIt), verdict.Unmappable, 1, at(layout.Code + 8), "own region"},
		{"a gap of the own region", code(set(rbx, layout.Base+0x2000), load), verdict.Unmappable, 1, at(layout.Base + 0x2000), "own region"},
		{"movaps", []byte{0x90, 0x0f, 0x28, 0x43, 0x08}, verdict.UnalignedOperand, 1, at(0x1234_5608), "16"},
		{"addps", []byte{0x0f, 0x58, 0x43, 0x04}, verdict.UnalignedOperand, 0, at(0x1234_5604), "16"},
		{"cmpxchg16b", []byte{0x48, 0x0f, 0xc7, 0x4b, 0x08}, verdict.UnalignedOperand, 0, at(0x1234_5608), "16"},
		{"fxsave", []byte{0x0f, 0xae, 0x43, 0x08}, verdict.UnalignedOperand, 0, at(0x1234_5608), "16"},
		{"divide by 0", []byte{0x31, 0xc9, 0xf7, 0xf1}, verdict.SIGFPE, 1, nil, "divi"},
		{"quotient overflow", []byte{0xf7, 0xf1}, verdict.SIGFPE, 0, nil, "divi"},
		{"ud2", []byte{0x90, 0x0f, 0x0b}, verdict.SIGILL, 1, nil, ""},
		{"hlt", []byte{0xf4}, verdict.SIGSEGV, 0, nil, "protection"},
		{"int3", []byte{0x90, 0xcc}, verdict.SIGTRAP, 1, nil, ""},
		{"int1", []byte{0x90, 0xf1}, verdict.SIGTRAP, 1, nil, ""},
		{"trap flag", []byte{0x68, 0x02, 0x03, 0, 0, 0x9d, 0x90, 0x66, 0x90}, verdict.SIGTRAP, 2, nil, ""},
		{"alignment check", []byte{0x68, 0x02, 0x02, 0x04, 0, 0x9d, 0x8b, 0x43, 0x01}, verdict.SIGBUS, 2, at(0x1234_5601), "alignment-check"},
		{"syscall", []byte{0x90, 0x0f, 0x05}, verdict.Syscall, 1, nil, ""},
		{"too many pages", []byte{0xf3, 0xaa}, verdict.TooManyPages, 0, at(0x1235_5000), "16"}, // rep stosb
	} {
		_, _, _, err := mapReal(t, c, usual, 2, b.code)
		r, ok := errors.AsType[*verdict.Rejection](err)
		if !ok || r.Reason != b.reason || !strings.Contains(r.Detail, b.hint) || r.Inst == nil || r.Inst.Index != b.index {
			t.Errorf("%s: %v, want %s about %q, instruction %d", b.name, err, b.reason, b.hint, b.index)
			continue
		}
		require.Equal(t, b.name, b.addr, r.Address)
	}
}

// TestPendingX87: a block that leaves an exception pending is rejected. Until something raises it, other code runs
// at half its speed (Granite Rapids), so timings after the block would blame another hardware thread.
func TestPendingX87(t *testing.T) {
	c := child(t)
	unmask, underflow := []byte{0xd9, 0x2b}, []byte{0xdd, 0xd8} // fldcw [rbx], fstp st(0) of an empty register
	_, _, _, err := mapReal(t, c, usual, 1, code(unmask, underflow))
	if r := rejected(t, err, verdict.SIGFPE); r.Inst != nil || !strings.Contains(r.Detail, "pending") {
		t.Errorf("%v", r)
	}
	_, _, _, err = mapReal(t, c, usual, 2, code(unmask, underflow)) // the second copy raises it
	if r := rejected(t, err, verdict.SIGFPE); r.Inst == nil || r.Inst.Index != 0 {
		t.Errorf("%v", r)
	}
	if _, _, _, err := mapReal(t, c, usual, 2, underflow); err != nil { // masked
		t.Error(err)
	}
}

// An access across the end of the lower half: with 4-level paging its last byte is at fault,
// with 5-level paging its first.
func TestAcrossTheEndOfTheLowerHalf(t *testing.T) {
	_, _, _, err := mapReal(t, child(t), usual, 2, code(set(rbx, 1<<47-1), load))
	if r := rejected(t, err, verdict.Unmappable); r.Address == nil || *r.Address != 1<<47+6 && *r.Address != 1<<47-1 {
		t.Errorf("%+v", r)
	}
}

// TestRepeated: a string instruction touches at most repeatPages pages, each way and by each register.
func TestRepeated(t *testing.T) {
	c := child(t)
	p := usual
	p.Pages = MaxPages
	stos, std := []byte{0xf3, 0xaa}, []byte{0xfd}
	count := func(n uint64) []byte { return set(rcx, n) }
	for _, b := range []struct {
		name string
		code []byte
		want verdict.Reason
	}{
		{"stos", stos, verdict.TooManyPages},
		{"stos to the last page", code(count(repeatPages*layout.PageSize-0x600), stos), ""},
		{"stos one byte further", code(count(repeatPages*layout.PageSize-0x600+1), stos), verdict.TooManyPages},
		{"stos twice", code(count(20*layout.PageSize), stos, count(20*layout.PageSize), stos), ""},
		{"stos downwards", code(std, stos), verdict.TooManyPages},
		{"stos downwards to the last page", code(std, count((repeatPages-1)*layout.PageSize+0x601), stos), ""},
		{"stos by 32-bit addresses", []byte{0x67, 0xf3, 0xaa}, verdict.TooManyPages},
		{"stos into the own region", code(set(rdi, layout.Base-20*layout.PageSize), stos), verdict.Unmappable},
		{"movs", code(set(rdi, 0x2000_0010), []byte{0xf3, 0xa4}), verdict.TooManyPages},
		{"cmps", []byte{0xf3, 0x48, 0xa7}, verdict.TooManyPages},
		{"scas that finds nothing", code(set(rax, 0x99), []byte{0xf2, 0xae}), verdict.TooManyPages},
		{"scas that finds all alike", code(set(rax, 0x1234_5600), []byte{0xf2, 0xae}), ""},
		{"lods", []byte{0xf3, 0x48, 0xad}, verdict.TooManyPages},
	} {
		if _, _, m, err := mapReal(t, c, p, 1, b.code); verdict.ReasonOf(err) != b.want || err != nil && verdict.ReasonOf(err) == "" {
			t.Errorf("%s: %v after %d stops, want %q", b.name, err, m.Stops, b.want)
		}
	}
}
