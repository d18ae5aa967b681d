package instructions

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"sync"
)

// A Disagreement is a number on which a model differs.
type Disagreement struct {
	Row      *Row
	What     string // the latency's pair, or throughput
	Measured Value
	Model    float64
	Block    string
	Code     []byte
	Flags    string // for measuring the block again
	Kind     Kind
}

// Times returns their ratio, at least 1.
func (d *Disagreement) Times() float64 {
	a, b := max(d.Measured.Cycles, 0.01), max(d.Model, 0.01)
	return max(a/b, b/a)
}

// Blocks lists the distinct blocks to ask a model for: those of the compared numbers and of their bridges.
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

func (r *Row) judged() (list []*Measurement) {
	for _, m := range []*Measurement{r.Latency, r.Load, r.Throughput} {
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

// Disagreements lists where a model is outside a number's interval by more than a share of it, the worst first. A number
// whose interval holds 0 is too uncertain. cycles are predictions by block; of several, the nearest counts for a latency
// through memory, since models can be told that loads wait for stores. judged counts the numbers of each kind.
func Disagreements(rows []Row, share float64, cycles ...map[string]float64) (list []Disagreement, judged map[Kind]int) {
	judged = map[Kind]int{}
	for i := range rows {
		for _, m := range rows[i].judged() {
			model, ok := modelCycles(m.Probe, cycles[0])
			if !ok || m.Value.Low <= 0 {
				continue
			}
			judged[m.kind()]++
			for _, other := range cycles[1:] {
				if v, ok := modelCycles(m.Probe, other); ok && m.kind() == StoreToLoad && math.Abs(v-m.Value.Cycles) < math.Abs(model-m.Value.Cycles) {
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

// outside reports whether a model is outside the interval by more than a share of the number.
func (m *Measurement) outside(model, share float64) bool {
	margin := share * m.Value.Cycles
	return model < m.Value.Low-margin || model > m.Value.High+margin
}

// kind is the probe's, but StoreToLoad for memory to itself, which some models omit.
func (m *Measurement) kind() Kind {
	if m.Kind == Latency && strings.HasSuffix(m.Pair, "to m") {
		return StoreToLoad
	}
	return m.Kind
}

func (m *Measurement) title() string {
	title := "throughput"
	if m.Kind != Throughput {
		title = "latency " + m.Pair
	}
	if m.Mean != "" {
		title += ", a mean"
	}
	return title
}

// othersChain is a chain of putBack's two instructions, a probe's others.
var othersChain = sync.OnceValue(func() []byte {
	var code body
	code.putBack(int64(movedAddress), int64(baseRegister))
	return code.Code
})

// modelCycles returns a model's number for a probe, with its own number for the bridges subtracted.
func modelCycles(p Probe, cycles map[string]float64) (float64, bool) {
	v, ok := cycles[hex.EncodeToString(p.Code)]
	if !ok || math.IsNaN(v) {
		return 0, false
	}
	if p.Others > 0 { // a cycle each as measured, but a model may take longer
		others, ok := cycles[hex.EncodeToString(othersChain())]
		if !ok {
			return 0, false
		}
		v -= others
	}
	for _, b := range p.Bridges {
		bridge, ok := modelCycles(bridgeProbe(b), cycles)
		if !ok {
			return 0, false
		}
		v -= bridge
	}
	return v / float64(p.Links), true
}
