package hunt

import (
	"cmp"
	"context"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

// rank orders classes by the corpus' excess error in the blocks that contain them: first the class with the most, then
// the one with most of the rest.
func (h *hunter) rank(corpus []string) {
	h.dropLarger()
	wrong, total := h.excesses(corpus)
	holders := make([][]*excess, len(h.classes)) // the wrong blocks that contain each class
	left := make([]int, len(h.classes))
	for k := range h.classes {
		c := &h.classes[k]
		for _, e := range wrong {
			if e.sign == c.Sign && c.in(e.block) {
				holders[k] = append(holders[k], e)
			}
		}
		c.Blocks, left[k] = len(holders[k]), k
	}
	rest := func(k int) (sum float64) {
		for _, e := range holders[k] {
			sum += e.share
		}
		return sum
	}
	var ranked []Class
	for len(left) > 0 {
		k := slices.MaxFunc(left, func(a, b int) int { return cmp.Compare(rest(a), rest(b)) })
		if total > 0 {
			h.classes[k].Share = score.Number(rest(k) / total)
			h.found.Explained += h.classes[k].Share
		}
		for _, e := range holders[k] {
			e.share = 0 // counted
		}
		left = slices.DeleteFunc(left, func(other int) bool { return other == k })
		ranked = append(ranked, h.classes[k])
	}
	h.classes = ranked
	if h.found.Surveyed > 0 {
		h.found.Error = score.Number(total)
	}
}

// excess is a wrong corpus block and its excess error as a share of its cycles.
type excess struct {
	*wrongBlock
	share float64
}

// excesses lists them. The total includes blocks that cannot hold a class.
func (h *hunter) excesses(corpus []string) (wrong []*excess, total float64) {
	for _, text := range corpus {
		o := h.outcomes[Case{Hex: text}]
		if o == nil || !o.known() || o.excess() == 0 {
			continue
		}
		total += o.excess()
		if b := newBlock(text); b != nil {
			sign := score.TooFast
			if o.Predicted.Cycles > o.Cycles {
				sign = score.TooSlow
			}
			wrong = append(wrong, &excess{&wrongBlock{b, sign}, o.excess()})
		}
	}
	return wrong, total
}

func (f *Findings) AskAgain(ctx context.Context, m Measurer) error {
	var blocks []Case
	for i := range f.Classes {
		blocks = append(blocks, f.Classes[i].Case)
	}
	for _, how := range []How{OtherState, AsLoop, OtherLayout} {
		measured, err := m.Measure(ctx, blocks, how)
		if err != nil {
			return err
		}
		for i := range measured {
			f.Classes[i].Opinions = append(f.Classes[i].Opinions, Opinion{how, measured[i]})
		}
	}
	return nil
}

// Shared reports whether a second opinion shows at least half of the error. One that failed counts as agreeing.
func (c *Class) Shared(m Measurement) bool {
	if m.Why != "" || m.Cycles <= 0 {
		return true
	}
	o := Outcome{Case: c.Case, Measurement: m, Predicted: c.Predicted}
	return o.sign(c.excess()/2) == c.Sign
}

func (c *Class) Doubts() (list []string) {
	for _, o := range c.Opinions {
		if !c.Shared(o.Measurement) {
			list = append(list, string(o.How))
		}
	}
	return list
}

// Same lists instructions that show the same error in place of one of the class.
func (c *Class) Same() (shapes []string) {
	for _, v := range c.Variants {
		if v.Same && !slices.Contains(shapes, v.Shape) {
			shapes = append(shapes, v.Shape)
		}
	}
	return shapes
}

// dropLarger drops classes that contain one found later.
func (h *hunter) dropLarger() {
	all := slices.Clone(h.classes)
	h.classes = slices.DeleteFunc(h.classes, func(c Class) bool {
		return slices.ContainsFunc(all, func(o Class) bool {
			return o.Sign == c.Sign && len(o.pattern.insts) < len(c.pattern.insts) && o.in(c.pattern)
		})
	})
}
