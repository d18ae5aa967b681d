package asm

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestTrailingBranch(t *testing.T) {
	for _, c := range []struct {
		hex                 string
		start, cond, invert bool
		target              int64
		emitted             string // to the block's start
	}{
		{"48ffc875fb", true, true, true, 0, "75fb"},
		{"48ffc80f85f7ffffff", true, true, true, 0, "0f85f7ffffff"},
		{"48ffc82e7505", false, true, true, 11, "2e75fa"},
		{"90e2fd", true, true, false, 0, "e2fd"},
		{"9067e3fc", true, true, false, 0, "67e3fc"},
		{"90eb05", false, false, false, 8, "ebfd"},
		{"90e9faffffff", true, false, false, 0, "e9faffffff"},
	} {
		b, ok := TrailingBranch(mustDecode(t, c.hex))
		if !ok || b.Target != c.target || b.ToStart() != c.start ||
			b.Conditional() != c.cond || b.Invertible() != c.invert {
			t.Errorf("%s: a branch %v, target %d, to start %v, conditional %v, invertible %v",
				c.hex, ok, b.Target, b.ToStart(), b.Conditional(), b.Invertible())
			continue
		}
		e := NewEmitter(0)
		e.Nop(b.Offset)
		if !b.Emit(e, 0) || fmt.Sprintf("%x", e.Bytes()[b.Offset:]) != c.emitted {
			t.Errorf("%s to its start is %x, want %s", c.hex, e.Bytes()[b.Offset:], c.emitted)
		}
		for _, far := range []bool{false, true} { // the lowest bit of the opcode inverts it
			e := NewEmitter(0)
			if far {
				b.EmitFar(e, 0)
			} else {
				b.Emit(e, 0)
			}
			code := e.Bytes()
			code[len(code)-b.FromOpcode(far)] ^= 1
			if !c.invert {
				continue
			}
			require.Equal(t, c.hex+", inverted", "je", mustDecode(t, fmt.Sprintf("%x", code))[0].Mnemonic)
		}
	}
	for _, none := range []string{
		"75019090", "90c3", "90e800000000",
		"90667500",       // a target of 16 bits on AMD
		"90c7f800000000", // xbegin
	} {
		if _, ok := TrailingBranch(mustDecode(t, none)); ok {
			t.Errorf("%s: a branch", none)
		}
	}
}

// TestInnerBranches: those that stay within the block, or lead to the next copy.
func TestInnerBranches(t *testing.T) {
	for hex, want := range map[string][]int{
		"7404480fafc048ffc9":       {0},    // over the imul
		"740748480fafc048ffc9":     nil,    // past the end
		"740390909090":             {0},    // to the third nop
		"740290907500":             {0},    // to the branch at the end, which is none of them
		"740490907500":             nil,    // past that: a dry run has another in its place
		"7402909075fb":             {0},    // to a branch to the start
		"7401" + "7400" + "9090":   {1},    // the first into an instruction
		"7400" + "e300" + "90":     {0, 1}, // to the next instruction
		"eb0090" + "75fc" + "90":   nil,    // always taken; backwards
		"660f840000" + "90" + "90": nil,    // with an operand-size prefix
	} {
		require.Equal(t, hex, want, InnerBranches(mustDecode(t, hex)))
	}
}
