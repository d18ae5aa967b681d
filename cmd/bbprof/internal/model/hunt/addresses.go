package hunt

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// Case is a block with the values that some registers start with, such as "rdi=0x12366508"; "" where the state Survey
// has says all.
type Case struct{ Hex, Set string }

// piece is an instruction of a block, by its number, or code in its place.
type piece struct {
	of   int
	code []byte // nil: as it is
}

// rebuild is a block of some of the instructions, whose accesses go where they went before. nil where that cannot be had: a
// stall that only the missing instructions bring about, such as a load that now overlaps a store, is no mistake of a model.
func (b *block) rebuild(pieces []piece) *block {
	var code []byte
	for _, p := range pieces {
		one := p.code
		if one == nil {
			one = b.insts[p.of].Bytes
		}
		end := len(code) + len(one)
		if at := b.insts[p.of].RIPDisp; p.code == nil && at > 0 {
			disp := b.relative(p.of) - int64(end)
			if disp < math.MinInt32 || disp > math.MaxInt32 {
				return nil
			}
			one = slices.Clone(one)
			binary.LittleEndian.PutUint32(one[at:], uint32(disp))
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

// relative is where the rip-relative operand of an instruction is, from the block's start.
func (b *block) relative(i int) int64 {
	in := &b.insts[i]
	return int64(in.Offset+len(in.Bytes)) + int64(int32(binary.LittleEndian.Uint32(in.Bytes[in.RIPDisp:])))
}

// followed is how many copies of a block are followed. The first is left out: what a later copy takes from the one before,
// it has from the initial state.
const followed = 5

// addresses are those of an instruction's accesses in all copies, by instruction.
func (b *block) addresses() [][]asm.Followed {
	state := b.state()
	start := asm.Start{Regs: asm.Regs{GPR: state.GPR, RIP: codePage, FSBase: state.FSBase, GSBase: state.GSBase}, Fill: state.Fill}
	all := make([][]asm.Followed, len(b.insts))
	for _, f := range asm.Follow(b.insts, followed, start) {
		all[f.Inst] = append(all[f.Inst], f)
	}
	for i := range all {
		all[i] = all[i][len(b.insts[i].Mem):]
	}
	return all
}

// state is what the block starts from.
func (b *block) state() initial.State {
	state, _ := initial.Named(surveyState)
	if set, err := initial.ParseSet(b.set); err == nil { // not of an empty one
		state = set.Over(state)
	}
	return state
}

const (
	surveyState = "distinct"
	codePage    = 0x2000_0000 // any page, for rip-relative operands
)

// agrees reports whether the instructions of b that r still has access what they access in b. It is also what division
// and square roots take longer for that has to come from the same instructions: the values.
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
				// the stack moves by less in each copy, and nothing loads what is pushed
			case was.Known != is.Known || was.Known && was.Addr != is.Addr:
				return false
			case !was.Known && b.changed(p.of, pieces):
				return false
			}
		}
	}
	return true
}

// freeOfStalls reports whether no load can wait for a store, by the low 12 bits of their addresses.
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

// changed reports whether what an instruction waits for, directly or through others, comes from one that is not among the
// pieces as it was.
func (b *block) changed(of int, pieces []piece) bool {
	loads := slices.ContainsFunc(pieces, func(p piece) bool { return b.reach[p.of][of] && accesses(&b.insts[p.of], false) }) || accesses(&b.insts[of], false)
	for i := range b.insts {
		if i == of || slices.ContainsFunc(pieces, func(p piece) bool { return p.of == i && p.code == nil }) {
			continue
		}
		if b.reach[i][of] || loads && accesses(&b.insts[i], true) {
			return true
		}
	}
	return false
}

func accesses(in *asm.Inst, write bool) bool {
	return slices.ContainsFunc(in.Mem, func(m asm.Mem) bool { return m.Write && write || m.Read && !write })
}

// repair sets the registers that r never writes, and that accesses went by in b, to what they held there.
func (b *block) repair(r *block, pieces []piece) bool {
	state := r.state()
	values := map[int]uint64{}
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
					values[reg] = state.GPR[reg] + uint64(by/part.scale)
					break
				}
			}
		}
	}
	var texts []string
	for reg, v := range values {
		texts = append(texts, fmt.Sprintf("%s=%#x", asm.GPR(reg), v))
	}
	if len(texts) == 0 {
		return false
	}
	slices.Sort(texts)
	set, err := initial.ParseSet(strings.Join(texts, ","))
	if r.set != "" {
		old, _ := initial.ParseSet(r.set)
		set = old.With(set)
	}
	r.set = set.String()
	return err == nil
}

// writes reports whether an instruction writes a general register.
func (b *block) writes(reg int) bool {
	return slices.ContainsFunc(b.insts, func(in asm.Inst) bool {
		_, writes := in.Dataflow()
		return writes.GPR>>reg&1 != 0
	})
}
