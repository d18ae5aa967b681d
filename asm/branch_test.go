package asm

import (
	"fmt"
	"strings"
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
	for _, row := range require.Table(t, "inner_branches.txt") {
		require.Equal(t, row[2], row[1], strings.Trim(fmt.Sprint(InnerBranches(mustDecode(t, row[0]))), "[]"))
	}
}
