package hunt

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// Case is a block with initial values of some registers, such as "rdi=0x12366508"; Set is "" if Survey's initial state
// suffices.
type Case struct {
	Hex string `json:"hex"`
	Set string `json:"set,omitempty"`
}

// piece is an instruction of a block, or code that replaces it.
type piece struct {
	of   int
	code []byte // nil: unchanged
}

// rebuild makes a block of some of the instructions whose accesses keep their addresses. It returns nil if that is
// impossible: a stall that appears only because instructions are missing, such as a load that now overlaps a store, is
// not the model's mistake.
func (b *block) rebuild(pieces []piece) *block {
	var code []byte
	for _, p := range pieces {
		one, ok := p.code, true
		if one == nil {
			in := &b.insts[p.of]
			one, ok = in.MovedBy(int64(len(code) - in.Offset))
		}
		if !ok {
			return nil
		}
		code = append(code, one...)
	}
	r := newBlock(hex.EncodeToString(code))
	if r == nil || len(r.insts) != len(pieces) {
		return nil
	}
	r.set = b.set
	if b.agrees(r, pieces) || b.repair(r, pieces) && b.agrees(r, pieces) {
		return r
	}
	return nil
}

// followed is the number of copies that are simulated. The first is ignored: it reads from the initial state what later
// copies read from the copy before.
const followed = 5

// addresses returns the accesses of each instruction in all copies but the first.
func (b *block) addresses() [][]asm.Followed {
	all := make([][]asm.Followed, len(b.insts))
	for _, f := range asm.Follow(b.insts, followed, b.state().StartAt(codePage)) {
		all[f.Inst] = append(all[f.Inst], f)
	}
	for i := range all {
		all[i] = all[i][len(b.insts[i].Mem):]
	}
	return all
}

func (b *block) state() initial.State {
	state, _ := initial.Named(surveyState)
	if set, err := initial.ParseSet(b.set); err == nil { // fails if empty
		state = set.Over(state)
	}
	return state
}

const (
	surveyState = "distinct"
	codePage    = 0x2000_0000 // any page, for rip-relative operands
)

// agrees reports whether the instructions of b that remain in r keep their addresses. Divisions and square roots must
// also keep their inputs' sources, since their time depends on values.
func (b *block) agrees(r *block, pieces []piece) bool {
	before, after := b.addresses(), r.addresses()
	for k, p := range pieces {
		if slow := b.insts[p.of].Mnemonic; (strings.Contains(slow, "div") || strings.Contains(slow, "sqrt")) && b.changed(p.of, pieces) {
			return false
		}
		if p.code != nil {
			continue
		}
		for n, was := range before[p.of] {
			switch is := after[k][n]; {
			case was.Known && is.Known && b.insts[p.of].Mem[was.Mem].Implicit && b.insts[p.of].Mnemonic == "push" && b.freeOfStalls() && r.freeOfStalls():
				// the stack moves less per copy, and nothing loads what is pushed
			case was.Known != is.Known || was.Known && was.Addr != is.Addr:
				return false
			case !was.Known && b.changed(p.of, pieces):
				return false
			}
		}
	}
	return true
}

// freeOfStalls reports whether no load can wait for a store, judging by the low 12 address bits.
func (b *block) freeOfStalls() bool {
	const page = 1 << 12
	all := slices.Concat(b.addresses()...)
	mem := func(f asm.Followed) *asm.Mem { return &b.insts[f.Inst].Mem[f.Mem] }
	return !slices.ContainsFunc(all, func(load asm.Followed) bool {
		return !load.Known || mem(load).Read && slices.ContainsFunc(all, func(store asm.Followed) bool {
			between := (store.Addr - load.Addr) % page
			return mem(store).Write && (between < uint64(mem(load).Width) || page-between < uint64(mem(store).Width))
		})
	})
}

// changed reports whether an instruction depends, directly or not, on one that the pieces lack or replace.
func (b *block) changed(of int, pieces []piece) bool {
	reads := func(i int) bool { loads, _ := b.insts[i].Accesses(); return loads }
	loads := reads(of) || slices.ContainsFunc(pieces, func(p piece) bool { return b.reach[p.of][of] && reads(p.of) })
	for i := range b.insts {
		if i == of || slices.ContainsFunc(pieces, func(p piece) bool { return p.of == i && p.code == nil }) {
			continue
		}
		if _, stores := b.insts[i].Accesses(); b.reach[i][of] || loads && stores {
			return true
		}
	}
	return false
}

// repair restores addresses: it sets registers that r never writes to the values they had in b.
func (b *block) repair(r *block, pieces []piece) bool {
	state := r.state()
	var set initial.Set
	before, after := b.addresses(), r.addresses()
	for k, p := range pieces {
		if p.code != nil {
			continue
		}
		for n, was := range before[p.of] {
			is, m := after[k][n], &r.insts[k].Mem[n%len(r.insts[k].Mem)]
			by := int64(was.Addr - is.Addr)
			if !was.Known || !is.Known || by == 0 {
				continue
			}
			for _, part := range []struct {
				reg   asm.Register
				scale int64
			}{{m.Base, 1}, {m.Index, int64(m.Scale)}} {
				if reg, ok := part.reg.GPR(); ok && b.writes(reg) && !r.writes(reg) && by%part.scale == 0 {
					one, _ := initial.ParseSet(fmt.Sprintf("%s=%#x", asm.GPR(reg), state.GPR[reg]+uint64(by/part.scale)))
					set = set.With(one)
					break
				}
			}
		}
	}
	old, _ := initial.ParseSet(r.set) // fails if empty
	r.set = old.With(set).String()
	return len(set) > 0
}

func (b *block) writes(reg int) bool {
	return slices.ContainsFunc(b.insts, func(in asm.Inst) bool {
		_, writes := in.Dataflow()
		return writes.GPR>>reg&1 != 0
	})
}
