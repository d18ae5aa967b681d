package instructions

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"sync"
)

// A Disagreement is a number of a form that a model has otherwise.
type Disagreement struct {
	Row      *Row
	What     string // the pair of a latency, or throughput
	Measured Value
	Model    float64
	Block    string
	Code     []byte
	Flags    string // with which bbprof measures the block again
	Kind     Kind
}

// Times is by what factor the two differ, at least 1.
func (d *Disagreement) Times() float64 {
	a, b := max(d.Measured.Cycles, 0.01), max(d.Model, 0.01)
	return max(a/b, b/a)
}

// Blocks are those of the numbers that rows are judged by, with the bridges', each once: what a model is asked.
func Blocks(rows []Row) (list []string) {
	seen := map[string]bool{}
	add := func(code []byte) {
		if h := hex.EncodeToString(code); !seen[h] {
			seen[h] = true
			list = append(list, h)
		}
	}
	for i := range rows {
		for _, m := range rows[i].judged() {
			add(m.Code)
			if m.Others > 0 {
				add(othersChain())
			}
			for _, b := range m.Bridges {
				for probe := bridgeProbe(b); ; probe = bridgeProbe(probe.Bridges[0]) {
					add(probe.Code)
					if len(probe.Bridges) == 0 {
						break
					}
				}
			}
		}
	}
	return list
}

func (r *Row) judged() (list []*Measured) {
	for _, m := range []*Measured{r.Latency, r.Load, r.Throughput} {
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

// Disagreements are where a model is outside a number's interval by more than a share of it, the worst first.
// A number whose interval holds 0 is too uncertain to judge by. cycles has the model's prediction of each block that it
// knows; of several the nearest counts for a latency through memory: models can be told that loads wait for stores. judged is how many numbers of each kind there are.
func Disagreements(rows []Row, share float64, cycles ...map[string]float64) (list []Disagreement, judged map[Kind]int) {
	judged = map[Kind]int{}
	for i := range rows {
		for _, m := range rows[i].judged() {
			model, ok := predicted(m.Probe, cycles[0])
			if !ok || m.Value.Low <= 0 {
				continue
			}
			judged[m.kind()]++
			for _, other := range cycles[1:] {
				if v, ok := predicted(m.Probe, other); ok && m.kind() == StoreToLoad && math.Abs(v-m.Value.Cycles) < math.Abs(model-m.Value.Cycles) {
					model = v
				}
			}
			if m.outside(model, share) {
				list = append(list, Disagreement{&rows[i], m.title(), m.Value, model, m.Block, m.Code, m.Flags, m.kind()})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Disagreement) int { return cmp.Compare(b.Times(), a.Times()) })
	return list, judged
}

// outside reports whether a model's number is outside the interval by more than a share of the number.
func (m *Measured) outside(model, share float64) bool {
	margin := share * m.Value.Cycles
	return model < m.Value.Low-margin || model > m.Value.High+margin
}

// kind is the probe's, and StoreToLoad of a latency from memory to itself, which some models leave out.
func (m *Measured) kind() Kind {
	if m.Kind == Latency && strings.HasSuffix(m.Pair, "to m") {
		return StoreToLoad
	}
	return m.Kind
}

func (m *Measured) title() string {
	title := "throughput"
	if m.Kind != Throughput {
		title = "latency " + m.Pair
	}
	if m.Mean != "" {
		title += ", a mean"
	}
	return title
}

// othersChain is a chain of the two instructions that put a value back: the others of a probe.
var othersChain = sync.OnceValue(func() []byte {
	var code body
	code.putBack(int64(movedAddress), int64(baseRegister))
	return code.code
})

// predicted is what a model says of a probe: as measured, less what it says of the bridges.
func predicted(p Probe, cycles map[string]float64) (float64, bool) {
	v, ok := cycles[hex.EncodeToString(p.Code)]
	if !ok || math.IsNaN(v) {
		return 0, false
	}
	if p.Others > 0 { // measured to be a cycle each, but a model may take longer
		others, ok := cycles[hex.EncodeToString(othersChain())]
		if !ok {
			return 0, false
		}
		v -= others
	}
	for _, b := range p.Bridges {
		bridge, ok := predicted(bridgeProbe(b), cycles)
		if !ok {
			return 0, false
		}
		v -= bridge
	}
	return v / float64(p.Links), true
}
