package profiler

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// Branch selects the treatment of a direct branch at the block's end.
type Branch string

const (
	NotTaken Branch = "not-taken" // each copy has it, with the condition for which it falls through
	Taken    Branch = "taken"     // it closes a loop of the block, until the loop ends by itself
	Drop     Branch = "drop"      // measure the block without it
)

// Branches lists all treatments.
func Branches() []Branch { return []Branch{NotTaken, Taken, Drop} }

// For returns the treatment of this branch: by default it closes a loop if it leads to the block's own start.
func (b Branch) For(branch asm.Branch) Branch {
	switch {
	case b != "":
		return b
	case branch.ToStart():
		return Taken
	}
	return NotTaken
}

// BranchReport describes the treatment of the branch at the block's end.
type BranchReport struct {
	As Branch `json:"as"`
	// Inverted lists the copies, from 0, at which the condition is inverted, for all copies from there on; [0]: all copies have the inverse of
	// the block's condition.
	Inverted []int `json:"inverted,omitempty"`
	// Set names the register or word of memory that ends a loop, with its values for the most iterations of the shorter and the longer image.
	Set string `json:"set,omitempty"`
}

// Changed describes what was changed for the branch, if anything.
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

// complete completes the report with the results of the steps.
func (b BranchReport) complete(p progress) *BranchReport {
	m := p.mapped()
	if m != nil {
		b.Inverted = m.Inverted
	}
	if m != nil && m.Loop != nil && m.Loop.Exit != nil {
		x := m.Loop.Exit
		b.Set = fmt.Sprintf("%v=%#x,%#x", x, x.Value(m.Factors.Short), x.Value(m.Factors.Long))
	}
	return &b
}

// trailingBranch returns the block with or without its final branch, and the branch's treatment.
func (j job) trailingBranch(code []byte) (_ []byte, b BranchReport, err error) {
	insts, err := asm.Decode(code)
	branch, ok := asm.TrailingBranch(insts)
	if err != nil || !ok {
		return code, b, nil // decode reports invalid code
	}
	b.As = j.Options.Branch.For(branch)
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

// keepCodeOffset places a loop at the offset in a page that it has in its program, if that is known and the user set no other.
func (j *job) keepCodeOffset() {
	at := j.Setup.Address
	if c := j.Setup.Captured; c != nil {
		at = &c.Address
	}
	if j.ownLoop && at != nil && j.Setup.CodeOffset == nil {
		offset := int(*at % layout.PageSize)
		j.Setup.CodeOffset = &offset
	}
}
