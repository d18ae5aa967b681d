package debuggee

import (
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// dispatcher goes to the copy of the address in rcx, whose own value is saved. Without a copy it stops at miss.
func (a *arena) dispatcher() []byte {
	e := asm.NewEmitter(a.dispatch)
	putBack := func() {
		e.Load(asm.RAX, a.base+wordRAX)
		e.Load(asm.RDX, a.base+wordRDX)
		e.Load(asm.RCX, a.base+wordRCX)
	}
	e.Store(a.base+wordTarget, asm.RCX)
	e.Store(a.base+wordRDX, asm.RDX)
	e.Store(a.base+wordRAX, asm.RAX)
	e.Raw(0x0f, 0xb7, 0xd1)       // movzx edx, cx
	e.Raw(0x48, 0x8d, 0x14, 0x12) // lea rdx, [rdx+rdx]
	e.Lea(asm.RAX, a.base+tableAt)
	e.Raw(0x48, 0x8d, 0x04, 0xd0) // lea rax, [rax+8*rdx]
	e.Raw(0x48, 0x8b, 0x10)       // mov rdx, [rax]
	e.Raw(0x48, 0x8d, 0x0c, 0x11) // lea rcx, [rcx+rdx]
	e.Raw(0xe3, 22)               // jrcxz past three loads of 7 bytes and int3
	putBack()
	a.miss = e.PC()
	e.Int3()
	e.LoadAt(asm.RCX, asm.RAX, 8)
	e.Store(a.base+wordCopy, asm.RCX)
	putBack()
	e.JmpMem(a.base + wordCopy)
	return e.Bytes()
}

// An original is an instruction that can be copied.
type original struct {
	asm.Inst
	asm.Step
	at uint64
}

// copyable decodes code up to a branch, or to what only a step can execute.
func (a *arena) copyable(at uint64, code []byte) (list []original) {
	for len(code) > 0 {
		step, err := asm.StepOver(code)
		if err != nil || step.Length > len(code) {
			break
		}
		insts, err := asm.Decode(code[:step.Length])
		if err != nil || !a.takes(insts, step, at) {
			break
		}
		list = append(list, original{insts[0], step, at})
		if step.Flow != asm.FlowNext {
			break
		}
		at, code = at+uint64(step.Length), code[step.Length:]
	}
	return list
}

func (a *arena) takes(one []asm.Inst, step asm.Step, at uint64) bool {
	in := &one[0]
	const addressSize, repne, rep = 0x67, 0xf2, 0xf3
	if step.RIPDisp > 0 && (slices.Contains(in.Bytes[:step.RIPDisp], addressSize) || !within(in.RIPOperand(at), a.base, operands)) {
		return false
	}
	switch first := in.Bytes[0]; step.Flow {
	case asm.FlowSystem, asm.FlowTrap:
		return false
	case asm.FlowBranch, asm.FlowJump:
		_, ok := asm.TrailingBranch(one)
		return ok
	case asm.FlowCall:
		return first == 0xe8
	case asm.FlowReturn:
		return first == 0xc3 || first == 0xc2 || (first == rep || first == repne) && in.Bytes[1] == 0xc3
	case asm.FlowJumpIndirect, asm.FlowCallIndirect:
		load, _ := targetLoad(in)
		return load != nil
	}
	// What sets rsp to an address may be a longjmp or another thread of the program's own.
	switch _, writes := in.Dataflow(); {
	case strings.HasPrefix(in.Mnemonic, "pushf") || strings.HasPrefix(in.Mnemonic, "popf"): // the trap flag
		return false
	case in.Mnemonic == "pop":
		return in.Text() != "pop rsp"
	case writes.GPR&(1<<asm.RSP) != 0:
		return slices.Contains([]string{"push", "add", "sub", "and", "lea", "leave"}, in.Mnemonic)
	}
	return true
}

// targetLoad returns mov rcx, OPERAND for an indirect jump or call, and its RIPDisp; nil if it has none.
func targetLoad(in *asm.Inst) (load []byte, ripDisp int) {
	rex := byte(0x48) // W
	for i, b := range in.Bytes {
		switch {
		case b == 0xff && i+1 < len(in.Bytes):
			modrm := in.Bytes[i+1]
			if digit := modrm >> 3 & 7; digit != 2 && digit != 4 { // far ones
				return nil, 0
			}
			load = append(load, rex, 0x8b, modrm&^0x38|byte(asm.RCX)<<3)
			if in.RIPDisp > 0 {
				ripDisp = len(load)
			}
			return append(load, in.Bytes[i+2:]...), ripDisp
		case b>>4 == 4: // REX
			rex |= b
		case b == 0x64 || b == 0x65: // fs, gs
			load = append(load, b)
		case b != 0x3e && b != 0xf2: // notrack, bnd
			return nil, 0
		}
	}
	return nil, 0
}

// emit makes the copy of instructions at the arena's free end.
func (c *copies) emit(a *arena, list []original) []byte {
	e := asm.NewEmitter(a.free)
	e.Store(a.base+wordRCX, asm.RCX)
	e.Load(asm.RCX, a.base+wordLeft)
	e.Raw(0x48, 0x8d, 0x49, 0xff) // lea rcx, [rcx-1]
	e.Store(a.base+wordLeft, asm.RCX)
	e.Raw(0xe3, 2, 0xeb, 8) // jrcxz to the load and int3, of 8 bytes, that jmp skips
	e.Load(asm.RCX, a.base+wordRCX)
	c.stops[e.PC()] = stop{orig: list[0].at, pass: true}
	e.Int3()
	e.Load(asm.RCX, a.base+wordCount)
	e.Raw(0x48, 0x8d, 0x89, byte(len(list)), byte(len(list)>>8), 0, 0) // lea rcx, [rcx+n]
	e.Store(a.base+wordCount, asm.RCX)
	e.Load(asm.RCX, a.base+wordRCX)
	push := func(v uint64, jump uint64) {
		const jumpBytes = 5
		e.RawRelative(2, 0xff, 0x35, jumpBytes, 0, 0, 0) // push what stands after the jump
		e.Jmp(jump)
		e.Raw(word(v)...)
	}
	for i := range list {
		in := &list[i]
		at := origin{in.at, uint64(len(list) - i)}
		c.origins[e.PC()] = at
		next := in.at + uint64(in.Length)
		target := next + uint64(in.Target)
		switch in.Flow {
		case asm.FlowBranch, asm.FlowJump:
			if branch, _ := asm.TrailingBranch([]asm.Inst{in.Inst}); branch.Conditional() {
				branch.EmitFar(e, c.jump(a, target))
				e.Jmp(c.jump(a, next))
			} else {
				e.Jmp(c.jump(a, target))
			}
			return e.Bytes()
		case asm.FlowCall:
			push(next, c.jump(a, target))
			return e.Bytes()
		case asm.FlowReturn:
			e.Store(a.base+wordRCX, asm.RCX)
			c.origins[e.PC()] = at
			e.Raw(0x59) // pop rcx
			if in.Bytes[0] == 0xc2 {
				e.Raw(0x48, 0x8d, 0xa4, 0x24, in.Bytes[1], in.Bytes[2], 0, 0) // lea rsp, [rsp+n]
			}
			e.Jmp(a.dispatch)
			return e.Bytes()
		case asm.FlowJumpIndirect, asm.FlowCallIndirect:
			e.Store(a.base+wordRCX, asm.RCX)
			c.origins[e.PC()] = at
			load, ripDisp := targetLoad(&in.Inst)
			e.Moved(in.RIPOperand(in.at), ripDisp, load...)
			if in.Flow == asm.FlowCallIndirect {
				push(next, a.dispatch)
			} else {
				e.Jmp(a.dispatch)
			}
			return e.Bytes()
		}
		e.Moved(in.RIPOperand(in.at), in.Inst.RIPDisp, in.Bytes...)
	}
	last := &list[len(list)-1]
	e.Jmp(c.jump(a, last.at+uint64(last.Length)))
	return e.Bytes()
}

// jump returns where a copy goes on to an address: that one's copy, or a stub of the arena's.
func (c *copies) jump(a *arena, orig uint64) uint64 {
	if at := c.at[orig]; at != 0 && within(at, a.base, math.MaxInt32-arenaSize) {
		return at
	}
	if a.stubs[orig] == 0 {
		a.end -= stubBytes
		a.stubs[orig] = a.end
		a.fresh = append(a.fresh, orig)
	}
	return a.stubs[orig]
}
