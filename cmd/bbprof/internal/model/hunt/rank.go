package hunt

import (
	"context"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

// rank orders classes by how much of the corpus' excess error is in blocks that contain them: the one with
// most of it first, then of what is left.
func (h *hunter) rank(corpus []string) {
	h.dropLarger()
	var total float64
	var wrong []*wrongBlock
	var excess []float64
	for _, text := range corpus {
		o := h.outcomes[text]
		if o == nil || !o.Known() {
			continue
		}
		e := o.excess()
		total += e
		if e == 0 {
			continue
		}
		if b := newBlock(text); b != nil {
			sign := TooFast
			if o.Predicted.Cycles > o.Cycles {
				sign = TooSlow
			}
			wrong, excess = append(wrong, &wrongBlock{b, sign}), append(excess, e)
		}
	}
	in := make([][]int, len(h.classes)) // the blocks of each class
	for k := range h.classes {
		for i, b := range wrong {
			if c := &h.classes[k]; b.sign == c.Sign && c.in(b.block) {
				in[k] = append(in[k], i)
			}
		}
		h.classes[k].Blocks = len(in[k])
	}
	var ranked []Class
	left := make([]int, len(h.classes))
	for k := range left {
		left[k] = k
	}
	taken := make([]bool, len(wrong))
	for len(left) > 0 {
		best, most := 0, -1.0
		for n, k := range left {
			sum := 0.0
			for _, i := range in[k] {
				if !taken[i] {
					sum += excess[i]
				}
			}
			if sum > most {
				best, most = n, sum
			}
		}
		k := left[best]
		left = slices.Delete(left, best, best+1)
		for _, i := range in[k] {
			taken[i] = true
		}
		if total > 0 {
			h.classes[k].Share = score.Number(most / total)
			h.found.Explained += h.classes[k].Share
		}
		ranked = append(ranked, h.classes[k])
	}
	h.classes = ranked
	if h.found.Surveyed > 0 {
		h.found.Error = score.Number(total)
	}
}

// AskAgain takes the second opinions that are not there yet: the classes in another state, another mode
// and another layout.
func (f *Found) AskAgain(ctx context.Context, m Measurer) error {
	var blocks []string
	for i := range f.Classes {
		blocks = append(blocks, f.Classes[i].Hex)
	}
	for _, how := range Opinions() {
		if how == Again {
			continue
		}
		measured, err := m.Measure(ctx, blocks, how)
		if err != nil {
			return err
		}
		for i := range measured {
			f.Classes[i].Opinions[how] = measured[i]
		}
	}
	return nil
}

// Shared reports whether a second opinion, if it could be had, shows the error, too: by half of what the
// first shows.
func (c *Class) Shared(m Measured) bool {
	if m.Why != "" || m.Cycles <= 0 {
		return true
	}
	o := Outcome{Hex: c.Hex, Measured: m, Predicted: c.Predicted}
	return o.sign(c.excess()/2) == c.Sign
}

// Same lists the instructions that show the same error in place of one of the class.
func (c *Class) Same() (shapes []string) {
	for _, v := range c.Variants {
		if v.Sign == c.Sign && !slices.Contains(shapes, v.Shape) {
			shapes = append(shapes, v.Shape)
		}
	}
	return shapes
}

// dropLarger drops classes that contain another, which was found after them.
func (h *hunter) dropLarger() {
	all := slices.Clone(h.classes)
	h.classes = slices.DeleteFunc(h.classes, func(c Class) bool {
		return slices.ContainsFunc(all, func(o Class) bool {
			return o.Sign == c.Sign && len(o.pattern.insts) < len(c.pattern.insts) && o.in(c.pattern)
		})
	})
}
