package resources

import (
	"cmp"
	"math"
	"slices"
)

// Question is a use asked of a model: the kernel alone, and with instructions of a form.
type Question struct {
	Form, Resource int // of the file
	Kernel, With   []FileKernel
	N              int // instructions that were added
}

// Questions are those of some forms, by their numbers in the file: what was measured of them.
func (f *File) Questions(forms []int) (list []Question) {
	for _, i := range forms {
		form := &f.Forms[i]
		n := 1
		if form.Alone > 0 {
			n = max(1, min(6, int(math.Round(addedCycles/form.Alone))))
		}
		for r := range f.Resources {
			resource := &f.Resources[r]
			if f.Untested(i, r) != "" || resource.Cycles <= 0 || resource.Late {
				continue
			}
			// Models may take longer than was measured.
			repeats := int(math.Ceil(max(kernelCycles, 3*float64(n)*form.Alone) / resource.Cycles))
			var kernel []FileKernel
			size := 0
			for _, k := range resource.Kernel {
				kernel = append(kernel, FileKernel{k.Form, k.N * repeats})
				size += k.N * repeats
			}
			if size <= mostInKernel {
				list = append(list, Question{i, r, kernel, append(slices.Clone(kernel), FileKernel{form.Form, n}), n})
			}
		}
	}
	return list
}

// Difference is a form whose use of resources a model has otherwise.
type Difference struct {
	Form   int
	Counts float64 // how often the form occurs
	Uses   []ModelUse
}

// ModelUse is one resource, as measured and as a model has it.
type ModelUse struct {
	Resource        int
	Measured, Model float64
}

// Compare is what a model has of a use, in whole slots as what was measured.
func (f *File) Compare(q Question, model float64) ModelUse {
	return ModelUse{Resource: q.Resource, Measured: f.Slots(q.Form, q.Resource), Model: slots(model, f.Resources[q.Resource].PerCycle)}
}

// off is by how much the two differ, beyond what measurements do.
func (u ModelUse) off() float64 { return math.Abs(u.Measured - u.Model) }

// Differences are the forms with uses that differ by more than a tenth of a cycle and a fifth of the larger one, the worst
// first: by how many cycles, and how often.
func Differences(uses map[int][]ModelUse, counts func(form int) float64) (list []Difference) {
	const cycles, share = 0.1, 0.2
	for form, all := range uses {
		d := Difference{Form: form, Counts: counts(form)}
		for _, u := range all {
			if u.off() > cycles && u.off() > share*max(u.Measured, u.Model) {
				d.Uses = append(d.Uses, u)
			}
		}
		slices.SortStableFunc(d.Uses, func(a, b ModelUse) int { return cmp.Compare(b.off(), a.off()) })
		if len(d.Uses) > 0 {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Counts*b.Uses[0].off(), a.Counts*a.Uses[0].off()), cmp.Compare(a.Form, b.Form))
	})
	return list
}
