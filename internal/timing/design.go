package timing

import "fmt"

// A block's time may depend on its layout: where its copies stand in their cache lines and fetch
// windows (the place), and where they meet the rename groups (the dispatch offset). A block is
// therefore timed in a fixed design of layouts, the same in every run of bbprof, and its cycles are
// the mean over them. Only then is the mean the same quantity in every run.
const (
	// Places are the starts of the first copy in its cache line, 0, 16, 32 and 48: 16 bytes are what
	// decoders fetch, and 32 or 64 what a line of the op cache holds.
	Places = 4
	// DispatchOffsets are as many as macro-operations that most cores dispatch in a cycle.
	DispatchOffsets = 6
	Layouts         = Places * DispatchOffsets

	// PlaceBytes is how far one place is from the next.
	PlaceBytes = 16
)

// Layout is one of the design's: a place and a dispatch offset.
type Layout int

// LayoutOf numbers layouts.
func LayoutOf(place, offset int) Layout { return Layout(place*DispatchOffsets + offset) }

// Place is the start of the first copy in its line, in PlaceBytes.
func (l Layout) Place() int { return int(l) / DispatchOffsets }

// Offset is the dispatch offset.
func (l Layout) Offset() int { return int(l) % DispatchOffsets }

func (l Layout) String() string {
	return fmt.Sprintf("%d (byte %d of a line, dispatch offset %d)", int(l), l.Place()*PlaceBytes, l.Offset())
}

// Replicates take the design in passes of four, one at each place with half of the dispatch offsets, and in the next
// pass with the other half. So a pass is balanced in both, and two passes are the whole design.
const (
	passReplicates = Places
	passWindows    = Layouts / 2
)

// firstHalf are the dispatch offsets of the first of two passes, by place. Two blocks in five are timed in one pass, so it has
// layouts of either speed, and about as many of each, whatever decides between two: the offset, the place, and their sum
// or difference, modulo 2 to 6. With the even offsets at even places and the odd ones at odd places, blocks whose speed
// followed the parity of the sum had one speed in a pass, and mostly the other was not seen (docs/constants.md,
// "Half of a design").
var firstHalf = [Places][DispatchOffsets]bool{
	{0: true, 1: true, 3: true},
	{3: true, 4: true, 5: true},
	{0: true, 1: true, 2: true},
	{2: true, 4: true, 5: true},
}

// layouts are those of the windows of replicate n.
func (p Plan) layouts(n int) (all []Layout) {
	if p.At != nil {
		return []Layout{*p.At, *p.At, *p.At}
	}
	place := p.PlaceOf(n)
	first := n/Places%2 == 0
	for offset, of := range firstHalf[n%Places] {
		if of == first {
			all = append(all, LayoutOf(place, offset))
		}
	}
	return all
}

// PlaceOf is the place of replicate n.
func (p Plan) PlaceOf(n int) int {
	switch {
	case p.At != nil:
		return p.At.Place()
	case p.OnePlace:
		return 0
	}
	return n % Places
}

// Window is a window's cycles per iteration and where they were measured.
type Window struct {
	Layout    Layout
	Replicate int
	Cycles    float64
}

// PerIteration are the cycles of some windows.
func PerIteration(windows []Window) (cycles []float64) {
	for _, w := range windows {
		cycles = append(cycles, w.Cycles)
	}
	return cycles
}
