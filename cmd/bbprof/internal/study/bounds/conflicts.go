package bounds

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/profiler"
)

// Conflicts says which classes of work a core executes in the same units.
type Conflicts struct {
	CPU     string    `json:"cpu"`
	Probes  []string  `json:"probes"` // what was asked with: Probes
	Classes []string  `json:"classes"`
	Cycles  []float64 `json:"cycles"` // that one instruction of the class takes among its like
	// Shared is by how much two classes are in each other's way: 0 if together they take as long as the one
	// alone that takes longer, 1 if they take the sum.
	Shared [][]float64 `json:"shared"`
}

// Probes are the instructions that stand for the classes of work.
func Probes() (texts []string) {
	for _, p := range classes {
		texts = append(texts, p.text)
	}
	return texts
}

// together is how long each class runs alone, in cycles, in a measurement of two.
const together = 12

// MeasureConflicts measures each class alone and beside each other one.
func MeasureConflicts(ctx context.Context, p measure.Profiler) (c Conflicts, err error) {
	c.Probes = Probes()
	q := &question{ctx: ctx, p: p, room: room{scratch: 15, fixed: int(asm.RSP), vector: 15, still: 13, disp: displacements[0]}}
	cost := func(add [][]byte) (float64, error) {
		r, err := measure.Undisturbed(ctx, p, profiler.Block{Code: join(add...)})
		switch {
		case err != nil:
			return 0, err
		case r.Status == profiler.Failed:
			return 0, fmt.Errorf("measuring classes of work: %s", r.Failure)
		case r.Host != nil:
			c.CPU = CPUOf(r.Host.CPU.Brand, r.Host.CPU.Microarchitecture)
		}
		return r.Cycles, nil // 0 of a rejected one
	}
	const many = 48
	slot := 0.0 // cycles of as many slots
	for _, p := range slots {
		t, err := cost(several(p, q.room, many))
		if err != nil {
			return c, err
		}
		slot = max(slot, t)
	}
	var measured []probe
	for _, p := range classes {
		if p.code(q.room, 0) == nil {
			continue // it repeats an access of a block
		}
		t, err := cost(several(p, q.room, many))
		if err != nil {
			return c, err
		}
		if t > 0 {
			measured, c.Classes, c.Cycles = append(measured, p), append(c.Classes, p.name), append(c.Cycles, t/many)
		}
	}
	c.Shared = make([][]float64, len(measured))
	for i := range measured {
		c.Shared[i] = make([]float64, len(measured))
		c.Shared[i][i] = 1
	}
	for i, a := range measured {
		for j, b := range measured[:i] {
			na, nb := times(c.Cycles[i]), times(c.Cycles[j])
			t, err := cost(interleaved(several(a, q.room, na), several(b, q.room, nb)))
			if err != nil {
				return c, err
			}
			ta, tb := float64(na)*c.Cycles[i], float64(nb)*c.Cycles[j]
			apart := max(ta, tb, float64(na+nb)*slot/many)
			if shared := (t - apart) / (ta + tb - apart); t > 0 && ta+tb-apart > 1 {
				c.Shared[i][j] = math.Round(100*min(1, max(0, shared))) / 100
				c.Shared[j][i] = c.Shared[i][j]
			}
		}
	}
	return c, nil
}

func times(cycles float64) int { return max(1, int(math.Round(together/cycles))) }

func several(p probe, r room, n int) (all [][]byte) {
	for i := range n {
		all = append(all, p.code(r, i))
	}
	return all
}

// interleaved spreads the second evenly among the first.
func interleaved(a, b [][]byte) (all [][]byte) {
	done := 0
	for i, code := range a {
		all = append(all, code)
		for ; done < len(b)*(i+1)/len(a); done++ {
			all = append(all, b[done])
		}
	}
	return all
}

// conflicting is the share from which on two classes count as one.
const conflicting = 0.9

// Groups are the classes of work that the core tells apart, each by the names of its probes.
func (c Conflicts) Groups() (groups [][]string) {
	done := make([]bool, len(c.Classes))
	for i := range c.Classes {
		if done[i] {
			continue
		}
		group := []int{i}
		done[i] = true
		for k := 0; k < len(group); k++ {
			for j := range c.Classes {
				if !done[j] && c.Shared[group[k]][j] >= conflicting {
					group, done[j] = append(group, j), true
				}
			}
		}
		var names []string
		for _, k := range group {
			names = append(names, c.Classes[k])
		}
		groups = append(groups, names)
	}
	return groups
}

// String is the table of conflicts.
func (c Conflicts) String() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%-17s%8s ", "class", "cycles")
	for i := range c.Classes {
		fmt.Fprintf(&w, "%5d", i+1)
	}
	w.WriteString("\n")
	for i, name := range c.Classes {
		fmt.Fprintf(&w, "%-17s%8.3f ", fmt.Sprintf("%d %s", i+1, name), c.Cycles[i])
		for j := range i {
			fmt.Fprintf(&w, "%5.2f", c.Shared[i][j])
		}
		w.WriteString("\n")
	}
	return w.String()
}

// CPUOf names a CPU by its brand and its kind of core; hypervisors give brands that tell nothing.
func CPUOf(brand, core string) string { return strings.TrimSpace(brand) + ", " + core }
