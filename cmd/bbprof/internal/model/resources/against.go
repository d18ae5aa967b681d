package resources

import (
	"cmp"
	"math"
	"slices"
)

// Question asks a model for a use: the kernel alone, and with instructions of a form.
type Question struct {
	Form, Resource int // indices in the file
	Kernel, With   []FileKernel
	N              int // added instructions
}

// Questions returns the measured uses of some forms, by index in the file.
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
			// Models may be slower than the measurement.
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

// Difference is a form whose uses a model has wrong.
type Difference struct {
	Form   int
	Counts float64 // occurrences of the form
	Uses   []ModelUse
}

// ModelUse is a use, as measured and in the model.
type ModelUse struct {
	Resource        int
	Measured, Model float64
}

// Compare returns a use, both numbers in whole slots.
func (f *File) Compare(q Question, model float64) ModelUse {
	return ModelUse{Resource: q.Resource, Measured: f.Slots(q.Form, q.Resource), Model: slots(model, f.Resources[q.Resource].PerCycle)}
}

// off returns the absolute difference.
func (u ModelUse) off() float64 { return math.Abs(u.Measured - u.Model) }

// Differences lists forms with uses that differ by more than a tenth of a cycle and a fifth of the larger one, by cycles
// times occurrences.
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
