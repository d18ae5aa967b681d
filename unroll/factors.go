// Package unroll chooses how often a block is repeated, and derives the throughput from the times of two code images.
//
// A block's time is the difference between the times of a longer and a shorter image, divided by the difference of
// their copies, so that what runs before and after the copies cancels out (BHive, IISWC 2019, Equation 2).
// [Throughput] computes it. [Choose] picks the two numbers of copies: more copies narrow the interval, as long as
// both images stay in the op cache and L1I of a [FrontEnd]. [ChooseLoop] and [ChooseShortLoop] pick them for a
// counted loop over copies.
//
// The package is pure: no operating system, no clock. It does not build the images.
package unroll

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Factors are the two numbers of copies timed, the paper's u and u', u < u'. A Short of 0 means the paper's Equation
// 1: only the longer image, including its overhead.
type Factors struct {
	Short, Long int
}

func (f Factors) String() string { return fmt.Sprintf("%d,%d", f.Short, f.Long) }

// BHive returns how often BHive's harness repeats a block of size bytes, fitted to its list of blocks that may alias,
// and half of that.
func BHive(size int) *Factors {
	long := 10
	for _, step := range [...]struct{ below, copies int }{{900, 16}, {300, 25}, {200, 50}, {100, 100}} {
		if size < step.below {
			long = step.copies
		}
	}
	return &Factors{long / 2, long}
}

// FrontEnd holds the front-end parameters that limit the number of copies.
type FrontEnd struct {
	L1I     int     `json:"l1i_bytes"`
	OpCache OpCache `json:"op_cache"`
	// ByPlace says that how fast a loop runs depends on the addresses of its code.
	ByPlace bool `json:"-"`
}

// OpCache is the geometry of a decoded-instruction cache. A window of Window bytes of code takes one line for every
// OpsPerLine instructions that start in it. The zero value is a core without op cache, whose copies only L1I limits.
type OpCache struct {
	Lines      int `json:"lines"`
	OpsPerLine int `json:"ops_per_line"`
	Window     int `json:"window_bytes"`
}

// pairs is the grid of factors, ascending; coarse and fixed, so that two runs choose alike. From 16,48 on the numbers
// differ by a multiple of 32: then the code after the last copy has one cache-line offset in both images, and costs the
// same. docs/constants.md has the measurements behind the following.
var pairs = [...]Factors{
	{1, 3}, {2, 6}, {2, 10}, {4, 12}, {4, 20}, {8, 24}, {8, 40}, {16, 48},
	{16, 80}, {32, 96}, {32, 128}, {32, 160}, {64, 192}, {64, 256}, {64, 320}, {128, 384}, {128, 512},
}

// Shares of the front end available to the longer image. The shorter one, the sampler and the calibration chains need the
// rest: straight-line code that misses the op cache once runs from the decoders to its end.
const (
	opCacheShare = 0.30
	l1iShare     = 0.5
)

// Choose picks the largest pair whose images fit the front end. If even the smallest exceeds the op cache, Choose
// returns it with fits false. It rejects a block whose smallest pair exceeds L1I.
func Choose(insts []asm.Inst, fe FrontEnd) (f Factors, fits bool, err error) {
	f = pairs[0]
	if size := length(insts) * (f.Short + f.Long); size > fe.L1I {
		return f, false, &verdict.Rejection{
			Reason: verdict.CodeExceedsL1I,
			Detail: fmt.Sprintf("%d copies of %d bytes are needed and L1I holds %d bytes", f.Short+f.Long, length(insts), fe.L1I),
		}
	}
	if p, ok := fe.largest(insts); ok {
		return p, true, nil
	}
	return f, false, nil
}

// largest returns the last of pairs whose longer image the front end holds; ok is false if there is none.
func (fe FrontEnd) largest(insts []asm.Inst) (f Factors, ok bool) {
	lines := fe.OpCache.counter(insts)
	for _, p := range pairs {
		if !fe.holdsLines(lines.upTo(p.Long), p.Long*length(insts)) {
			break
		}
		f, ok = p, true
	}
	return f, ok
}

// Smaller returns the next smaller pair of the grid, if any.
func (f Factors) Smaller() (Factors, bool) { return f.Within(f.Long - 1) }

// Within returns the grid's largest pair of at most that many copies, if it is smaller than f.
func (f Factors) Within(copies int) (Factors, bool) {
	for _, p := range slices.Backward(pairs[:]) {
		if p.Long <= copies && p.Long < f.Long {
			return p, true
		}
	}
	return f, false
}

// Few is Within for a block that allows no more than these copies, down to 1 and 2.
func (f Factors) Few(copies int) (Factors, bool) {
	if fewer, ok := f.Within(copies); ok {
		return fewer, true
	}
	return Factors{1, 2}, copies >= 2 && f.Long > 2
}

// AtMost returns the largest pair of at most that many copies, or else the smallest pair.
func (f Factors) AtMost(copies int) Factors {
	if fewer, ok := f.Within(copies); ok {
		return fewer
	}
	return pairs[0]
}

func (fe FrontEnd) holds(insts []asm.Inst, copies int) bool {
	return fe.holdsLines(fe.OpCache.counter(insts).upTo(copies), copies*length(insts))
}

func (fe FrontEnd) holdsLines(lines, bytes int) bool {
	return float64(lines) <= opCacheShare*float64(fe.OpCache.Lines) &&
		float64(bytes) <= l1iShare*float64(fe.L1I)
}

// lineCounter counts the op-cache lines of contiguous copies that start at a window's start, as copies are added.
type lineCounter struct {
	cache       OpCache
	insts       []asm.Inst
	copies      int // so far
	full        int // lines of the windows before the last
	window, ops int // the last window, and the slots used in it
}

func (c OpCache) counter(insts []asm.Inst) *lineCounter {
	return &lineCounter{cache: c, insts: insts, window: -1}
}

// upTo returns how many lines the copies take, 0 without op cache. copies must not decrease between calls.
func (l *lineCounter) upTo(copies int) int {
	if l.cache == (OpCache{}) {
		return 0
	}
	linesOf := func(ops int) int { return (ops + l.cache.OpsPerLine - 1) / l.cache.OpsPerLine }
	size := length(l.insts)
	for ; l.copies < copies; l.copies++ {
		for i := range l.insts {
			if w := (l.copies*size + l.insts[i].Offset) / l.cache.Window; w != l.window {
				l.full += linesOf(l.ops)
				l.window, l.ops = w, 0
			}
			l.ops++
		}
	}
	return l.full + linesOf(l.ops)
}

func length(insts []asm.Inst) int {
	if len(insts) == 0 {
		return 0
	}
	last := insts[len(insts)-1]
	return last.Offset + len(last.Bytes)
}

// Throughput is (cycles(u') − cycles(u)) / (u' − u), in cycles per iteration, or cycles(u') / u' if u is 0. It also
// applies to other events.
func Throughput(short, long float64, f Factors) float64 {
	if f.Short == 0 {
		return long / float64(f.Long)
	}
	return (long - short) / float64(f.Long-f.Short)
}
