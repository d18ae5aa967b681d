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
	Lead    Lead    `json:"lead,omitzero"`
}

// OpCache is the geometry of a decoded-instruction cache. A window of Window bytes of code takes one line for every
// OpsPerLine instructions that start in it. The zero value is a core without op cache, whose copies only L1I limits.
type OpCache struct {
	Lines      int `json:"lines"`
	OpsPerLine int `json:"ops_per_line"`
	Window     int `json:"window_bytes"`
}

// Lead describes a core's front-end slack and its throughput after that: the front end runs ahead while the core
// waits for state to be restored before the first copy. The zero value means unknown.
type Lead struct {
	Windows int `json:"windows"` // of a fast block's code until the slack is used up
	Sets    int `json:"sets"`    // of the op cache; each holds every Sets-th window
	// A window takes WindowCycles and LineCycles for each of its lines.
	WindowCycles float64 `json:"window_cycles"`
	LineCycles   float64 `json:"line_cycles"`
	// DecodersSlower is the least factor by which a copy slows down when the decoders serve it.
	DecodersSlower float64 `json:"decoders_slower"`
}

// pairs is the grid of factors, ascending; coarse and fixed, so that two runs choose alike. From 16,48 on the numbers
// differ by a multiple of 32: then the code after the last copy has one cache-line offset in both images, and costs the
// same. docs/constants.md has the measurements behind the following.
var pairs = [...]Factors{
	{1, 3}, {2, 6}, {2, 10}, {4, 12}, {4, 20}, {8, 24}, {8, 40}, {16, 48},
	{16, 80}, {32, 96}, {32, 128}, {32, 160}, {64, 192}, {64, 256}, {64, 320}, {128, 384}, {128, 512},
}

// fewPairs are for blocks of at most fewInstructions, if a large op cache holds them: the first copies execute or retire
// faster than later ones are renamed.
var fewPairs = [...]Factors{{128, 320}, {128, 384}, {256, 512}}

// shortPairs are for those with instructions of at most shortBytes on average, too: a larger difference of copies
// narrows the interval.
var shortPairs = [...]Factors{{256, 640}, {256, 768}}

const (
	fewInstructions = 3
	shortBytes      = 3
	largeOpCache    = 4096 // operations
	// fewShare replaces opCacheShare for them and for dense code.
	fewShare = 0.20
)

// densePairs are for dense code, if fewShare of a large op cache holds one of them; longer blocks use pairs. The shorter
// image is long, because the first 500 to 1,000 instructions may run at another speed than the rest.
var densePairs = [...]Factors{{16, 48}, {32, 64}, {48, 80}, {32, 96}, {64, 128}, {64, 160}, {64, 192}, {96, 224}, {128, 256}, {128, 320}}

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
	take := func(list []Factors, share float64) bool {
		p, ok := fe.largest(list, insts, share)
		if ok {
			f = p
		}
		return ok
	}
	large := fe.OpCache.Lines*fe.OpCache.OpsPerLine >= largeOpCache
	short := len(insts) <= fewInstructions && large
	share := opCacheShare
	if short {
		share = fewShare
	}
	fits = take(pairs[:], share)
	if large && fe.OpCache.dense(insts) {
		take(densePairs[:], fewShare)
	}
	if short {
		few := fewPairs[:]
		if length(insts) <= shortBytes*len(insts) {
			few = append(few, shortPairs[:]...)
		}
		take(few, share)
	}
	return f, fits, nil
}

// largest returns the last pair of an ascending list whose longer image the front end holds; ok is false if there is
// none.
func (fe FrontEnd) largest(list []Factors, insts []asm.Inst, share float64) (f Factors, ok bool) {
	lines := fe.OpCache.counter(insts)
	for _, p := range list {
		if !fe.holdsLines(lines.upTo(p.Long), p.Long*length(insts), share) {
			break
		}
		f, ok = p, true
	}
	return f, ok
}

const (
	// leadBetween is the usual difference in op-cache windows between PastLead's two images. Its numbers of copies
	// are multiples of mostGrid (see pairs), or of less if that many copies are longer than a third of leadBetween.
	leadBetween = 48
	mostGrid    = 32
	// leadShare replaces opCacheShare for PastLead, per set of the op cache; a set may be filled to leadShareOfSet if the
	// cache is filled to at most leadShareOfAll.
	leadShare      = 0.75
	leadShareOfSet = 0.95
	leadShareOfAll = 0.85
)

// PastLead picks the pair for a block that executes as fast as the core dispatches: the shorter image's copies use up
// the front-end slack, as far as the op cache and the given bytes of L1I allow. ok is false if no pair fits.
func PastLead(insts []asm.Inst, fe FrontEnd, bytes int) (f Factors, ok bool) {
	size := length(insts)
	grid := mostGrid
	for grid > 1 && 3*grid*size > leadBetween*fe.OpCache.Window {
		grid /= 2
	}
	copies := func(windows int) int { // at least that many windows of copies, on the grid
		per := size * grid
		return (windows*fe.OpCache.Window + per - 1) / per * grid
	}
	between, most := copies(leadBetween), copies(fe.Lead.Windows)
	lines := fe.OpCache.ahead(insts)
	for short := grid; short <= most && (2*short+between)*size <= bytes; short += grid {
		long := short + between
		windows := (long*size + fe.OpCache.Window - 1) / fe.OpCache.Window
		inSet := (windows + fe.Lead.Sets - 1) / fe.Lead.Sets // in the fullest set
		ofAll := float64(lines.upTo(long)) / float64(fe.OpCache.Lines)
		ofSet := ofAll / float64(windows) * float64(inSet*fe.Lead.Sets)
		if ofSet <= leadShare || ofSet <= leadShareOfSet && ofAll <= leadShareOfAll {
			f, ok = Factors{short, long}, true
		}
	}
	return f, ok
}

// Served returns how many cycles per copy the op cache takes to deliver consecutive copies, without slack. It needs a
// core with known Lead.
func (fe FrontEnd) Served(insts []asm.Inst) float64 {
	const copies = 64 // after these, windows repeat alike
	lines := fe.OpCache.ahead(insts)
	windows := float64(copies*length(insts)) / float64(fe.OpCache.Window)
	return (fe.Lead.LineCycles*float64(lines.upTo(copies)) + fe.Lead.WindowCycles*windows) / copies
}

// Later returns the second half of the range between the two numbers of copies, for a block whose time per copy had
// not settled in the first. ok is false if the difference would be below 2 copies, or below 32 if Short is at least
// 32: a block of 2.61 cycles gave 3.19 with 48 and 64 copies.
func (f Factors) Later() (later Factors, ok bool) {
	later = Factors{(f.Short + f.Long) / 2, f.Long}
	least := 2
	if f.Short >= 32 {
		least = 32
	}
	return later, later.Long-later.Short >= least
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
	return fe.holdsLines(fe.OpCache.counter(insts).upTo(copies), copies*length(insts), opCacheShare)
}

func (fe FrontEnd) holdsLines(lines, bytes int, share float64) bool {
	return float64(lines) <= share*float64(fe.OpCache.Lines) &&
		float64(bytes) <= l1iShare*float64(fe.L1I)
}

// dense reports whether a window of these copies takes more than two lines on average.
func (c OpCache) dense(insts []asm.Inst) bool {
	return c.Window*len(insts) > 2*c.OpsPerLine*length(insts)
}

// lineCounter counts the op-cache lines of contiguous copies that start at a window's start, as copies are added.
type lineCounter struct {
	cache       OpCache
	insts       []asm.Inst
	copies      int  // so far
	most        bool // count the most lines that they may take (see ahead)
	full        int  // lines of the windows before the last
	window, ops int  // the last window, and the slots used in it
}

func (c OpCache) counter(insts []asm.Inst) *lineCounter {
	return &lineCounter{cache: c, insts: insts, window: -1}
}

// ahead counts for cores with a known Lead (Zen 5). There cmp and test of memory with an immediate take the time of
// two slots in a line, though not always beside other instructions. So it counts the most lines that copies may take.
func (c OpCache) ahead(insts []asm.Inst) *lineCounter {
	l := c.counter(insts)
	l.most = true
	return l
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
			if _, immediate := l.insts[i].Constant(); l.most && immediate && len(l.insts[i].Mem) > 0 {
				l.ops++
			}
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
