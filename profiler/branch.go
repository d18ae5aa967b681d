package profiler

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/verdict"
)

// Branch is what becomes of a direct branch at the block's end.
type Branch string

const (
	NotTaken Branch = "not-taken" // it stands in each copy, with the condition on which it falls through
	Taken    Branch = "taken"     // it closes a loop of the block, until the loop ends by itself
	Drop     Branch = "drop"      // the block is measured without it
)

// Branches lists what there is.
func Branches() []Branch { return []Branch{NotTaken, Taken, Drop} }

// BranchReport says what became of the branch at the block's end.
type BranchReport struct {
	As Branch `json:"as"`
	// Inverted are the copies, from 0, from each of which on it has the opposite condition of the copy before; [0]: all copies have the opposite
	// of what the block has.
	Inverted []int `json:"inverted,omitempty"`
	// Set is what ends a loop: a register or a word of memory, with what it holds in the shorter and in the longer image.
	Set string `json:"set,omitempty"`
}

// Changed tells what was changed for it, "" if nothing was.
func (b *BranchReport) Changed() string {
	switch {
	case b.Set != "":
		return b.Set
	case len(b.Inverted) == 1 && b.Inverted[0] == 0:
		return "inverted"
	case len(b.Inverted) == 1:
		return fmt.Sprintf("inverted from copy %d on", b.Inverted[0]+1)
	case len(b.Inverted) > 0:
		return fmt.Sprintf("inverted in part of the copies: it changes %d times", len(b.Inverted))
	}
	return ""
}

// of completes the report by what the steps came to.
func (b BranchReport) of(r reached) *BranchReport {
	m := r.measured.mapped
	if m == nil {
		m = r.mapped
	}
	if m != nil {
		b.Inverted = m.Inverted
	}
	if r.loop != nil {
		m = r.loop.measured.mapped
	}
	if m != nil && m.Loop != nil && m.Loop.Exit != nil {
		x := m.Loop.Exit
		b.Set = fmt.Sprintf("%v=%#x,%#x", x, x.Value(m.Factors.Short), x.Value(m.Factors.Long))
	}
	return &b
}

// ended is the block with or without the branch at its end, and what becomes of that.
func (j job) ended(code []byte) (_ []byte, b BranchReport, err error) {
	insts, err := asm.Decode(code)
	branch, ok := asm.TrailingBranch(insts)
	if err != nil || !ok {
		return code, b, nil // what is wrong with it, decode says
	}
	switch {
	case j.Options.Branch != "":
		b.As = j.Options.Branch
	case branch.ToStart():
		b.As = Taken
	default:
		b.As = NotTaken
	}
	switch {
	case b.As == Drop && branch.Offset > 0:
		return code[:branch.Offset], b, nil
	case b.As == NotTaken && !branch.Conditional():
		err = &verdict.Rejection{Reason: verdict.ControlFlow, Detail: branch.Mnemonic + " is always taken", Inst: branch.Verdict(len(insts) - 1)}
	case branch.Offset == 0 && b.As != NotTaken:
		err = &verdict.Rejection{Reason: verdict.ControlFlow, Detail: "there is nothing but the branch", Inst: branch.Verdict(0)}
	}
	return code, b, err
}

// atItsPlace has a loop stand where in a page it stands in its program, if that is known and nothing else was asked for.
func (j *job) atItsPlace() {
	if at := j.Setup.At; j.ownLoop && at != nil && j.Setup.CodeOffset == nil {
		offset := int(*at % layout.PageSize)
		j.Setup.CodeOffset = &offset
	}
}

// asOwnLoop maps a block that is mapped as copies in a row again, as a loop that its own branch closes.
func (s *session) asOwnLoop(j job, copies *mapping.Mapped) (l looped, err error) {
	m, fits, err := copies.ByOwnBranch(max(j.Options.Copies, 1), s.cpu.FrontEnd, s.allow(mapLimit).over)
	return looped{mapped: m, warnings: crowded(fits)}, err
}
