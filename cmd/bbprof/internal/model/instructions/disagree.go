package instructions

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"sync"
)

type Disagreement struct {
	*Measurement
	Form  string
	Model float64
}

func (d *Disagreement) Times() float64 {
	a, b := max(d.Cycles(), 0.01), max(d.Model, 0.01)
	return max(a/b, b/a)
}

func (m *Measurement) Title() string {
	title := "throughput"
	if m.Kind != Throughput {
		title = "latency " + m.Pair
	}
	if m.Mean != "" {
		title += ", a mean"
	}
	return title
}

// Blocks lists the distinct blocks to ask a model for: those of the compared numbers and of their bridges.
func Blocks(rows []Row) (list []string) {
	seen := map[string]bool{}
	for i := range rows {
		for _, m := range rows[i].judged() {
			modelCycles(m.Probe, func(block string) (float64, bool) {
				if !seen[block] {
					seen[block] = true
					list = append(list, block)
				}
				return 0, true
			})
		}
	}
	return list
}

func (r *Row) judged() []*Measurement {
	return slices.DeleteFunc([]*Measurement{r.Latency, r.Load, r.Throughput, r.Output}, func(m *Measurement) bool { return m == nil })
}

// Disagreements lists where a model is outside a number's interval by more than a share of it, the worst first. A number
// whose interval holds 0 is too uncertain. cycles are predictions by block; of several, the nearest counts for a latency
// through memory, since models can be told that loads wait for stores. judged counts the numbers.
func Disagreements(rows []Row, share float64, cycles ...map[string]float64) (list []Disagreement, judged int) {
	for i := range rows {
		for _, m := range rows[i].judged() {
			var models []float64
			for _, by := range cycles {
				v, ok := modelCycles(m.Probe, func(block string) (float64, bool) {
					v, ok := by[block]
					return v, ok && !math.IsNaN(v)
				})
				if ok {
					models = append(models, v)
				}
				if !ok || !m.throughMemory() {
					break
				}
			}
			if len(models) == 0 || m.Value.Low <= 0 {
				continue
			}
			judged++
			model := slices.MinFunc(models, func(a, b float64) int { return cmp.Compare(math.Abs(a-m.Cycles()), math.Abs(b-m.Cycles())) })
			if margin := share * m.Cycles(); model < m.Value.Low-margin || model > m.Value.High+margin {
				list = append(list, Disagreement{m, rows[i].Name, model})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Disagreement) int { return cmp.Compare(b.Times(), a.Times()) })
	return list, judged
}

// othersChain is a chain of putBack's two instructions, a probe's others.
var othersChain = sync.OnceValue(func() string {
	var code body
	code.putBack(int64(movedAddress), int64(baseRegister))
	return hex.EncodeToString(code.Code)
})

// modelCycles returns a model's number for a probe, with its own numbers for the bridges subtracted. It asks for every
// block, also if the first is unknown.
func modelCycles(p Probe, ask func(block string) (float64, bool)) (float64, bool) {
	v, known := ask(hex.EncodeToString(p.Code))
	if p.Others > 0 { // a cycle each as measured, but a model may take longer
		others, ok := ask(othersChain())
		v, known = v-others, known && ok
	}
	for _, b := range p.Bridges {
		bridge, ok := modelCycles(bridgeProbe(b), ask)
		v, known = v-bridge, known && ok
	}
	return v / float64(p.Links), known
}
