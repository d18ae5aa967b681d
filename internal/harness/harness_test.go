package harness

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

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

// checkFused checks that no dec+jnz pair of code at an address crosses a 32-byte boundary or ends at one (Intel erratum SKX102).
func checkFused(t *testing.T, base uint64, code []byte) (pairs int) {
	t.Helper()
	insts := decode(t, code...)
	for i := 1; i < len(insts); i++ {
		dec, jne := insts[i-1], insts[i]
		if dec.Mnemonic != "dec" || len(dec.Mem) > 0 || jne.Mnemonic != "jne" {
			continue
		}
		pairs++
		if first, last := base+uint64(dec.Offset), base+uint64(jne.Offset+len(jne.Bytes)); first/32 != last/32 {
			t.Errorf("%q and %q at %#x to %#x touch a 32-byte boundary", dec.Text(), jne.Text(), first, last)
		}
	}
	return pairs
}

// TestPrologueWherever has each prologue at several offsets in its cache line.
func TestPrologueWherever(t *testing.T) {
	init := initial.Paper()
	for _, features := range allFeatures {
		for i, reset := range allResets() {
			for k := range 2 {
				pad := (i + 9*k) % 64
				e := asm.NewEmitter(layout.Code)
				e.Nop(pad)
				Prologue(e, init, reset, features)
				if e.PC()%64 != 0 {
					t.Fatalf("%+v after %d bytes ends at %#x, not at a multiple of 64", reset, pad, e.PC())
				}
				loops := map[bool]int{false: 1, true: 2}[reset.Memory]
				require.Equal(t, fmt.Sprintf("%+v: loops, of which the check may miss some", reset), loops, checkFused(t, layout.Code, e.Bytes()))
			}
		}
	}
}

// Instructions that send the copies to the decoders, or cost more than the block.
func TestPrologueHoldsNothingThatLeavesTheOpCache(t *testing.T) {
	for _, features := range allFeatures {
		e := asm.NewEmitter(layout.Code)
		Prologue(e, initial.Paper(), Reset{Memory: true, Vector: true, High: true, X87: true, MXCSR: true, Flags: true}, features)
		for _, in := range decode(t, e.Bytes()...) {
			for _, bad := range []string{"mfence", "sfence", "xrstor", "fxrstor", "rep", "featuresid", "serialize"} {
				if strings.HasPrefix(in.Text(), bad) {
					t.Errorf("%+v: %q", features, in.Text())
				}
			}
		}
	}
}

// The contention probe's own loops must run from the op cache on every core.
func TestProbeLoopsAreFused(t *testing.T) {
	for start := range uint64(64) {
		e := asm.NewEmitter(layout.Code + start)
		contention(e, TSC, Probe{Iterations: 64, Nops: true})
		burst(e, TSC)
		require.Equal(t, "loops", 3, checkFused(t, layout.Code+start, e.Bytes()))
	}
}
