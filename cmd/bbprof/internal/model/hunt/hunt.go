// Package hunt finds blocks that a model gets wrong, shrinks them and sorts them into classes. It does no I/O: one
// interface measures many blocks at a time, another predicts them:
//
//	survey a corpus → shrink each wrong block → confirm → generalise → put aside what is known → again
//
// A class is a block from which no instruction can be removed without losing the error or changing an address, with the
// instructions of other opcodes, widths and operands that show the same error. Blocks that contain a known class are put
// aside: otherwise a few frequent classes would hide all others. A block contains another if some of its instructions
// have the same shapes and depend on each other in the same way.
package hunt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/profiler"
)

// Measurement is the measurement of a block. Why says why there is none or why it does not count.
type Measurement struct {
	Cycles  float64          `json:"cycles"`
	Low     float64          `json:"ci_low"`
	High    float64          `json:"ci_high"`
	Why     string           `json:"not_measured,omitempty"`
	Suspect bool             `json:"-"` // skipped in a corpus; Low to High say how far to trust it
	Result  *profiler.Result `json:"-"` // may be nil
}

type How string

const (
	Survey      How = "distinct pointers"         // the initial state distinct
	Again       How = "once more"                 // the same set-up
	OtherState  How = "initial state paper"       // all pointers equal
	AsLoop      How = "mode loop"                 // in a counted loop
	OtherLayout How = "code at byte 32 of a page" // one code alignment; Survey takes the mean of several
)

type Opinion struct {
	How `json:"how"`
	Measurement
}

// Measurer measures blocks in order. An error ends the hunt.
type Measurer interface {
	Measure(ctx context.Context, blocks []Case, how How) ([]Measurement, error)
}

// Predictor predicts blocks in order. predict.Source implements it.
type Predictor interface {
	Predict(ctx context.Context, blocks []string) ([]score.Prediction, error)
}

// right is neither too fast nor too slow.
const right score.Direction = "right"

type Outcome struct {
	Case
	Measurement
	Predicted score.Prediction `json:"predicted"`
}

func (o *Outcome) known() bool { return o.Why == "" && o.Predicted.Known() && o.Cycles > 0 }

func (o *Outcome) excess() float64 {
	return score.Excess(&score.Block{Cycles: o.Cycles, Low: o.Low, High: o.High}, o.Predicted)
}

// sign reports whether the prediction is outside the interval by more than threshold of the measured cycles and by more
// than a model's counting step.
func (o *Outcome) sign(threshold float64) score.Direction {
	switch {
	case !o.known(), o.excess() <= threshold, o.excess()*o.Cycles < score.Step:
		return right
	case o.Predicted.Cycles > o.Cycles:
		return score.TooSlow
	}
	return score.TooFast
}

type Options struct {
	Threshold float64 // share of the measured cycles
	Generate  int     // blocks to generate after the corpus
	Seed      uint64
	Usable    Forms // for generating and generalising
	// Progress, unless nil, is called after each batch.
	Progress func(surveyed, of, wrong, classes int)
}

// Class is a minimal block that a model gets wrong.
type Class struct {
	Outcome
	Text     string          `json:"block"`
	Sign     score.Direction `json:"error"`
	Blocks   int             `json:"blocks"` // of the corpus that contain it and err in its direction
	Share    score.Number    `json:"share"`  // of the corpus' excess error: blocks that no earlier class holds
	Variants []Variant       `json:"neighbours"`
	Opinions []Opinion       `json:"opinions"`

	pattern  *block
	patterns []*block // of its variants
}

// Holds lists the class's instructions by shape, such as "xor r32, r32, same".
func (c *Class) Holds() []string { return c.pattern.shapes }

type Variant struct {
	Outcome
	Text      string    `json:"block"`
	Dimension Dimension `json:"differs_in"`
	Same      bool      `json:"same_error"`
	Shape     string    `json:"-"` // of the replacement
}

type Findings struct {
	Surveyed    int          `json:"blocks"`         // measured and predicted
	Unknown     int          `json:"blocks_unknown"` // not measured, or not predicted
	Wrong       int          `json:"blocks_wrong"`
	PutAside    int          `json:"blocks_put_aside"` // wrong, but containing a known class
	Shrunk      int          `json:"blocks_shrunk"`
	Unconfirmed int          `json:"unconfirmed"` // minimal blocks whose error a second measurement does not show
	Trials      int          `json:"trials"`      // blocks tried in all
	Error       score.Number `json:"-"`
	Explained   score.Number `json:"explained"` // share of Error in blocks that contain a class
	Classes     []Class      `json:"classes"`
}

// atATime is how many blocks are surveyed before the wrong ones are shrunk.
const atATime = 4096

// Hunt searches a corpus, then generated blocks, for wrong ones. It returns its findings with an error, too.
func Hunt(ctx context.Context, m Measurer, p Predictor, corpus []string, o Options) (Findings, error) {
	h := &hunter{Options: o, measurer: m, predictor: p, outcomes: map[Case]*Outcome{}, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	corpus = slices.Clone(corpus)
	h.total = len(corpus) + o.Generate
	h.use.count(corpus)
	err := h.run(ctx, corpus)
	h.rank(corpus)
	h.found.Classes, h.found.Trials = append([]Class{}, h.classes...), len(h.outcomes)
	return h.found, err
}

type hunter struct {
	Options
	measurer  Measurer
	predictor Predictor
	rng       *rand.Rand

	outcomes map[Case]*Outcome
	open     []*wrongBlock // wrong, not yet put aside
	classes  []Class
	use      use
	found    Findings
	total    int
	surveyed int
}

type wrongBlock struct {
	*block
	sign score.Direction
}

func (h *hunter) run(ctx context.Context, corpus []string) error {
	for part := range slices.Chunk(corpus, atATime) {
		if err := h.chase(ctx, part); err != nil {
			return err
		}
	}
	for left := h.Generate; left > 0; left -= atATime {
		if err := h.chase(ctx, h.generate(min(left, atATime))); err != nil {
			return err
		}
	}
	return nil
}

func (h *hunter) chase(ctx context.Context, blocks []string) error {
	if err := h.survey(ctx, blocks); err != nil {
		return err
	}
	for shrinks := h.choose(); len(shrinks) > 0; shrinks = h.choose() {
		minimal, err := h.shrinkAll(ctx, shrinks)
		if err != nil {
			return err
		}
		if err := h.admit(ctx, minimal); err != nil {
			return err
		}
		h.report()
	}
	return nil
}

func (h *hunter) report() {
	if h.Progress != nil {
		h.Progress(h.surveyed, h.total, h.found.Wrong, len(h.classes))
	}
}

// batchSize is how many blocks one call predicts and measures: enough to amortise a tool's start, few enough to show
// progress.
const batchSize = 1024

// try predicts and measures the blocks without an outcome.
func (h *hunter) try(ctx context.Context, blocks []Case) error {
	var missing []Case
	asked := map[Case]bool{}
	for _, b := range blocks {
		if h.outcomes[b] == nil && !asked[b] {
			asked[b] = true
			missing = append(missing, b)
		}
	}
	for part := range slices.Chunk(missing, batchSize) {
		predictions, err := h.predict(ctx, part)
		if err != nil {
			return err
		}
		known := slices.DeleteFunc(slices.Clone(part), func(b Case) bool { return !predictions[b.Hex].Known() })
		measured, err := h.measurer.Measure(ctx, known, Survey)
		if err != nil {
			return err
		}
		for _, b := range part {
			h.outcomes[b] = &Outcome{Case: b, Predicted: predictions[b.Hex], Measurement: Measurement{Why: "not measured: no prediction"}}
		}
		for i, b := range known {
			h.outcomes[b].Measurement = measured[i]
		}
	}
	return nil
}

// predict asks about each block once, whatever its initial registers.
func (h *hunter) predict(ctx context.Context, cases []Case) (map[string]score.Prediction, error) {
	var blocks []string
	for _, c := range cases {
		blocks = append(blocks, c.Hex)
	}
	blocks = slices.Compact(slices.Sorted(slices.Values(blocks)))
	list, err := h.predictor.Predict(ctx, blocks)
	said := map[string]score.Prediction{}
	for i, p := range list {
		said[blocks[i]] = p
	}
	return said, err
}

func (h *hunter) sign(block Case) score.Direction {
	if o := h.outcomes[block]; o != nil {
		return o.sign(h.Threshold)
	}
	return right
}

func (h *hunter) survey(ctx context.Context, blocks []string) error {
	for part := range slices.Chunk(blocks, batchSize) {
		cases := make([]Case, len(part))
		for i := range part {
			cases[i].Hex = part[i]
		}
		if err := h.try(ctx, cases); err != nil {
			return err
		}
		for i, text := range part {
			h.surveyed++
			if o := h.outcomes[cases[i]]; !o.known() || o.Suspect {
				h.found.Unknown++
				continue
			}
			h.found.Surveyed++
			sign := h.sign(cases[i])
			if sign == right {
				continue
			}
			h.found.Wrong++
			if b := newBlock(text); b != nil {
				h.open = append(h.open, &wrongBlock{b, sign})
			}
		}
		h.report()
	}
	slices.SortStableFunc(h.open, func(a, b *wrongBlock) int { return len(a.insts) - len(b.insts) })
	for i := range h.classes {
		h.putAside(&h.classes[i])
	}
	return nil
}

// sideBySide is how many blocks are shrunk at a time. With more, many would end in the same class.
const sideBySide = 32

// choose takes the shortest open blocks with different instructions.
func (h *hunter) choose() (list []*shrink) {
	var rest []*wrongBlock
	kinds := map[string]bool{}
	for _, b := range h.open {
		kind := fmt.Sprint(b.sign, slices.Compact(slices.Sorted(slices.Values(b.shapes))))
		if len(list) < sideBySide && !kinds[kind] {
			kinds[kind] = true
			list = append(list, newShrink(b.block, b.sign))
			continue
		}
		rest = append(rest, b)
	}
	h.open = rest
	h.found.Shrunk += len(list)
	return list
}

// shrinkAll shrinks blocks together. It drops one that comes to contain the result of another.
func (h *hunter) shrinkAll(ctx context.Context, shrinks []*shrink) (minimal []*shrink, err error) {
	for len(shrinks) > 0 {
		var going []*shrink
		var candidates []Case
		for _, s := range shrinks {
			known := slices.ContainsFunc(minimal, func(m *shrink) bool { return m.sign == s.sign && s.block.contains(m.block) })
			switch {
			case known:
			case s.done:
				minimal = append(minimal, s)
			default:
				going = append(going, s)
				candidates = append(candidates, s.candidates()...)
			}
		}
		if err := h.try(ctx, candidates); err != nil {
			return nil, err
		}
		for _, s := range going {
			s.advance(h.sign)
		}
		shrinks = going
	}
	return minimal, nil
}

// admit makes classes of minimal blocks that a second measurement confirms.
func (h *hunter) admit(ctx context.Context, minimal []*shrink) error {
	var blocks []Case
	for _, s := range minimal {
		blocks = append(blocks, s.block.asCase())
	}
	again, err := h.measurer.Measure(ctx, blocks, Again)
	if err != nil {
		return err
	}
	var confirmed []Class
	for i, s := range minimal {
		o := *h.outcomes[s.block.asCase()]
		second := o
		second.Measurement = again[i]
		if second.sign(h.Threshold) != s.sign {
			h.found.Unconfirmed++
			continue
		}
		if !h.known(s.block, s.sign) {
			confirmed = append(confirmed, Class{Outcome: o, Text: s.block.text(), Sign: s.sign, Opinions: []Opinion{{Again, again[i]}}, pattern: s.block})
		}
	}
	if err := h.generalise(ctx, confirmed); err != nil {
		return err
	}
	for i := range confirmed {
		c := &confirmed[i]
		if !h.known(c.pattern, c.Sign) { // it may be a variant of one in this loop
			h.classes = append(h.classes, *c)
			h.putAside(c)
		}
	}
	return nil
}

// known reports whether a block contains a class of this sign.
func (h *hunter) known(b *block, sign score.Direction) bool {
	return slices.ContainsFunc(h.classes, func(c Class) bool { return c.Sign == sign && c.in(b) })
}

func (h *hunter) putAside(c *Class) {
	before := len(h.open)
	h.open = slices.DeleteFunc(h.open, func(b *wrongBlock) bool { return b.sign == c.Sign && c.in(b.block) })
	h.found.PutAside += before - len(h.open)
}

func (c *Class) in(b *block) bool {
	return b.contains(c.pattern) || slices.ContainsFunc(c.patterns, b.contains)
}
