package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type sample struct{ text, hex string }

// set has the kinds of blocks that corpora consist of: dependent chains, throughput of several units,
// loads, stores, and a mixture. All touch at most two pages.
var set = [...]sample{
	{"add rax, rax", "4801c0"},
	{"six adds side by side", "4801c04801c94801d24801f64801ff4d01c0"},
	{"imul rax, rax", "480fafc0"},
	{"mov rax, [rax]", "488b00"},
	{"load, multiply, add", "488b03480fafc14801c2"},
	{"store, and load from another line", "48890b488b5340"},
	{"mulps and addps side by side", "0f59c00f58c9"},
	{"lea, cmp, setcc, shift", "488d040b4839d00f92c148c1e203"},
}

// Repeat is a block measured twice, in two children with a calibration each. Cycles are core cycles per
// iteration, 0 if it was not measured.
type Repeat struct {
	Text   string     `json:"text"`
	Hex    string     `json:"hex"`
	Cycles [2]float64 `json:"cycles"`
	Half   [2]float64 `json:"half_intervals"`
	Why    string     `json:"why,omitempty"` // why it was not measured both times
}

func (b Repeat) measured() bool { return b.Cycles[0] > 0 && b.Cycles[1] > 0 }

// Precision is the precision to expect on this host, relative to a block's cycles.
type Precision struct {
	Blocks   []Repeat `json:"blocks"`
	Measured int      `json:"measured"` // of the blocks, both times
	// Half the width of the larger 95 % interval, and the difference between the two measurements.
	HalfMedian  float64 `json:"half_interval_median"`
	HalfMax     float64 `json:"half_interval_max"`
	ApartMedian float64 `json:"apart_median"`
	ApartMax    float64 `json:"apart_max"`
}

// repeat measures the set twice, each time with a new child and a new calibration. missing says why this host
// cannot measure; a block measured only once does not count.
func (x *exam) repeat() (blocks []Repeat, missing *verdict.HostError, err error) {
	for _, s := range set {
		blocks = append(blocks, Repeat{Text: s.text, Hex: s.hex})
	}
	noise := true // is all that spoilt measurements
	for i := range 2 {
		err := x.with(x.opts, func(p pool.Profiler) error {
			for j := range blocks {
				b := &blocks[j]
				r, err := x.measure(p, b.Hex)
				if err != nil {
					return err
				}
				if not := why(r); not != "" {
					b.Why = cmp.Or(b.Why, not)
					noise = noise && r.Rejection != nil && r.Rejection.Reason.Noise()
				} else {
					b.Cycles[i], b.Half[i] = r.Cycles, (r.CIHigh-r.CILow)/2
				}
			}
			return nil
		})
		if missing, err = hostError(err); err != nil {
			return nil, nil, err
		}
		if missing != nil {
			break
		}
	}
	switch {
	case slices.ContainsFunc(blocks, Repeat.measured):
		missing = nil // in the second pass it means that the core is shared at times
	case missing == nil:
		missing = &verdict.HostError{
			Missing: fmt.Sprintf("none of %d blocks was measured twice, the first since: %s", len(blocks), blocks[0].Why),
			Remedy:  "choose another CPU with -cpus, give more time with -budget, or keep other work off this core",
			Busy:    noise,
		}
	}
	return blocks, missing, nil
}

func why(r profiler.Result) string {
	switch {
	case r.Rejection != nil:
		return r.Rejection.Error()
	case r.Status != profiler.OK:
		return "internal failure: " + r.Failure
	}
	return ""
}

func precisionOf(blocks []Repeat) *Precision {
	p := &Precision{Blocks: blocks}
	var half, apart []float64
	for _, b := range blocks {
		if b.measured() {
			half = append(half, max(b.Half[0]/b.Cycles[0], b.Half[1]/b.Cycles[1]))
			apart = append(apart, 2*math.Abs(b.Cycles[0]-b.Cycles[1])/(b.Cycles[0]+b.Cycles[1]))
		}
	}
	if p.Measured = len(half); p.Measured > 0 {
		p.HalfMedian, p.HalfMax = stat.Median(half), slices.Max(half)
		p.ApartMedian, p.ApartMax = stat.Median(apart), slices.Max(apart)
	}
	return p
}
