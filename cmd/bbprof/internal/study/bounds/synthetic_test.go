package bounds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// synthetic is a block with one bound, known by construction.
type synthetic struct {
	name  string
	hex   string
	want  Kind   // "": FrontEnd or Class
	class string // class with as much room per iteration as the core executes in the block's cycles, less the block's own; "" if not tested
	has   int    // instructions of the class
}

// made returns n blocks of alternating kinds and random sizes.
func made(n int, random *rand.Rand) (all []synthetic) {
	times := func(s string, n int) string { return strings.Repeat(s, n) }
	// without carried dependencies: the sources are never written
	words := func(opcode string, n int) (s string) { // opcode r, [rbx+8*i], i below 8
		for i := range n {
			s += fmt.Sprintf("%s%02x%02x", opcode, 0x43|i%2<<3, 8*(i%8))
		}
		return s
	}
	kinds := []func(k int) synthetic{
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("a chain of %d adds", k), times("4801c8", k), Chain, "", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("a chain of %d multiplications", k), times("480fafc1", k), Chain, "multiply", k}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("a chain of %d loads", k), times("488b1b", k), Chain, "multiply", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("a chain of %d additions of floating point", k), times("f20f58c1", k), Chain, "multiply", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("%d multiplications that wait for nothing", k), times("486bc103", k), Class, "", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("%d loads", 3*k), words("488b", 3*k), Class, "multiply", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("%d stores", 2*k), words("4889", 2*k), Class, "multiply", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("%d shuffles", 2*k), times("c4e27100c1", 2*k), Class, "", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("%d divisions", k), times("c5f05ec1", k), Class, "", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("%d nops", 6*k), times("90", 6*k), FrontEnd, "", 0}
		},
		func(k int) synthetic {
			return synthetic{fmt.Sprintf("%d zeroing idioms, loads and stores", 6*k), times(times("c5d057ed", 4)+"488b03"+"48894b10", k), FrontEnd, "", 0}
		},
		func(k int) synthetic { // bound by slots on a core that eliminates moves, else by units
			return synthetic{fmt.Sprintf("%d moves between registers", 6*k), times("4889c84889d14889da", 2*k), "", "", 0}
		},
		func(k int) synthetic { // imul makes the round longer than what memory renaming may hide
			return synthetic{fmt.Sprintf("a store, its load and %d multiplications", k), "48890b" + "488b0b" + times("480fafc9", k), Memory, "multiply", k}
		},
	}
	for i := range n {
		all = append(all, kinds[i%len(kinds)](1+random.IntN(4)))
	}
	return all
}

// TestSynthetic finds the bound of blocks that have one by construction. BBPROF_BOUNDS is their number.
func TestSynthetic(t *testing.T) {
	require.Slow(t)
	n := 13
	if s := os.Getenv("BBPROF_BOUNDS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	ctx := require.Context(t)
	p, err := profiler.New(t.Context(), profiler.Options{Detail: true})
	require.Measure(t, err)
	t.Cleanup(p.Close)
	alone, err := p.Profile(ctx, profiler.Block{Code: unhex(t, strings.Repeat("486bc103", 8))}) // independent multiplications
	require.Measure(t, err)
	if alone.Rejection != nil {
		require.Measure(t, alone.Rejection)
	}
	// Zen 5 does three multiplications per cycle alone, 1.7 next to four loads: the mixed case has no known rate.
	several := alone.Cycles < 0.9*8
	blocks := made(n, rand.New(rand.NewPCG(1, 2)))
	named, slack, slacks := 0, 0, 0
	for _, b := range blocks {
		a, err := Find(ctx, p, profiler.Block{Code: unhex(t, b.hex)}, false)
		require.Measure(t, err)
		if slices.Contains(a.Bounds, b.want) || b.want == "" && (slices.Contains(a.Bounds, FrontEnd) || slices.Contains(a.Bounds, Class)) {
			named++
		} else {
			t.Logf("%s (%s): %s, want %s", b.name, b.hex, a.Sentence, b.want)
		}
		if several && b.want == Class {
			continue
		}
		if s := a.slackOf(b.class); s != nil {
			slacks++
			if want := a.Base.Cycles*8/alone.Cycles - float64(b.has); math.Abs(s.Room-want) <= 1 {
				slack++
			} else {
				t.Logf("%s (%s): there is room for %.2f of %s, want %.2f", b.name, b.hex, s.Room, b.class, want)
			}
		}
	}
	t.Logf("%d of %d bounds named, %d of %d slacks right to one instruction", named, len(blocks), slack, slacks)
	if wrong := func(right, of int) bool { return of-right > max(1, of/10) }; wrong(named, len(blocks)) || wrong(slack, slacks) {
		t.Error("more than one, and than one in ten, are wrong")
	}
}
