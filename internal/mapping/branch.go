package mapping

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// invert inverts the condition of the block's final branch from the copy on at which a dry run took it; taken is false if the child
// stopped for another reason. Earlier copies behave as before, so each stop is at a later copy.
func (m *Mapping) invert(p Plan, im harness.Image, stop tracee.Stop) (taken bool, err error) {
	copy, taken := im.Taken(stop.Regs.RIP)
	if !taken || stop.Signal != tracee.SIGTRAP {
		return false, nil
	}
	if im.Own {
		m.unrun = int(stop.Regs.GPR[asm.RCX])
		return false, []error{errEarly, errGoesOn}[copy]
	}
	branch, _ := asm.TrailingBranch(p.Insts)
	n := len(m.Inverted)
	if !branch.Invertible() || n > 0 && copy <= m.Inverted[n-1] {
		return false, &verdict.Rejection{Reason: verdict.ControlFlow, Inst: branch.Verdict(len(p.Insts) - 1), Detail: fmt.Sprintf(
			"copy %d takes the branch, and no branch has the opposite condition of %s", copy+1, branch.Mnemonic)}
	}
	im.Invert(copy)
	m.Inverted = append(m.Inverted, copy)
	return true, nil
}
