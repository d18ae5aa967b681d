package harness

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

// line is one instruction in objdump's output.
type line struct {
	addr, end uint64
	text      string
}

// disassemble decodes code at address base; unlike x86asm, objdump knows all of VEX.
func disassemble(t *testing.T, base uint64, code []byte) []line {
	t.Helper()
	tool := require.Tool(t, require.Binutils, "objdump")
	file := require.File(t, "code", code)
	out := require.Get(exec.Command(tool, "-D", "-z", "-w", "-b", "binary", "-m", "i386:x86-64", "-M", "intel",
		"--insn-width=16", fmt.Sprintf("--adjust-vma=%#x", base), file).Output())(t)
	var lines []line
	for text := range strings.Lines(string(out)) {
		f := strings.SplitN(text, "\t", 3) // address, bytes, instruction
		if len(f) == 3 {
			addr := require.Get(strconv.ParseUint(strings.Trim(f[0], " :"), 16, 64))(t)
			inst, _, _ := strings.Cut(f[2], "#")
			lines = append(lines, line{addr, addr + uint64(len(strings.Fields(f[1]))), strings.Join(strings.Fields(inst), " ")})
		}
	}
	if bytes.Contains(out, []byte("(bad)")) {
		t.Fatalf("objdump does not know all of % x", code)
	}
	if n := len(lines); n == 0 || lines[n-1].end != base+uint64(len(code)) {
		t.Fatalf("the last instruction does not end where the code does: %v", lines[max(0, n-1):])
	}
	return lines
}

// allResets returns all combinations of Reset.
func allResets() []Reset {
	var all []Reset
	for bits := range 128 {
		on := func(i int) bool { return bits>>i&1 != 0 }
		all = append(all, Reset{Memory: on(0), Vector: on(1), High: on(2), X87: on(3), Filled: bits >> 3 & 1 * 2, MXCSR: on(4), Flags: on(5), MMX: on(6)})
	}
	return all
}

var allFeatures = []asm.Features{{}, {AVX: true}, {AVX: true, AVX512: true}}

// checkFused checks that no dec+jnz pair crosses a 32-byte boundary or ends at one (Intel erratum SKX102).
func checkFused(t *testing.T, lines []line) (pairs int) {
	t.Helper()
	for i := 1; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i-1].text, "dec r") || !strings.HasPrefix(lines[i].text, "jne") {
			continue
		}
		pairs++
		if first, last := lines[i-1].addr, lines[i].end; first/32 != last/32 {
			t.Errorf("%q and %q at %#x to %#x touch a 32-byte boundary", lines[i-1].text, lines[i].text, first, last)
		}
	}
	return pairs
}

// One disassembly of many prologues, one after the other, each at another offset in its cache line.
func TestPrologueWherever(t *testing.T) {
	init := initial.Paper()
	same := map[string]bool{} // without vectors to reset, features make no difference
	for _, features := range allFeatures {
		var code []byte
		loops := 0
		for i, reset := range allResets() {
			if testing.Short() && i%7 != 0 {
				continue
			}
			for k := range 8 {
				pad := (i + 9*k) % 64
				e := asm.NewEmitter(layout.Code + uint64(len(code)))
				e.Nop(pad)
				Prologue(e, init, reset, features)
				if e.PC()%64 != 0 {
					t.Fatalf("%+v after %d bytes ends at %#x, not at a multiple of 64", reset, pad, e.PC())
				}
				if same[string(e.Bytes())] {
					continue
				}
				same[string(e.Bytes())] = true
				code = append(code, e.Bytes()...)
				loops++
				if reset.Memory {
					loops++
				}
			}
		}
		if got := checkFused(t, disassemble(t, layout.Code, code)); got != loops {
			t.Errorf("%d loops found, want %d: the check would miss some", got, loops)
		}
	}
}

// Instructions that send the copies to the decoders, or cost more than the block.
func TestPrologueHoldsNothingThatLeavesTheOpCache(t *testing.T) {
	for _, features := range allFeatures {
		e := asm.NewEmitter(layout.Code)
		Prologue(e, initial.Paper(), Reset{Memory: true, Vector: true, High: true, X87: true, MXCSR: true, Flags: true}, features)
		for _, l := range disassemble(t, layout.Code, e.Bytes()) {
			for _, bad := range []string{"mfence", "sfence", "xrstor", "fxrstor", "rep", "featuresid", "serialize"} {
				if strings.HasPrefix(l.text, bad) {
					t.Errorf("%+v: %q", features, l.text)
				}
			}
		}
	}
}

// The contention probe's own loops must run from the op cache on every core.
func TestProbeLoopsAreFused(t *testing.T) {
	for start := uint64(5); start < 64; start += 8 { // an objdump run each
		e := asm.NewEmitter(layout.Code + start)
		contention(e, TSC, Probe{Iterations: 64, Nops: true})
		burst(e, TSC)
		if n := checkFused(t, disassemble(t, layout.Code+start, e.Bytes())); n != 3 {
			t.Errorf("%d loops, want 3", n)
		}
	}
}
