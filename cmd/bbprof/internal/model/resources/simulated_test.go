package resources

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// core is a simulated one: forms of micro-operations, each with the ports that can run it.
type core struct {
	width int
	ports int
	forms [][]uint // of each form: the ports of each micro-operation, as bits
	noise float64
	rand  *rand.Rand
}

// cycles is what an ideal scheduler takes: no group of ports can do more than one operation a port and cycle.
func (c *core) cycles(m Mix) float64 {
	n := 0.0
	load := map[uint]float64{}
	for _, p := range m {
		n += float64(p.N)
		for _, ports := range c.forms[p.Form] {
			load[ports] += float64(p.N)
		}
	}
	most := n / float64(c.width)
	for group := uint(1); group < 1<<c.ports; group++ {
		sum := 0.0
		for ports, n := range load {
			if ports&^group == 0 {
				sum += n
			}
		}
		most = max(most, sum/float64(bits.OnesCount(group)))
	}
	return most
}

func (c *core) time(_ context.Context, mixes []Mix) (times []Timing, err error) {
	for _, m := range mixes {
		t := c.cycles(m) * (1 + c.noise*c.rand.NormFloat64())
		times = append(times, Timing{Cycles: t, Low: t * 0.995, High: t * 1.005})
	}
	return times, nil
}

// drawn is a core whose ports are drawn at random: so many groups of ports, and forms of each group, some of two operations.
func drawn(seed uint64) (*core, []Form) {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &core{width: 5 + r.IntN(2), ports: 6 + r.IntN(3), noise: 0.002, rand: r}
	var groups []uint
	for range 5 + r.IntN(4) {
		g := uint(0)
		for range 1 + r.IntN(4) {
			g |= 1 << r.IntN(c.ports)
		}
		groups = append(groups, g)
	}
	var list []Form
	add := func(simple bool, ports ...uint) {
		list = append(list, Form{Name: fmt.Sprintf("f%d%b", len(list), ports), Simple: simple})
		c.forms = append(c.forms, ports)
	}
	for _, g := range groups {
		add(true, g)
		add(true, g)
	}
	for range 20 {
		add(false, groups[r.IntN(len(groups))], groups[r.IntN(len(groups))])
	}
	for i := range list {
		const many = 120
		list[i].Alone = c.cycles(Mix{{i, many}}) / many
	}
	return c, list
}

// TestDrawnPorts: on cores with ports drawn at random, the table tells how many units each form has and which forms
// share some, and predicts mixes.
func TestDrawnPorts(t *testing.T) {
	for seed := range uint64(12) {
		c, list := drawn(seed)
		table, err := Find(t.Context(), list, c.time, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range table.Resources {
			t.Logf("seed %d: %s: %v, %.2f a cycle", seed, r.Name, r.Kernel, r.PerCycle())
		}
		sum, worst, n := 0.0, 0.0, 300
		for range n {
			counts, mix := map[int]float64{}, Mix{}
			for range 2 + c.rand.IntN(11) {
				counts[c.rand.IntN(len(list))]++
			}
			for f, k := range counts {
				mix = append(mix, Part{f, int(k)})
			}
			want := c.cycles(mix)
			got, _ := table.Cycles(counts)
			off := math.Abs(got-want) / want
			if off > 0.3 {
				t.Logf("%v got %.2f want %.2f", mix, got, want)
				for _, p := range mix {
					t.Logf("   %s %b %v alone %.2f", list[p.Form].Name, c.forms[p.Form], table.Uses[p.Form], table.Forms[p.Form].Alone)
				}
			}
			sum, worst = sum+off, max(worst, off)
		}
		t.Logf("seed %d: %d ports, mean error %.1f %%, worst %.1f %%", seed, c.ports, 100*sum/float64(n), 100*worst)
		if sum/float64(n) > 0.03 {
			t.Errorf("seed %d: mean error %.1f %%", seed, 100*sum/float64(n))
		}
	}
}
