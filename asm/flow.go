package asm

// Flow is where an instruction passes control to.
type Flow uint8

const (
	FlowNext         Flow = iota // the next instruction
	FlowBranch                   // the target or the next one: jcc, loop, jrcxz, xbegin
	FlowJump                     // the target
	FlowJumpIndirect             // an address from a register or memory
	FlowCall                     // the target, and later the next one
	FlowCallIndirect
	FlowReturn
	FlowSystem // the kernel, and later the next one: syscall, sysenter, int
	FlowTrap   // an exception handler: ud2, int3, hlt
)

// Ends reports whether nothing passes control on to the next instruction.
func (f Flow) Ends() bool {
	return f == FlowJump || f == FlowJumpIndirect || f == FlowReturn || f == FlowTrap
}

// A Step holds the properties of an instruction that a walk through code needs.
type Step struct {
	Length  int
	Flow    Flow
	Target  int64 // of a branch, jump or call, from the next instruction on
	RIPDisp int   // as in Inst
	Repeats bool  // a string instruction with a rep prefix
	Pads    bool  // fills room between pieces of code: nop, int3
	Endbr   bool  // endbr64, which marks the target of an indirect jump or call
}

var flows = map[string]Flow{
	"jmp": FlowJumpIndirect, "call": FlowCallIndirect, // where they have no displacement
	"ret": FlowReturn, "retf": FlowReturn, "iret": FlowReturn, "uiret": FlowReturn, "sysret": FlowReturn, "sysexit": FlowReturn,
	"syscall": FlowSystem, "sysenter": FlowSystem, "int": FlowSystem,
	"int3": FlowTrap, "int1": FlowTrap, "ud0": FlowTrap, "ud1": FlowTrap, "ud2": FlowTrap, "hlt": FlowTrap,
}

// StepOver decodes the first instruction of code, without what Decode finds out about its operands. It allocates
// nothing.
func StepOver(code []byte) (Step, error) {
	var d rawInst
	if err := d.decode(code); err != nil {
		return Step{}, err
	}
	return d.step(), nil
}

func (d *rawInst) step() Step {
	name := d.form.name
	s := Step{
		Length: int(d.length), Flow: flows[name], RIPDisp: int(d.ripDisp),
		Pads: name == "nop" || name == "int3", Endbr: name == "endbr64",
	}
	for _, o := range d.form.ops {
		switch o.kind {
		case opRel:
			s.Target = d.imm[0]
			switch name {
			case "jmp":
				s.Flow = FlowJump
			case "call":
				s.Flow = FlowCall
			default:
				s.Flow = FlowBranch
			}
		case opX, opY:
			s.Repeats = d.rep != 0
		}
	}
	return s
}
