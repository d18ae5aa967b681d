// Package bystate measures blocks in the state in which their program reaches them and in bbprof's own states,
// and finds by single changes of a state why they differ. Pure, but for the profiler it is given.
package bystate

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Differs is the share by which the slower of two states exceeds the faster where they differ.
const Differs = 0.05

// tries is how often a block that is rejected for noise is measured.
const tries = 3

// Block is a block with a state of its program.
type Block struct {
	Code     []byte
	Function string
	Visit    string // names the state
	State    *initial.Captured
}

// Comparison is a block in the states.
type Comparison struct {
	Hex      string  `json:"hex"`
	Function string  `json:"function"`
	Visit    string  `json:"state"`
	Captured float64 `json:"captured_cycles,omitzero"`
	Paper    float64 `json:"paper_cycles,omitzero"`
	Distinct float64 `json:"distinct_cycles,omitzero"`
	// Reason is why there are no cycles in the captured state, and PaperReason likewise.
	Reason      verdict.Reason `json:"reason,omitempty"`
	PaperReason verdict.Reason `json:"paper_reason,omitempty"`
	// Failure is what failed in bbprof itself; then there are no cycles.
	Failure string `json:"failure,omitempty"`
	// Cause is of the difference from the paper's state, if there is one: what, changed alone, makes it or most of it go.
	Cause Cause `json:"cause,omitempty"`
	// Change is which change that was, and Changed the cycles with it.
	Change  string  `json:"change,omitempty"`
	Changed float64 `json:"changed_cycles,omitzero"`
}

// Cause is a kind of difference between two states.
type Cause string

const (
	EqualPointers Cause = "equal pointers" // it goes where the artificial state has distinct ones
	Address       Cause = "where a register points"
	Value         Cause = "a register's value"
	Flags         Cause = "flags"
	Subnormals    Cause = "subnormal numbers" // or another mode of MXCSR
	Vectors       Cause = "contents of vector registers"
	Memory        Cause = "contents of memory"
	Unknown       Cause = "no single change"
)

// Ratio is by how much the state of the program makes the block slower than the paper's, 1 not at all; 0 if one has no number.
func (c *Comparison) Ratio() float64 {
	if c.Captured == 0 || c.Paper == 0 {
		return 0
	}
	return c.Captured / c.Paper
}

// Apart reports whether two cycles differ by more than Differs. Where one is not known they do not.
func Apart(a, b float64) bool { return a > 0 && b > 0 && max(a, b) > (1+Differs)*min(a, b) }

// Compare measures a block in all states. If the program's gives other cycles than the paper's it looks for the cause.
// The error is the host's or ctx's: other blocks would fare no better.
func Compare(ctx context.Context, p measure.Profiler, b Block) (Comparison, error) {
	c := Comparison{Hex: hex.EncodeToString(b.Code), Function: b.Function, Visit: b.Visit}
	err := c.measure(measurer{ctx, p, b.Code}, b)
	if failure := measure.Failure(""); errors.As(err, &failure) {
		return Comparison{Hex: c.Hex, Function: c.Function, Visit: c.Visit, Failure: failure.Error()}, nil
	}
	return c, err
}

func (c *Comparison) measure(m measurer, b Block) (err error) {
	if c.Captured, c.Reason, err = m.in(profiler.Setup{Captured: b.State, Visit: b.Visit}); err != nil || c.Reason != "" {
		return err
	}
	states := initial.States()
	if c.Paper, c.PaperReason, err = m.in(profiler.Setup{Init: &states[0]}); err != nil {
		return err
	}
	if c.Distinct, _, err = m.in(profiler.Setup{Init: &states[1]}); err != nil || !Apart(c.Captured, c.Paper) {
		return err
	}
	if explains(c.Distinct, c.Captured, c.Paper) {
		c.Cause, c.Change, c.Changed = EqualPointers, "the state distinct", c.Distinct
		return nil
	}
	return c.find(m, changes(b))
}

// mostly is what share of the difference between two states a change has to make go.
const mostly = 0.8

// explains reports whether a change that gives these cycles leads from one state's to those of the other.
func explains(cycles, want, from float64) bool {
	return Apart(cycles, from) && (!Apart(cycles, want) || math.Abs(cycles-want) <= (1-mostly)*math.Abs(from-want))
}

// find tries changes until one gives the cycles of the other state.
func (c *Comparison) find(m measurer, all []change) error {
	for _, ch := range all {
		cycles, _, err := m.in(ch.setup)
		if err != nil {
			return err
		}
		want, from := c.Paper, c.Captured
		if ch.setup.Captured == nil {
			want, from = c.Captured, c.Paper
		}
		if explains(cycles, want, from) {
			c.Cause, c.Change, c.Changed = ch.cause, ch.what, cycles
			return nil
		}
	}
	c.Cause = Unknown
	return nil
}

// change is a state with one thing of the other.
type change struct {
	cause Cause
	what  string
	setup profiler.Setup
}

// changes are those to try, in turn: first of the program's state, towards the paper's, then of the paper's.
func changes(b Block) (all []change) {
	insts, err := asm.Decode(b.Code)
	if err != nil {
		return nil
	}
	paper := initial.Paper()
	captured := func(cause Cause, what string, do func(*initial.Captured)) {
		c := *b.State
		do(&c)
		all = append(all, change{cause, what, profiler.Setup{Captured: &c}})
	}
	captured(Flags, "the program's state with flags clear", func(c *initial.Captured) { c.Flags = paper.Flags })
	captured(Subnormals, "the program's state with the paper's mxcsr", func(c *initial.Captured) { c.MXCSR = paper.MXCSR })
	captured(Vectors, "the program's state with vector registers zero", func(c *initial.Captured) { c.Vectors = nil })
	registers := used(insts)
	for _, r := range registers {
		captured(r.cause(), fmt.Sprintf("the program's state with the paper's %v", r.Reg), func(c *initial.Captured) { c.GPR[r.Reg] = paper.GPR[r.Reg] })
	}
	captured(Memory, "the program's state with the paper's word in memory", func(c *initial.Captured) {
		c.Pages = slices.Clone(c.Pages)
		for i := range c.Pages {
			for at := range c.Pages[i].Data {
				c.Pages[i].Data[at] = byte(paper.Fill >> (at % 8 * 8))
			}
		}
	})
	for _, r := range registers {
		init := paper
		init.GPR[r.Reg] = b.State.GPR[r.Reg]
		all = append(all, change{r.cause(), fmt.Sprintf("the paper's state with the program's %v", r.Reg), profiler.Setup{Init: &init}})
	}
	return all
}

// register is one that a block reads before it writes it.
type register struct {
	asm.Reg
	address bool // as part of an address
}

func (r register) cause() Cause {
	if r.address {
		return Address
	}
	return Value
}

func used(insts []asm.Inst) (list []register) {
	var written asm.Values
	var live, address uint16
	for i := range insts {
		reads, writes := insts[i].Dataflow()
		live |= reads.Without(written).GPR
		for _, m := range insts[i].Mem {
			for _, part := range []asm.Register{m.Base, m.Index} {
				if n, ok := part.GPR(); ok && written.GPR>>n&1 == 0 {
					address |= 1 << n
				}
			}
		}
		written = written.Or(writes)
	}
	for r := range asm.Reg(16) {
		if live>>r&1 != 0 {
			list = append(list, register{r, address>>r&1 != 0})
		}
	}
	return list
}

// measurer measures one block in some set-ups.
type measurer struct {
	ctx  context.Context
	p    measure.Profiler
	code []byte
}

func (m measurer) in(setup profiler.Setup) (cycles float64, reason verdict.Reason, err error) {
	r, err := measure.Number(m.ctx, m.p, profiler.Block{Code: m.code, Setup: setup}, tries)
	if rejection := (*verdict.Rejection)(nil); errors.As(err, &rejection) {
		return 0, rejection.Reason, nil
	}
	return r.Cycles, "", err
}

// Summary is about all blocks of a comparison.
type Summary struct {
	Blocks   int `json:"blocks"`
	Measured int `json:"measured"` // in the program's state
	// Compared are those with a number in both states, and Apart those of them that differ by more than Differs.
	Compared int `json:"compared_with_paper"`
	Apart    int `json:"differ_from_paper"`
	// ComparedDistinct and ApartDistinct are the same for distinct pointers.
	ComparedDistinct int                    `json:"compared_with_distinct"`
	ApartDistinct    int                    `json:"differ_from_distinct"`
	Causes           map[Cause]int          `json:"causes"`
	Rejected         map[verdict.Reason]int `json:"rejected"`             // in the program's state
	Failed           int                    `json:"failed,omitzero"`      // in bbprof itself
	Incomplete       bool                   `json:"incomplete,omitempty"` // ended before the last block
	List             []Comparison           `json:"list"`                 // those that differ most from the paper's state first
}

// Summarize counts and sorts.
func Summarize(all []Comparison) Summary {
	s := Summary{Blocks: len(all), Causes: map[Cause]int{}, Rejected: map[verdict.Reason]int{}, List: slices.Clone(all)}
	for _, c := range all {
		if c.Failure != "" {
			s.Failed++
			continue
		}
		if c.Reason != "" {
			s.Rejected[c.Reason]++
			continue
		}
		s.Measured++
		if c.Paper > 0 {
			s.Compared++
		}
		if c.Distinct > 0 {
			s.ComparedDistinct++
		}
		if Apart(c.Captured, c.Distinct) {
			s.ApartDistinct++
		}
		if Apart(c.Captured, c.Paper) {
			s.Apart++
			s.Causes[c.Cause]++
		}
	}
	slices.SortStableFunc(s.List, func(a, b Comparison) int { return cmp.Compare(distance(b), distance(a)) })
	return s
}

// distance is how far a block's two states are apart, either way.
func distance(c Comparison) float64 {
	if r := c.Ratio(); r > 0 {
		return math.Abs(math.Log(r))
	}
	return -1
}
