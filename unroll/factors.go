// Package unroll decides how often a block is repeated, and derives the throughput from the times
// of two code images.
//
// A block's time is the difference between the times of a longer and a shorter image, divided by the
// difference of their copies, so that what runs before and after the copies cancels out (BHive,
// IISWC 2019, Equation 2). [Choose] picks the two numbers of copies: the more, the narrower the
// interval, as long as both images stay in the op cache and in L1I of a [FrontEnd]. [Throughput] is
// the quotient. [ChooseLoop] and [ChooseShortLoop] pick the numbers for a counted loop over copies.
//
// The package is pure: no operating system, no clock. It does not make the images.
package unroll

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Factors are the two numbers of copies that are timed, the paper's u and u', u < u'. A Short of 0 is the paper's
// Equation 1: the longer image alone, with what its start and its end take.
type Factors struct {
	Short, Long int
}

func (f Factors) String() string { return fmt.Sprintf("%d,%d", f.Short, f.Long) }

// BHive is how often BHive's harness repeats a block of so many bytes, by the list of blocks that may alias, to which these
// numbers are fitted, and half as often.
func BHive(size int) *Factors {
	long := 10
	for _, step := range [...]struct{ below, copies int }{{900, 16}, {300, 25}, {200, 50}, {100, 100}} {
		if size < step.below {
			long = step.copies
		}
	}
	return &Factors{long / 2, long}
}

// FrontEnd is what of a core's front end limits the number of copies.
type FrontEnd struct {
	L1I     int     `json:"l1i_bytes"`
	OpCache OpCache `json:"op_cache"`
	Lead    Lead    `json:"lead,omitzero"`
}

// OpCache is the geometry of a decoded-instruction cache. A window of Window bytes of code
// takes one line for every OpsPerLine instructions that start in it. A core without one, whose
// decoders serve all code, has the zero value, and L1I alone limits its copies.
type OpCache struct {
	Lines      int `json:"lines"`
	OpsPerLine int `json:"ops_per_line"`
	Window     int `json:"window_bytes"`
}

// Lead says of a core how long the front end's head start lasts, and how fast it serves after that: it works ahead while
// the core waits for what is put back before the first copy. The zero value is not known.
type Lead struct {
	Windows int `json:"windows"` // of a fast block's code that run before the head start is used up
	Sets    int `json:"sets"`    // of the op cache, each of which holds every Sets-th window
	// A window takes WindowCycles and LineCycles for each of its lines.
	WindowCycles float64 `json:"window_cycles"`
	LineCycles   float64 `json:"line_cycles"`
	// DecodersSlower is the factor by which the time of a copy grows at least where the decoders serve it.
	DecodersSlower float64 `json:"decoders_slower"`
}

// pairs is the grid that factors are taken from, ascending. It is coarse and fixed, so that
// two runs choose alike, and from 16,48 on the two lengths differ by a multiple of 32 copies:
// then the code after the last copy has the same offset in its cache line, whatever the
// block's length, and costs the same in both images.
var pairs = [...]Factors{
	{1, 3}, {2, 6}, {2, 10}, {4, 12}, {4, 20}, {8, 24}, {8, 40}, {16, 48},
	{16, 80}, {32, 96}, {32, 128}, {32, 160}, {64, 192}, {64, 256}, {64, 320}, {128, 384}, {128, 512},
}

// fewPairs are for blocks of at most fewInstructions, if a large op cache holds them. The first copies
// execute or retire faster than later ones are renamed: on Redwood Cove up to 300 instructions that need no execution take 1/8 cycle
// each instead of 1/6, and moves are steady only from some 700 on.
var fewPairs = [...]Factors{{128, 320}, {128, 384}, {256, 512}}

// shortPairs are for those of them whose instructions have at most shortBytes on average: the more copies the two images
// differ by, the narrower the interval. add r64, imm8 has 4 bytes. Redwood Cove adds small constants at rename and stalls once, for 6 to
// 20 cycles, when their sum reaches 4,096: add rsp, 8 after 512 copies.
var shortPairs = [...]Factors{{256, 640}, {256, 768}}

const (
	fewInstructions = 3
	shortBytes      = 3
	largeOpCache    = 4096 // operations
	// fewShare is opCacheShare for them, and for dense code: 34 windows of three lines. Beyond that, some code of three lines a window
	// leaves Redwood Cove's op cache for the decoders, in loops as in a row (docs/method.md, "How many copies").
	fewShare = 0.20
)

// densePairs are for dense code, if that share of a large op cache holds one of them; longer blocks get one of pairs. The
// shorter image should be long, because on Redwood Cove the first 500 to 1,000 instructions take another time than the
// rest; but the difference must not become too small for the clock. The first three are
// for blocks of 23 to 45 bytes, whose 96 copies leave Redwood Cove's op cache.
var densePairs = [...]Factors{{16, 48}, {32, 64}, {48, 80}, {32, 96}, {64, 128}, {64, 160}, {64, 192}, {96, 224}, {128, 256}, {128, 320}}

// Shares of the front end that the longer image may take. The shorter one, the sampler and
// the calibration chains need the rest: straight-line code that misses the op cache once
// runs from the decoders until its end. On Skylake images of up to about 30 % kept the speed
// of a hot loop and larger ones did not (docs/method.md, "How many copies").
const (
	opCacheShare = 0.30
	l1iShare     = 0.5
)

// Choose picks the largest pair whose images fit the front end. When not even the smallest
// fits the op cache, that one is taken and fits is false. A block of which the smallest pair
// exceeds L1I is rejected.
func Choose(insts []asm.Inst, fe FrontEnd) (f Factors, fits bool, err error) {
	f = pairs[0]
	if size := length(insts) * (f.Short + f.Long); size > fe.L1I {
		return f, false, &verdict.Rejection{
			Reason: verdict.CodeExceedsL1I,
			Detail: fmt.Sprintf("%d copies of %d bytes are needed and L1I holds %d bytes", f.Short+f.Long, length(insts), fe.L1I),
		}
	}
	large := fe.OpCache.Lines*fe.OpCache.OpsPerLine >= largeOpCache
	short := len(insts) <= fewInstructions && large
	share := opCacheShare
	if short {
		share = fewShare
	}
	if p, ok := fe.largest(pairs[:], insts, share); ok {
		f, fits = p, true
	}
	if large && fe.OpCache.dense(insts) {
		if p, ok := fe.largest(densePairs[:], insts, fewShare); ok {
			f = p
		}
	}
	if !short {
		return f, fits, nil
	}
	few := fewPairs[:]
	if length(insts) <= shortBytes*len(insts) {
		few = append(few, shortPairs[:]...)
	}
	if p, ok := fe.largest(few, insts, share); ok {
		f = p
	}
	return f, fits, nil
}

// largest is the last of these pairs, the smaller ones first, whose longer image the front end holds; ok is false if it holds none.
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
	// leadBetween is by how many windows of the op cache the two images differ that PastLead chooses, as a rule, and mostGrid of what
	// their numbers of copies are multiples (see pairs), unless so many copies are longer than a third of that.
	leadBetween = 48
	mostGrid    = 32
	// leadShare is opCacheShare for them, of each set of the op cache. On Zen 5 images of 192 windows of four
	// lines, three quarters of the op cache, had the speed of loops, and 1-byte nops left it for the decoders once a set had to hold two
	// windows of eleven lines. Sets may have leadShareOfSet where all together have leadShareOfAll: images of 174 windows of five lines had the
	// speed of loops, too, and of 190 some left (docs/constants.md).
	leadShare      = 0.75
	leadShareOfSet = 0.95
	leadShareOfAll = 0.85
)

// PastLead picks the pair for a block that executes as fast as the core dispatches: the shorter image's copies use up the front end's lead,
// or as much of it as the op cache and so many bytes of L1I allow. It is not ok where these hold no pair.
func PastLead(insts []asm.Inst, fe FrontEnd, bytes int) (f Factors, ok bool) {
	size := length(insts)
	grid := mostGrid
	for grid > 1 && 3*grid*size > leadBetween*fe.OpCache.Window {
		grid /= 2
	}
	copies := func(windows int) int { // that take so many at least, on the grid
		per := size * grid
		return (windows*fe.OpCache.Window + per - 1) / per * grid
	}
	between, most := copies(leadBetween), copies(fe.Lead.Windows)
	lines := fe.OpCache.ahead(insts)
	for short := grid; short <= most && (2*short+between)*size <= bytes; short += grid {
		long := short + between
		windows := (long*size + fe.OpCache.Window - 1) / fe.OpCache.Window
		inSet := (windows + fe.Lead.Sets - 1) / fe.Lead.Sets // of the set that has most
		ofAll := float64(lines.upTo(long)) / float64(fe.OpCache.Lines)
		ofSet := ofAll / float64(windows) * float64(inSet*fe.Lead.Sets)
		if ofSet <= leadShare || ofSet <= leadShareOfSet && ofAll <= leadShareOfAll {
			f, ok = Factors{short, long}, true
		}
	}
	return f, ok
}

// Served is how many cycles a copy may take that the op cache serves one after the other, without a lead. It is for cores of which the
// lead is known.
func (fe FrontEnd) Served(insts []asm.Inst) float64 {
	const copies = 64 // of which the next ones meet the windows alike
	lines := fe.OpCache.ahead(insts)
	windows := float64(copies*length(insts)) / float64(fe.OpCache.Window)
	return (fe.Lead.LineCycles*float64(lines.upTo(copies)) + fe.Lead.WindowCycles*windows) / copies
}

// Later is the second half of what lies between the two numbers of copies, for a block whose time per copy
// has not settled in the first; ok is false where less than 2 copies would remain, or, of 32 and more that were ahead, less than 32: of
// a block that takes 2.61 cycles 48 and 64 copies gave 3.19.
func (f Factors) Later() (later Factors, ok bool) {
	later = Factors{(f.Short + f.Long) / 2, f.Long}
	least := 2
	if f.Short >= 32 {
		least = 32
	}
	return later, later.Long-later.Short >= least
}

// Smaller is the next smaller pair of the grid, if there is one.
func (f Factors) Smaller() (Factors, bool) {
	return f.Within(f.Long - 1)
}

// Within is the largest pair of the grid with no more copies than that, if it is smaller
// than f.
func (f Factors) Within(copies int) (Factors, bool) {
	for i := len(pairs) - 1; i >= 0; i-- {
		if pairs[i].Long <= copies && pairs[i].Long < f.Long {
			return pairs[i], true
		}
	}
	return f, false
}

// Few is Within for a block that can have no more copies than these, however few: down to 1 and 2.
func (f Factors) Few(copies int) (Factors, bool) {
	if fewer, ok := f.Within(copies); ok {
		return fewer, true
	}
	least := Factors{1, 2}
	return least, copies >= least.Long && f.Long > least.Long
}

// AtMost is the largest pair with no more copies than that, or the smallest there is.
func (f Factors) AtMost(copies int) Factors {
	if fewer, ok := f.Within(copies); ok {
		return fewer
	}
	return pairs[0]
}

func (fe FrontEnd) holds(insts []asm.Inst, copies int) bool {
	return fe.holdsLines(fe.OpCache.linesOf(insts, copies), copies*length(insts), opCacheShare)
}

func (fe FrontEnd) holdsLines(lines, bytes int, share float64) bool {
	return float64(lines) <= share*float64(fe.OpCache.Lines) &&
		float64(bytes) <= l1iShare*float64(fe.L1I)
}

// linesOf counts the op-cache lines of contiguous copies that start at a window's start.
func (c OpCache) linesOf(insts []asm.Inst, copies int) int {
	return c.counter(insts).upTo(copies)
}

// dense is whether a window of these copies takes more than two lines on average.
func (c OpCache) dense(insts []asm.Inst) bool {
	return c.Window*len(insts) > 2*c.OpsPerLine*length(insts)
}

// lineCounter counts the lines of more and more copies.
type lineCounter struct {
	cache       OpCache
	insts       []asm.Inst
	copies      int  // so far
	most        bool // counts the most lines that they may take (see ahead)
	full        int  // lines of the windows before the last
	window, ops int  // the last window, and the places in a line of what starts in it
}

func (c OpCache) counter(insts []asm.Inst) *lineCounter {
	return &lineCounter{cache: c, insts: insts, window: -1}
}

// ahead counts for cores whose front-end slack is known (Zen 5). There cmp and test of memory with an immediate take the time that they would
// take with two places each in a line; beside other instructions not always. So this counts the most lines that copies may take.
func (c OpCache) ahead(insts []asm.Inst) *lineCounter {
	l := c.counter(insts)
	l.most = true
	return l
}

// upTo is how many lines so many copies take, no fewer than were asked for before; none where there is no op cache.
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
			if l.most && len(l.insts[i].Mem) > 0 && l.insts[i].Immediate() {
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

// Throughput is (cycles(u') − cycles(u)) / (u' − u), in cycles per iteration, or cycles(u') / u' where u is 0;
// likewise of other events.
func Throughput(short, long float64, f Factors) float64 {
	if f.Short == 0 {
		return long / float64(f.Long)
	}
	return (long - short) / float64(f.Long-f.Short)
}
