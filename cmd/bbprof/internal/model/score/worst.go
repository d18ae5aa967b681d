package score

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/stat"
)

// Mistake is a group of blocks that share a property and that a model gets wrong in the same direction.
type Mistake struct {
	What      string     `json:"what"`           // the property, such as "instruction imul r64, r64"
	Direction Direction  `json:"direction"`      // of the errors
	Blocks    int        `json:"blocks"`         // with the property
	Wrong     int        `json:"wrong"`          // of them, predicted outside the interval in this direction
	Share     Number     `json:"share_of_error"` // of the model's whole excess error
	Removed   Number     `json:"removed"`        // share of it that would go if these blocks were predicted as well as all others
	Ratio     Number     `json:"median_ratio"`   // predicted / measured, median of the wrong blocks
	Worst     []Offender `json:"worst"`
	Class     string     `json:"llvm_class,omitempty"` // LLVM's scheduling class of Example
	In        []int      `json:"-"`                    // the wrong blocks
}

type Direction string

const (
	TooFast   Direction = "too fast"
	TooSlow   Direction = "too slow"
	EitherWay Direction = "either way"
)

type Offender struct {
	Block     int     `json:"-"` // its index
	Hex       string  `json:"hex"`
	Text      string  `json:"text"`
	Line      string  `json:"source_line,omitempty"`
	Cycles    float64 `json:"cycles"`
	Low       float64 `json:"ci_low"`
	High      float64 `json:"ci_high"`
	Predicted float64 `json:"predicted"`
	Excess    float64 `json:"excess"`
	Share     Number  `json:"share_of_error"` // of the model's whole excess error
}

// Even noise gives some property the largest share. So a mistake must hold this much of the error, and this much of that
// must exceed what as many other blocks would have.
const (
	leastRemoved = 0.005
	leastAbove   = 0.35
	leastWrong   = 3 // blocks; fewer share nothing
	// A property with fewer blocks wins if its cost is this close to the best: "imul r64, r64" says more than "imul".
	near = 0.97
)

// Mistakes finds a model's most expensive groups of errors, at most groups, with the worst blocks of each.
//
// It is a greedy search. A property's cost is the excess error of its blocks minus that of as many other blocks, times
// its separation. The search takes the property that costs most, sets its errors aside and repeats. Blocks predicted too
// slow and too fast are separate. Errors are weighted if blocks have weights. Coarse properties are taken only if no
// other stands out.
//
// It also returns the worst blocks, whatever their properties.
func (x *Index) Mistakes(predictions []Prediction, groups, each, worst int) (found []Mistake, all []Offender) {
	s := newSearch(x, predictions)
	rest := Mistake{What: Others, Direction: EitherWay}
	s.tell(&rest, s.wrong(), worst)
	all = rest.Worst
	for len(found) < groups && s.total > 0 {
		best, ok := s.best()
		if !ok {
			break
		}
		found = append(found, s.take(best, each))
	}
	for i := range x.blocks {
		if !s.aside[0][i] || !s.aside[1][i] {
			rest.Blocks++
		}
	}
	s.tell(&rest, s.wrong(), each)
	for _, i := range rest.In {
		rest.Share += Number(s.excess[direction(&s.blocks[i], predictions[i])][i] / s.total)
	}
	if rest.Wrong > 0 {
		found = append(found, rest)
	}
	return found, all
}

// wrong lists the blocks with an error that is not set aside.
func (s *search) wrong() (list []int) {
	for i := range s.blocks {
		if d := direction(&s.blocks[i], s.predictions[i]); s.excess[d][i] > 0 && !s.aside[d][i] {
			list = append(list, i)
		}
	}
	return list
}

// Others names the last group: remaining errors in either direction.
const Others = "other blocks"

// Index holds the properties of blocks, for all models.
type Index struct {
	blocks     []Block
	names      []Property
	properties [][]int32 // of each block
	weighted   bool
}

// newIndex indexes blocks. properties lists a block's properties without repetition.
func newIndex(blocks []Block, properties func(*Block) []Property) *Index {
	x := &Index{blocks: blocks, properties: make([][]int32, len(blocks))}
	x.weighted = Weighted(blocks)
	ids := map[Property]int32{}
	for i := range blocks {
		list := properties(&blocks[i])
		x.properties[i] = make([]int32, len(list))
		for k, p := range list {
			id, ok := ids[p]
			if !ok {
				id = int32(len(ids))
				ids[p] = id
				x.names = append(x.names, p)
			}
			x.properties[i][k] = id
		}
	}
	return x
}

type search struct {
	*Index
	predictions []Prediction
	excess      [2][]float64 // by direction: too fast, too slow; not yet set aside
	aside       [2][]bool
	total       float64
}

func newSearch(x *Index, predictions []Prediction) *search {
	s := &search{Index: x, predictions: predictions}
	for d := range s.excess {
		s.excess[d] = make([]float64, len(x.blocks))
		s.aside[d] = make([]bool, len(x.blocks))
	}
	for i := range x.blocks {
		b, p := &x.blocks[i], predictions[i]
		if !p.Known() {
			s.aside[0][i], s.aside[1][i] = true, true
			continue
		}
		e := Excess(b, p)
		if x.weighted {
			e *= b.Weight
		}
		s.excess[direction(b, p)][i] = e
		s.total += e
	}
	return s
}

// direction returns 1 for a prediction that is too slow.
func direction(b *Block, p Prediction) int {
	if p.Cycles > b.Cycles {
		return 1
	}
	return 0
}

// suspect is a property as the cause of errors in one direction.
type suspect struct {
	property  int32
	direction int
	blocks    int
	wrong     int
	excess    float64
	removed   float64 // excess minus that of as many other blocks
	cost      float64
}

// best finds the property with the highest cost, if any stands out.
func (s *search) best() (suspect, bool) {
	var all []suspect
	for d := range s.excess {
		by := make([]suspect, len(s.names))
		n, sum := 0, 0.0
		for i := range s.blocks {
			if s.aside[d][i] {
				continue
			}
			e := s.excess[d][i]
			n++
			sum += e
			for _, id := range s.properties[i] {
				by[id].blocks++
				by[id].excess += e
				if e > 0 {
					by[id].wrong++
				}
			}
		}
		for id, c := range by {
			if c.blocks == 0 || c.blocks == n {
				continue
			}
			c.property, c.direction = int32(id), d
			c.removed = c.excess - float64(c.blocks)*(sum-c.excess)/float64(n-c.blocks)
			// An instruction that only accompanies the cause is in right blocks, too. With the share of wrong blocks not squared,
			// mov, which is in three of four blocks, absorbed the mistakes of all others.
			share := float64(c.wrong) / float64(c.blocks)
			c.cost = c.removed * (share * share)
			if c.wrong >= leastWrong && c.removed >= leastRemoved*s.total && c.removed >= leastAbove*c.excess {
				all = append(all, c)
			}
		}
	}
	if fine := slices.DeleteFunc(slices.Clone(all), func(c suspect) bool { return s.names[c.property].Coarse }); len(fine) > 0 {
		all = fine
	}
	if len(all) == 0 {
		return suspect{}, false
	}
	most := slices.MaxFunc(all, func(a, b suspect) int { return cmp.Compare(a.cost, b.cost) }).cost
	all = slices.DeleteFunc(all, func(c suspect) bool { return c.cost < near*most })
	return slices.MinFunc(all, func(a, b suspect) int {
		return cmp.Or(cmp.Compare(a.blocks, b.blocks), cmp.Compare(b.cost, a.cost), cmp.Compare(s.names[a.property].Name, s.names[b.property].Name))
	}), true
}

// Example returns the first instruction of the worst block that has the property, or nil if only the whole block does.
func (m *Mistake) Example() []byte {
	if len(m.Worst) == 0 {
		return nil
	}
	insts, _ := asm.DecodeHex(m.Worst[0].Hex)
	for i := range insts {
		alone := Block{Hex: hex.EncodeToString(insts[i].Bytes)}
		if slices.Contains(Properties(&alone), Property{Name: m.What}) {
			return insts[i].Bytes
		}
	}
	return nil
}

// take sets the errors of a property aside and describes them.
func (s *search) take(c suspect, worst int) Mistake {
	m := Mistake{What: s.names[c.property].Name, Direction: [...]Direction{TooFast, TooSlow}[c.direction], Blocks: c.blocks,
		Share: Number(c.excess / s.total), Removed: Number(c.removed / s.total)}
	var wrong []int
	for i := range s.blocks {
		if s.aside[c.direction][i] || !slices.Contains(s.properties[i], c.property) {
			continue
		}
		s.aside[c.direction][i] = true
		if s.excess[c.direction][i] > 0 {
			wrong = append(wrong, i)
		}
	}
	s.tell(&m, wrong, worst)
	return m
}

// tell describes the wrong predictions and lists the worst.
func (s *search) tell(m *Mistake, wrong []int, worst int) {
	var (
		ratios    []float64
		offenders []Offender
	)
	for _, i := range wrong {
		b, p := &s.blocks[i], s.predictions[i]
		ratios = append(ratios, p.Cycles/b.Cycles)
		offenders = append(offenders, Offender{Block: i, Hex: b.Hex, Line: b.Line, Cycles: b.Cycles, Low: b.Low, High: b.High,
			Predicted: p.Cycles, Excess: Excess(b, p), Share: Number(s.excess[direction(b, p)][i] / s.total)})
	}
	m.In, m.Wrong, m.Ratio = wrong, len(wrong), Number(stat.Median(ratios))
	slices.SortStableFunc(offenders, func(a, b Offender) int { return cmp.Compare(b.Share, a.Share) })
	m.Worst = offenders[:min(worst, len(offenders))]
	for i := range m.Worst {
		m.Worst[i].Text = Text(m.Worst[i].Hex)
	}
}

// Text returns a block's instructions, "" for invalid digits.
func Text(digits string) string {
	insts, _ := asm.DecodeHex(digits)
	return asm.Text(insts)
}

type Property struct {
	Name string
	// Coarse marks a property of the whole block, which says less about a model's mistake than an instruction does.
	Coarse bool
}

// Properties lists a block's properties for [Mistakes]: instructions by name and shape, accesses, category and bound.
func Properties(b *Block) []Property {
	insts, err := asm.DecodeHex(b.Hex)
	if err != nil {
		return nil
	}
	var list []Property
	note := func(p Property) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	add := func(name string) { note(Property{Name: name}) }
	for i := range insts {
		in := &insts[i]
		add("instruction " + in.Mnemonic)
		shape := in.Shape()
		add("instruction " + shape)
		if SameRegisters(in.Text()) {
			add("instruction " + shape + ", the same register twice")
		}
		reads, writes := in.Accesses()
		if reads {
			add("loads")
		}
		if writes {
			add("stores")
		}
		if reads && writes {
			add("read-modify-write")
		}
	}
	if b.Category != "" {
		note(Property{"category " + b.Category, true})
	}
	if b.Bound != "" {
		note(Property{"bound by " + b.Bound, true})
	}
	if b.Forwards {
		add("store forwarding")
	}
	return list
}

// SameRegisters reports whether the last two operands are the same register, as in xor eax, eax, whose result many cores
// know without executing it.
func SameRegisters(text string) bool {
	_, operands, _ := strings.Cut(text, " ")
	list := strings.Split(operands, ", ")
	n := len(list)
	return n >= 2 && list[n-1] == list[n-2] && !strings.HasPrefix(list[n-1], "0x")
}
