package resources

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// useAll measures each form's use of each resource, and finds more resources for forms that none explains.
func (f *finder) useAll(t *Table) {
	every := make([]int, len(f.forms))
	for i := range every {
		every[i] = i
		t.Forms[i].Uses = make([]Use, len(t.Resources))
	}
	own := f.own()
	for _, nested := range []bool{false, true} { // needed ones first
		for r := range t.Resources {
			needs := t.Resources[r].needs
			if nested != (needs >= 0) {
				continue
			}
			var test []int
			for _, i := range every {
				switch {
				case !own[i].ok():
					t.Forms[i].Uses[r].Why = own[i].Why
				case nested && t.Forms[i].Uses[needs].Why == "" && t.Forms[i].Uses[needs].Share <= negligible && t.Resources[needs].needs < 0:
					t.Forms[i].Uses[r].Why = "not measured: it uses nothing of " + t.Resources[needs].Name
				default:
					test = append(test, i)
				}
			}
			f.use(t, r, test, own)
		}
	}
	f.late(t, own)
	t.subtractBeside()
}

func (t *Table) subtractBeside() {
	for i := range t.Forms {
		for _, b := range t.Forms[i].Beside {
			for r := range t.Forms[i].Uses {
				u, other := &t.Forms[i].Uses[r], float64(b.N)*t.Forms[b.Form].Uses[r].Share
				u.Share, u.Low, u.High = max(0, u.Share-other), max(0, u.Low-other), max(0, u.High-other)
			}
		}
	}
}

// negligible is a use within measurement error.
const negligible = 0.03

// own times the instructions of each form that are added to a kernel, alone: the kernel must hide this time.
func (f *finder) own() []Timing {
	var mixes []Mix
	for i := range f.forms {
		mixes = append(mixes, Mix{{i, f.added(i)}})
	}
	times := f.times(mixes)
	for i := range f.forms {
		if f.forms[i].Alone == 0 && times[i].ok() {
			f.forms[i].Alone = times[i].Cycles / float64(mixes[i][0].N)
		}
	}
	return times
}

// added returns how many of a form are added to a kernel.
func (f *finder) added(form int) int {
	if f.forms[form].Alone == 0 || len(f.forms[form].Beside) > 0 {
		return 1
	}
	return f.copies(form, addedCycles)
}

func (f *finder) use(t *Table, r int, forms []int, own []Timing) {
	kernel := t.Resources[r].kernel
	var mixes []Mix
	base := map[int][]int{} // kernel-only mixes, by repeats
	type test struct{ form, n, repeats, mix int }
	var tests []test
	for _, i := range forms {
		n := f.added(i)
		long := max(kernelCycles, own[i].Cycles/hidden)
		mix := with(kernel, long, Part{i, n})
		if size := long * kernel.perCycle(); size > mostInKernel {
			t.Forms[i].Uses[r].Why = fmt.Sprintf("untestable: it takes %.1f cycles alone, and a kernel that hides them has %.0f instructions, beyond %d",
				own[i].Cycles, size, mostInKernel)
			continue
		}
		repeats := mix[0].N / kernel.mix[0].N
		if base[repeats] == nil {
			const times = 3
			for range times {
				base[repeats] = append(base[repeats], len(mixes))
				mixes = append(mixes, mix[:len(mix)-1:len(mix)-1])
			}
		}
		tests = append(tests, test{i, n, repeats, len(mixes)})
		mixes = append(mixes, mix)
	}
	times := f.times(mixes)
	for _, x := range tests {
		u := &t.Forms[x.form].Uses[r]
		alone, with := median(times, base[x.repeats]), times[x.mix]
		switch {
		case !alone.ok():
			u.Why = "the kernel: " + alone.Why
		case !with.ok():
			u.Why = with.Why
		default:
			half := math.Hypot((alone.High-alone.Low)/2, (with.High-with.Low)/2) / float64(x.n)
			added := (with.Cycles - alone.Cycles) / float64(x.n)
			*u = Use{Share: max(0, added), Low: max(0, added-half), High: max(0, added+half)}
		}
	}
}

func median(times []Timing, which []int) Timing {
	var list []Timing
	for _, i := range which {
		if times[i].ok() {
			list = append(list, times[i])
		}
	}
	if len(list) == 0 {
		return times[which[0]]
	}
	slices.SortFunc(list, func(a, b Timing) int { return cmp.Compare(a.Cycles, b.Cycles) })
	return list[len(list)/2]
}

func (t *Table) explained(form int) (most float64) {
	for _, u := range t.Forms[form].Uses {
		most = max(most, u.Share)
	}
	return most
}

// late makes kernels of forms that take longer than any resource explains, and tests the others with them. Forms that
// share with none keep only their time alone.
func (f *finder) late(t *Table, own []Timing) {
	const (
		mostTries = 40
		alike     = 3    // tries with forms of equal time
		steady    = 0.03 // interval, as a share
		longer    = 1.2
		units     = 0.1 // cycles
	)
	var open []int
	unexplained := func(i int) bool {
		return own[i].ok() && f.forms[i].Alone > longer*t.explained(i)+units
	}
	for i := range f.forms {
		if unexplained(i) {
			open = append(open, i)
		}
	}
	// The fastest first: they are one operation.
	slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(f.forms[a].Alone, f.forms[b].Alone) })
	tried := map[int]int{} // by tenths of a cycle
	for try := 0; try < mostTries && len(open) > 1; {
		first := open[0]
		open = open[1:]
		tenths := int(math.Round(10 * f.forms[first].Alone))
		if tried[tenths]++; tried[tenths] > alike {
			continue
		}
		try++
		kernel := Mix{{first, max(1, f.copies(first, kernelCycles))}}
		times := f.times([]Mix{kernel})
		if t := times[0]; !t.ok() || t.High-t.Low > steady*t.Cycles || t.Cycles > longer*float64(kernel[0].N)*f.forms[first].Alone {
			continue // they wait for each other
		}
		r := len(t.Resources)
		t.Resources = append(t.Resources, Resource{Name: f.forms[first].Name, kernel: observation{kernel, times[0].Cycles}, needs: -1, Late: true})
		for i := range t.Forms {
			t.Forms[i].Uses = append(t.Forms[i].Uses, Use{Why: "not measured: other resources explain its time"})
		}
		for _, i := range open {
			t.Forms[i].Uses[r] = Use{}
		}
		t.Forms[first].Uses[r] = Use{Share: f.forms[first].Alone, Low: f.forms[first].Alone, High: f.forms[first].Alone}
		f.use(t, r, open, own)
		with := 0
		for _, i := range open {
			if t.Forms[i].Uses[r].Share > 0.1*f.forms[i].Alone {
				with++
			}
		}
		if with == 0 {
			t.Resources = t.Resources[:r]
			for i := range t.Forms {
				t.Forms[i].Uses = t.Forms[i].Uses[:r]
			}
		}
		open = slices.DeleteFunc(open, func(i int) bool { return !unexplained(i) })
	}
}
