// Package values finds out whether a block's time depends on the values of its operands. It varies one input at a
// time (registers, flags, words of memory), and then all together, and measures all values in turn.
//
//	measure the block → its inputs → put back what it overwrites → measure every value, round by round
//	→ the difference from the fixed value, with a joint interval → an outcome for each input
//
// A value that changes the addresses of accesses is told apart from one that does not: what it costs is banks, lines
// and aliases.
package values

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Outcome of an input.
type Outcome string

const (
	Depends   Outcome = "depends"   // some value changes the time
	NoEffect  Outcome = "no effect" // none does by more than Finding.Within
	Unclear   Outcome = "unclear"   // the intervals are too wide to tell
	Addresses Outcome = "addresses" // values change addresses, whatever that costs
	Untried   Outcome = "untried"   // no value could be measured
)

// Sweep is the result for one block. Cycles are per iteration.
type Sweep struct {
	Base profiler.Result `json:"base"` // of the block as it is
	// Dependent and Independent are the block with instructions that put its inputs back, so that iterations wait for
	// one another, and so that they do not. They are equal where nothing is put back.
	Dependent   string    `json:"dependent,omitempty"`
	Independent string    `json:"independent,omitempty"`
	Rounds      int       `json:"rounds"`
	Points      []Point   `json:"points"`
	Inputs      []Finding `json:"inputs"`
	// Beyond is the block's remaining input that was not varied, if any.
	Beyond []string `json:"not_varied,omitempty"`
}

// Point is one value of one input. The first of each kind of iterations is the fixed value of all inputs, and the
// second the same again.
type Point struct {
	Input  string         `json:"input"`
	Waits  bool           `json:"dependent"` // measured as Sweep.Dependent
	Values string         `json:"values"`    // their kind
	Set    string         `json:"set"`       // the values, as -set and -mem read them
	Status string         `json:"status"`
	Reason verdict.Reason `json:"reason,omitempty"`
	Moved  bool           `json:"addresses_changed,omitzero"`
	Cycles float64        `json:"cycles,omitzero"` // mean over rounds
	Effect float64        `json:"effect,omitzero"` // against the fixed value
	Low    float64        `json:"effect_low,omitzero"`
	High   float64        `json:"effect_high,omitzero"`
}

// Measured reports whether a point has cycles: it and the fixed value were measured in enough rounds.
func (p Point) Measured() bool { return p.Status == string(profiler.OK) }

// Share is the effect as a share of the cycles with the fixed value.
func (p Point) Share() float64 { return p.Effect / (p.Cycles - p.Effect) }

// Finding is the outcome for an input, or for all together.
type Finding struct {
	Input
	Outcome Outcome `json:"outcome"`
	// Within is the largest effect, as a share of the cycles, that the intervals of its points allow.
	Within float64 `json:"within,omitzero"`
	// Fastest and Slowest are the points with the least and the greatest effect as a share, indices of Sweep.Points; -1:
	// none.
	Fastest int `json:"fastest"`
	Slowest int `json:"slowest"`
}

// DefaultRounds gives joint intervals of a few tenths of a percent for some 40 values on an idle core.
const DefaultRounds = 10

// LeastRounds is the fewest rounds for Student's interval.
const LeastRounds = 3

// leastEffect is the smallest effect, as a share of the cycles, that is called one. Set-ups that differ in nothing
// that matters differ by 0.2 % between child runs (docs/method.md, "How the mean is made"), here in each of two means.
const leastEffect = 0.01

// All is the name of the points that give all data inputs a value at once.
const All = "all"

// Run sweeps the values of a block's inputs. The profiler's results must have details (profiler.Options.Detail). The
// result of a block that is rejected has no points.
func Run(ctx context.Context, p pool.Profiler, b profiler.Block, plan experiment.Plan) (Sweep, error) {
	s, _, err := run(ctx, p, b, plan)
	return s, err
}

func run(ctx context.Context, p pool.Profiler, b profiler.Block, plan experiment.Plan) (s Sweep, all []arm, err error) {
	s.Rounds = plan.Rounds
	base := b // its state counts, not its time
	base.Setup.Tolerate = append(slices.Clone(b.Setup.Tolerate), verdict.Unstable, verdict.Nonlinear)
	if s.Base, err = pool.Undisturbed(ctx, p, base); err != nil || s.Base.Status != profiler.OK {
		return s, nil, err
	}
	insts, err := asm.Decode(b.Code)
	if err != nil {
		return s, nil, err
	}
	start := startOf(b, s.Base)
	inputs := inputsOf(insts, start.state, start.address)
	code := refresh(b.Code, insts, inputs, b.Setup.Captured == nil)
	s.Dependent, s.Independent = hex.EncodeToString(code.dependent), hex.EncodeToString(code.independent)
	s.Beyond = beyond(insts)
	if all, err = arms(inputs, code, start, plan.Seed); err != nil {
		return s, nil, err
	}
	results, err := experiment.Run(ctx, len(all), plan, func(ctx context.Context, i int) (profiler.Result, error) {
		r, err := pool.Undisturbed(ctx, p, all[i].block())
		if err == nil && r.Status == profiler.Failed {
			err = fmt.Errorf("%s %s: %s", all[i].Input, all[i].Values, r.Failure)
		}
		return r, err
	})
	if err != nil {
		return s, nil, err
	}
	s.conclude(all, results)
	for _, in := range inputs {
		s.Inputs = append(s.Inputs, s.finding(in))
	}
	if slices.ContainsFunc(s.Points, func(p Point) bool { return p.Input == All }) {
		s.Inputs = append(s.Inputs, s.finding(Input{Name: All, Role: Data}))
	}
	return s, all, nil
}

// Contrast is a block with fixed values of what it reads, and with the values that change its time the most. Both put back what they overwrite.
type Contrast struct {
	Input, Values, Set string
	Fixed, Changed     profiler.Block
}

// Farthest looks for the values of data, not of pointers, that change a block's time the most. ok is false if it reads none. The difference is
// for the caller to measure: that of the values which were found is biased.
func Farthest(ctx context.Context, p pool.Profiler, b profiler.Block, plan experiment.Plan) (c Contrast, ok bool, err error) {
	s, all, err := run(ctx, p, b, plan)
	if err != nil {
		return c, false, err
	}
	data := map[string]bool{}
	for _, f := range s.Inputs {
		data[f.Name] = f.Role == Data
	}
	fixed, most := 0, -1.0
	for i, point := range s.Points {
		if i > 0 && point.Waits != s.Points[i-1].Waits {
			fixed = i
		}
		if off := math.Abs(point.Share()); data[point.Input] && point.Measured() && !point.Moved && off > most {
			c, most = Contrast{point.Input, point.Values, point.Set, all[fixed].block(), all[i].block()}, off
		}
	}
	return c, most >= 0, nil
}

// beyond lists what a block reads that is not varied.
func beyond(insts []asm.Inst) (list []string) {
	for i := range insts {
		if reads, _ := insts[i].Dataflow(); reads.X87 {
			return []string{"x87 and MMX registers"}
		}
	}
	return nil
}

// start is where a block starts from.
type start struct {
	setup   profiler.Setup
	state   initial.State
	address uint64
}

// startOf returns the state in which the block was measured, as the only one.
func startOf(b profiler.Block, base profiler.Result) start {
	s := start{setup: b.Setup, state: base.Init}
	if b.Setup.Address != nil {
		s.address = *b.Setup.Address
	}
	if c := b.Setup.Captured; c != nil {
		s.state, s.address = c.State, c.Address
		s.state.Fill = 0 // so that no word of its memory is taken for a pointer
	}
	s.setup.SameCode = true
	s.setup.Tolerate = append(s.setup.Tolerate, verdict.Alias4K, verdict.AliasFrame, verdict.Misaligned)
	return s
}

// with returns the set-up with these values of registers and words of memory.
func (s start) with(set initial.Set, memory initial.Memory) profiler.Setup {
	setup := s.setup
	if c := setup.Captured; c != nil {
		changed := *c
		changed.State = set.Over(c.State)
		changed.Pages = append([]initial.Page(nil), c.Pages...)
		for _, w := range memory {
			changed.Put(w)
		}
		setup.Captured = &changed
		return setup
	}
	state := set.Over(s.state)
	state.Memory = memory
	setup.Init, setup.Set = &state, nil
	return setup
}

type arm struct {
	Point
	code  []byte
	setup profiler.Setup
}

func (a arm) block() profiler.Block { return profiler.Block{Code: a.code, Setup: a.setup} }

// arms lists the points to measure, first with dependent and then with independent iterations.
func arms(inputs []Input, block refreshed, from start, seed uint64) (all []arm, err error) {
	values, err := valuesOf(inputs, block.saved, from, seed)
	for _, a := range values {
		a.code, a.Waits = block.dependent, true
		all = append(all, a)
	}
	if len(block.saved) > 0 {
		for _, a := range values {
			a.code = block.independent
			all = append(all, a)
		}
	}
	return all, err
}

// valuesOf lists the fixed values, the same again, each value of each input, and values that all data inputs have at
// once.
func valuesOf(inputs []Input, saved map[string]string, from start, seed uint64) (all []arm, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	fixed := map[string]string{}
	for _, in := range inputs {
		// A register of zeros would itself be special, and what adds to it would not.
		switch {
		case from.setup.Captured != nil: // it holds them all
		case in.kind == vector && in.Role == Data:
			fixed[in.Name] = in.text(func() uint64 { return normal(random) })
		default:
			fixed[in.Name] = in.text(func() uint64 { return in.value(from) })
		}
	}
	add := func(input, name string, changed map[string]string) {
		if err != nil {
			return
		}
		var one arm
		one, err = from.arm(inputs, saved, fixed, changed)
		one.Input, one.Values = input, name
		all = append(all, one)
	}
	add("none", "fixed", nil)
	add("none", "the same again", nil)
	together := map[string]map[string]string{}
	var names []string
	for _, in := range inputs {
		for _, v := range in.assignments(in.value(from), random) {
			add(in.Name, v.name, map[string]string{in.Name: v.text})
			if in.Role != Data {
				continue
			}
			if together[v.name] == nil {
				together[v.name] = map[string]string{}
				names = append(names, v.name)
			}
			together[v.name][in.Name] = v.text // of several random values the last
		}
	}
	for _, name := range names {
		if len(together[name]) > 1 {
			add(All, name, together[name])
		}
	}
	return all, err
}

// value returns what an input holds in the state.
func (in Input) value(from start) uint64 {
	switch in.kind {
	case general:
		return from.state.GPR[in.number]
	case flag:
		return from.state.Flags >> [...]uint{0, 2, 4, 6, 7, 11}[in.number] & 1 // SDM vol. 1, 3.4.3.1
	case opmask:
		return from.state.Opmasks[in.number]
	case memory:
		for _, w := range from.state.Memory {
			if w.Address == in.address {
				return w.Value
			}
		}
		return from.state.Fill
	}
	return 0
}

// arm returns the point with the fixed values of all inputs but those that are changed.
func (s start) arm(inputs []Input, saved, fixed, changed map[string]string) (a arm, err error) {
	var registers, words, shown []string
	for _, in := range inputs {
		text := cmp.Or(changed[in.Name], fixed[in.Name])
		if text == "" {
			continue
		}
		if changed[in.Name] != "" {
			shown = append(shown, text)
		}
		if in.kind == memory {
			words = append(words, text)
			continue
		}
		registers = append(registers, text)
		if r := saved[in.Name]; r != "" {
			_, value, _ := strings.Cut(text, "=")
			registers = append(registers, r+"="+value)
		}
	}
	var set initial.Set
	var memory initial.Memory
	if len(registers) > 0 {
		if set, err = initial.ParseSet(strings.Join(registers, ",")); err != nil {
			return a, err
		}
	}
	if len(words) > 0 {
		if memory, err = initial.ParseMemory(strings.Join(words, ",")); err != nil {
			return a, err
		}
	}
	a.setup, a.Set = s.with(set, memory), strings.Join(shown, ",")
	return a, nil
}

// conclude computes the effect of each point within rounds.
func (s *Sweep) conclude(arms []arm, results [][]profiler.Result) {
	var fixed []profiler.Result
	tests := len(arms) - 1
	for i, of := range results {
		p := arms[i].Point
		first := i == 0 || p.Waits != arms[i-1].Waits
		if first {
			fixed = of
		}
		var cycles, effects []float64
		for round, r := range of {
			if r.Status == profiler.OK {
				cycles = append(cycles, r.Cycles)
				p.Moved = p.Moved || fixed[0].Addresses != r.Addresses
			}
			if bad := cmp.Or(r.Reason, fixed[round].Reason); bad != "" {
				p.Status, p.Reason = string(profiler.Rejected), bad
				continue
			}
			effects = append(effects, r.Cycles-fixed[round].Cycles)
		}
		if len(effects) >= LeastRounds {
			p.Status, p.Reason, p.Cycles = string(profiler.OK), "", stat.Mean(cycles)
			if !first {
				p.Effect, p.Low, p.High = experiment.Mean(effects, tests)
			}
		}
		s.Points = append(s.Points, p)
	}
}

// finding judges an input by its points.
func (s *Sweep) finding(in Input) Finding {
	f := Finding{Input: in, Outcome: Untried, Fastest: -1, Slowest: -1}
	for i, p := range s.Points {
		if p.Input != in.Name || !p.Measured() {
			continue
		}
		if f.Fastest < 0 || p.Share() < s.Points[f.Fastest].Share() {
			f.Fastest = i
		}
		if f.Slowest < 0 || p.Share() > s.Points[f.Slowest].Share() {
			f.Slowest = i
		}
		fixed := p.Cycles - p.Effect
		f.Within = max(f.Within, math.Abs(p.Low)/fixed, math.Abs(p.High)/fixed)
		least := leastEffect * fixed
		outcome := Unclear
		switch {
		case p.Moved:
			outcome = Addresses
		case p.Low > 0 && p.Effect >= least, p.High < 0 && p.Effect <= -least:
			outcome = Depends
		case p.Low > -stat.EffectShare*fixed && p.High < stat.EffectShare*fixed:
			outcome = NoEffect
		}
		if rank(outcome) > rank(f.Outcome) {
			f.Outcome = outcome
		}
	}
	return f
}

func rank(o Outcome) int {
	return map[Outcome]int{Untried: 0, NoEffect: 1, Unclear: 2, Addresses: 3, Depends: 4}[o]
}
