package unroll

import (
	"math"
	"testing"
)

// simulatedCore is a core by the rules that made rows untrue: straight code leaves the op cache after some windows and stays on slow decoders up to the
// next taken branch, and the front end has worked ahead when an image starts.
type simulatedCore struct {
	width  float64 // renamed a cycle
	stays  int     // windows of 64 bytes until the op cache is left
	decode float64 // bytes a cycle from the decoders
	slack  float64 // cycles that the first copies save
}

// image returns the cycles of turns of copies of a block with these instructions and bytes, each turn but the last closed by a taken branch.
func (c simulatedCore) image(insts, bytes, copies, turns int) float64 {
	hot := float64(copies * insts)
	late := max(0, copies*bytes-64*c.stays)
	turn := math.Ceil((hot + 1) / c.width) // a taken branch ends a rename group
	if late > 0 {
		share := float64(late) / float64(copies*bytes)
		turn = math.Ceil(((1-share)*hot+1)/c.width) + float64(late)/math.Min(c.decode, c.width*float64(bytes)/float64(insts))
	}
	return 40 + float64(turns)*turn - c.slack
}

// TestHotByDesign: on such a core loops give what a hot loop takes, whatever the block, and rows of copies do not.
func TestHotByDesign(t *testing.T) {
	core := simulatedCore{width: 6, stays: 15, decode: 16, slack: 25}
	fe := FrontEnd{L1I: 32 << 10, OpCache: OpCache{Lines: 512, OpsPerLine: 8, Window: 64}}
	untrue := 0
	for n := 1; n <= 16; n++ {
		insts := repeat(t, n, nop4...)
		bytes, truth := length(insts), float64(n)/core.width
		l, fits := ChooseLoop(insts, fe, int(core.width), false)
		loop := Throughput(core.image(n, bytes, l.Bodies.Short, l.Turns.Short), core.image(n, bytes, l.Bodies.Long, l.Turns.Long), l.Iterations())
		if math.Abs(loop-truth) > 0.005*truth || !fits {
			t.Errorf("%d instructions: the loop takes %.4f cycles, want %.4f (%v)", n, loop, truth, l)
		}
		f, _ := choose(t, insts, fe)
		if row := Throughput(core.image(n, bytes, f.Short, 1), core.image(n, bytes, f.Long, 1), f); math.Abs(row-truth) > 0.02*truth {
			untrue++
		}
	}
	if untrue < 8 {
		t.Errorf("%d of 16 rows are untrue: the core has none of the faults that loops avoid", untrue)
	}
}
