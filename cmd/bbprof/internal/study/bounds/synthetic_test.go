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

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool/pooltest"
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
	kinds := []struct {
		name   string
		per    int // instructions for each of the one to four that are drawn
		code   func(n int) string
		want   Kind
		class  string
		counts bool // they are of the class
	}{
		{"a chain of %d multiplications", 1, func(n int) string { return times("480fafc1", n) }, Chain, "multiply", true},
		{"a chain of %d loads", 1, func(n int) string { return times("488b1b", n) }, Chain, "multiply", false},
		// imul makes the round longer than what memory renaming may hide
		{"a store, its load and %d multiplications", 1, func(n int) string { return "48890b" + "488b0b" + times("480fafc9", n) }, Memory, "multiply", true},
		{"%d loads", 3, func(n int) string { return words("488b", n) }, Class, "multiply", false},
		{"%d divisions", 1, func(n int) string { return times("c5f05ec1", n) }, Class, "", false},
		{"%d nops", 6, func(n int) string { return times("6690", n) }, FrontEnd, "", false},
		{"%d zeroing idioms, loads and stores", 6, func(n int) string { return times(times("c5d057ed", 4)+"488b03"+"48894b10", n/6) }, FrontEnd, "", false},
		// beyond those that a plain go test takes
		{"a chain of %d adds", 1, func(n int) string { return times("4801c8", n) }, Chain, "", false},
		{"a chain of %d additions of floating point", 1, func(n int) string { return times("f20f58c1", n) }, Chain, "multiply", false},
		{"%d multiplications that wait for nothing", 1, func(n int) string { return times("486bc103", n) }, Class, "", false},
		{"%d stores", 2, func(n int) string { return words("4889", n) }, Class, "multiply", false},
		{"%d shuffles", 2, func(n int) string { return times("c4e27100c1", n) }, Class, "", false},
		{"%d moves to a vector register", 1, func(n int) string { return times("c5f96ec1", n) }, Class, "", false},
		// bound by slots on a core that eliminates moves, else by units
		{"%d moves between registers", 6, func(n int) string { return times("4889c84889d14889da", n/3) }, "", "", false},
	}
	for i := range n {
		kind := kinds[i%len(kinds)]
		n := kind.per * (1 + random.IntN(4))
		b := synthetic{name: fmt.Sprintf(kind.name, n), hex: kind.code(n), want: kind.want, class: kind.class}
		if kind.counts {
			b.has = n
		}
		all = append(all, b)
	}
	return all
}

// disturbed reports whether other work on the core has left something of an answer without a measurement.
func (a *Answer) disturbed() bool {
	var why []string
	for _, s := range a.Slack {
		why = append(why, s.Untested)
	}
	for _, c := range a.Chains {
		why = append(why, c.Untested)
	}
	return a.Base.Noisy() || a.FrontEnd.Slots == 0 || slices.ContainsFunc(why, func(why string) bool {
		return strings.Contains(why, "busy_core") || strings.Contains(why, "context_switch") || strings.Contains(why, "unstable")
	})
}

// TestSynthetic finds the bound of blocks that have one by construction: one of each sort, or BBPROF_BOUNDS of all.
func TestSynthetic(t *testing.T) {
	require.Slow(t)
	ctx := require.Context(t)
	patient := pooltest.New(t, profiler.Options{Detail: true})
	n, p := 7, pool.Profiler(patient)
	if asked := os.Getenv("BBPROF_BOUNDS"); asked != "" {
		n, p = require.Get(strconv.Atoi(asked))(t), patient.Profiler // disturbed blocks do not count
	}
	alone, err := pool.Number(ctx, p, profiler.Block{Code: require.Hex(t, strings.Repeat("486bc103", 8))}) // independent multiplications
	require.Measure(t, err)
	// Zen 5 does three multiplications per cycle alone, 1.7 next to four loads: the mixed case has no known rate.
	several := alone.Cycles < 0.9*8
	blocks := made(n, rand.New(rand.NewPCG(1, 2)))
	named, slack, slacks, measured := 0, 0, 0, 0
	for _, b := range blocks {
		a, err := Find(ctx, p, profiler.Block{Code: require.Hex(t, b.hex)}, false)
		require.Measure(t, err)
		if a.disturbed() {
			continue
		}
		measured++
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
	t.Logf("%d of %d bounds named, %d of %d slacks right to one instruction", named, measured, slack, slacks)
	if measured < n/2 {
		require.Skip(t, require.Idle, "other work disturbed all but %d of %d blocks", measured, n)
	}
	if wrong := func(right, of int) bool { return of-right > max(1, of/10) }; wrong(named, measured) || wrong(slack, slacks) {
		t.Error("more than one, and than one in ten, are wrong")
	}
}
