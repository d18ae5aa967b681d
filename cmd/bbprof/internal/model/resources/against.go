package resources

import (
	"cmp"
	"math"
	"slices"
)

// Question asks a model for a use: the kernel alone, and with instructions of a form.
type Question struct {
	Form, Resource int // indices in the table
	Kernel, With   []Copies
	N              int // added instructions
}

// Questions returns the measured uses of some forms, by index in the table.
func (t *Table) Questions(forms []int) (list []Question) {
	for _, i := range forms {
		form := &t.Forms[i]
		n := 1
		if form.Alone > 0 {
			n = max(1, min(6, int(math.Round(addedCycles/form.Alone))))
		}
		for r, resource := range t.Resources {
			if form.Uses[r].Why != "" || resource.Cycles <= 0 || resource.Late {
				continue
			}
			// Models may be slower than the measurement.
			repeats := int(math.Ceil(max(kernelCycles, 3*float64(n)*form.Alone) / resource.Cycles))
			var kernel []Copies
			size := 0
			for _, k := range resource.Kernel {
				kernel = append(kernel, Copies{k.Form, k.N * repeats})
				size += k.N * repeats
			}
			if size <= mostInKernel {
				list = append(list, Question{i, r, kernel, append(slices.Clone(kernel), Copies{form.Name, n}), n})
			}
		}
	}
	return list
}

type Difference struct {
	Form   int
	Counts float64 // occurrences of the form
	Uses   []ModelUse
}

type ModelUse struct {
	Resource        int
	Measured, Model float64
}

// Compare returns a use, both numbers in whole slots.
func (t *Table) Compare(q Question, model float64) ModelUse {
	return ModelUse{Resource: q.Resource, Measured: t.Slots(q.Form, q.Resource), Model: slots(model, t.Resources[q.Resource].PerCycle)}
}

func (u ModelUse) off() float64 { return math.Abs(u.Measured - u.Model) }

// Differences lists forms with uses that differ by more than a tenth of a cycle and a fifth of the larger one, by cycles
// times occurrences.
func Differences(uses map[int][]ModelUse, counts map[int]float64) (list []Difference) {
	const cycles, share = 0.1, 0.2
	for form, all := range uses {
		all = slices.DeleteFunc(all, func(u ModelUse) bool { return u.off() <= cycles || u.off() <= share*max(u.Measured, u.Model) })
		slices.SortStableFunc(all, func(a, b ModelUse) int { return cmp.Compare(b.off(), a.off()) })
		if len(all) > 0 {
			list = append(list, Difference{form, counts[form], all})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Counts*b.Uses[0].off(), a.Counts*a.Uses[0].off()), cmp.Compare(a.Form, b.Form))
	})
	return list
}
