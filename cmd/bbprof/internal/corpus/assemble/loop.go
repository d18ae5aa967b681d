package assemble

import "github.com/bbprof/bbprof/asm"

// LoopBody is a block without the branch to its own start at its end, and that branch's mnemonic; "" if it has none.
func LoopBody(code []byte) (body []byte, branch string) {
	insts, err := asm.Decode(code)
	if err != nil || len(insts) < 2 {
		return code, ""
	}
	last := &insts[len(insts)-1]
	step, err := asm.StepOver(last.Bytes)
	if err != nil || step.Flow != asm.FlowBranch && step.Flow != asm.FlowJump || step.Target != -int64(len(code)) {
		return code, ""
	}
	return code[:last.Offset], last.Mnemonic
}
