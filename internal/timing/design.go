package timing

import "fmt"

// A block's time may depend on its layout: on the position of its copies in cache lines and fetch
// blocks (the place), and on their alignment with the rename groups (the dispatch offset, or rename
// phase). A block is therefore timed in a fixed design of layouts, the same in every run of bbprof.
// Its cycles are the mean over them, so that the mean is the same quantity in every run.
const (
	// Places is the number of starts of the first copy in its cache line: bytes 0, 16, 32 and 48.
	// Decoders fetch 16 bytes, and a line of the op cache covers 32 or 64.
	Places = 4
	// DispatchOffsets is the number of macro-operations that most cores rename in a cycle.
	DispatchOffsets = 6
	Layouts         = Places * DispatchOffsets

	// PlaceBytes is the distance between two places.
	PlaceBytes = 16
)

type Layout int

func LayoutOf(place, offset int) Layout { return Layout(place*DispatchOffsets + offset) }

// Place returns the start of the first copy in its line, in PlaceBytes.
func (l Layout) Place() int { return int(l) / DispatchOffsets }

func (l Layout) Offset() int { return int(l) % DispatchOffsets }

func (l Layout) String() string {
	return fmt.Sprintf("%d (byte %d of a line, rename phase %d)", int(l), l.Place()*PlaceBytes, l.Offset())
}

// A pass has four replicates, one at each place, with half of the dispatch offsets; the next pass has the other half.
// So each pass is balanced in both, and two passes complete the design.
const (
	passReplicates = Places
	passWindows    = Layouts / 2
)

// firstHalf marks the dispatch offsets of the first of two passes, by place. Two blocks in five are timed in one pass
// only. So the half samples both of two modes about equally if the offset, the place, their sum or their difference,
// modulo 2 to 6, selects the mode. With even offsets at even places and odd ones at odd places, blocks whose mode
// followed the parity of the sum showed one mode in a pass, and the other was mostly missed.
var firstHalf = [Places][DispatchOffsets]bool{
	{0: true, 1: true, 3: true},
	{3: true, 4: true, 5: true},
	{0: true, 1: true, 2: true},
	{2: true, 4: true, 5: true},
}

// layouts lists the layouts of the windows of replicate n.
func (p Plan) layouts(n int) (all []Layout) {
	if p.Layout != nil {
		return []Layout{*p.Layout, *p.Layout, *p.Layout}
	}
	place := p.PlaceOf(n)
	first := n/Places%2 == 0
	for offset, inFirst := range firstHalf[n%Places] {
		if inFirst == first {
			all = append(all, LayoutOf(place, offset))
		}
	}
	return all
}

// PlaceOf returns the place of replicate n.
func (p Plan) PlaceOf(n int) int {
	switch {
	case p.Layout != nil:
		return p.Layout.Place()
	case p.OnePlace:
		return 0
	}
	return n % Places
}

// Window holds the cycles per iteration of one window and where they were measured.
type Window struct {
	Layout    Layout
	Replicate int
	Cycles    float64
	Around    float64 // cycles of the shorter image beside its iterations, if all iterations take Cycles
	Short     float64 // cycles of the shorter image
}

// PerIteration lists the cycles of windows.
func PerIteration(windows []Window) (cycles []float64) {
	for _, w := range windows {
		cycles = append(cycles, w.Cycles)
	}
	return cycles
}
