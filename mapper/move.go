package mapper

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// lineBytes is the size of a cache line: no access of a result crosses one, and no wider alignment matters.
const lineBytes = 64

// operand is a memory operand whose address may be moved.
type operand struct {
	at    int64
	width int64 // bytes accessed, 0 for an address alone
	align int64 // the alignment that the instruction demands, 1 for none

	in   *asm.Inst // of a rip-relative operand
	move int64     // bytes to add to its displacement
}

// wants is the natural alignment of the operand's width; for an address alone, a whole line.
func (o operand) wants() int64 {
	if o.width == 0 || o.width >= lineBytes {
		return lineBytes
	}
	return max(o.align, 1<<bits.Len64(uint64(o.width-1)))
}

// harmed reports whether the moved operand makes its instruction fault or cross a line.
func (o operand) harmed(move int64) bool {
	at := o.at + move
	return at&(o.align-1) != 0 || o.width > 0 && at>>6 != (at+min(o.width, lineBytes)-1)>>6
}

// bestMove finds the smallest distance that minimises, in this order, the operands that fault or cross a line, the
// accesses without natural alignment, and the addresses without it. harmed counts the operands that still fault or
// cross a line.
func bestMove(operands []operand) (move int64, harmed int) {
	best := [3]int{math.MaxInt}
	for by := range int64(lineBytes) {
		var cost [3]int
		for _, o := range operands {
			if o.harmed(by) {
				cost[0]++
			}
			if (o.at+by)&(o.wants()-1) != 0 {
				which := 1
				if o.width == 0 {
					which = 2
				}
				cost[which]++
			}
		}
		if slices.Compare(cost[:], best[:]) < 0 {
			best, move = cost, by
		}
	}
	return move, best[0]
}

// Movable reports whether other initial registers may avoid a rejection for this reason.
func Movable(reason verdict.Reason) bool {
	return slices.Contains([]verdict.Reason{verdict.Misaligned, verdict.UnalignedOperand, verdict.Alias4K}, reason)
}

// Mover moves registers of the initial state of a block.
type Mover struct {
	Insts       []asm.Inst
	Copies      int // in the longer image
	StoreBuffer int // entries: a load can alias with this many earlier stores
}

// Move moves registers of the state so that fewer accesses violate a movable reason's rule. Registers that the user
// has set stay. ok is false if no register helps.
func (m Mover) Move(state initial.State, reason verdict.Reason) (_ initial.State, ok bool) {
	users, err := initial.ParseSet(state.Set)
	if err != nil && state.Set != "" {
		return state, false
	}
	best, copies := withinLine, alignCopies
	if reason == verdict.Alias4K {
		best, copies = m.withinPage, m.Copies
	}
	var set []string
	next, reads := state, asm.StateOf(m.Insts).GPRRead
	unmoved := asm.Follow(m.Insts, copies, next.StartAt(layout.Home))
	if reason == verdict.Alias4K {
		copies = m.enough(unmoved, copies)
	}
	for r := asm.RAX; r <= asm.R15; r++ {
		if users.Names(r) || reads>>r&1 == 0 {
			continue
		}
		if by := best(m.followed(next, r, copies, unmoved)); by != 0 {
			next.GPR[r] += by
			set = append(set, fmt.Sprintf("%s=%#x", r, next.GPR[r]))
			unmoved = asm.Follow(m.Insts, copies, next.StartAt(layout.Home))
		}
	}
	if len(set) == 0 {
		return state, false
	}
	more, err := initial.ParseSet(strings.Join(set, ","))
	if err != nil {
		return state, false
	}
	return more.With(users).Over(state), true
}

// alignCopies is the number of copies examined for alignment: a block that advances by 4 bytes a copy passes a line in them.
const alignCopies = lineBytes / 4

// withinLine is the distance, in bytes, to move the accesses that follow a register so that the fewest cross a line
// or lack the alignment that their instruction demands; 0 if none does.
func withinLine(all []following) uint64 {
	var operands []operand
	harmed := false
	for _, a := range all {
		if !a.carried {
			continue
		}
		o := operand{at: int64(a.addr), width: int64(a.Width), align: 1}
		if !a.Implicit {
			o.align = max(1, a.align)
		}
		operands = append(operands, o)
		harmed = harmed || o.harmed(0)
	}
	if !harmed {
		return 0
	}
	by, _ := bestMove(operands)
	return uint64(by)
}

// withinPage is the distance, in whole lines, to move the accesses that follow a register so that the fewest loads
// alias an earlier store; 0 if none does.
func (m Mover) withinPage(all []following) (best uint64) {
	if !slices.ContainsFunc(all, func(a following) bool { return a.carried }) {
		return 0
	}
	fewest := aliases(all, 0, m.StoreBuffer)
	for by := uint64(lineBytes); by < layout.PageSize && fewest > 0; by += lineBytes {
		if n := aliases(all, by, m.StoreBuffer); n < fewest {
			best, fewest = by, n
		}
	}
	return best
}

// EnoughCopies is how many of some copies show every alias, if they access the same addresses from the copy steady on:
// as many copies again, and as many as fill the store buffer, have then met all aliases.
func EnoughCopies(insts []asm.Inst, copies, steady, storeBuffer int) int {
	stores := 0
	for i := range insts {
		for _, m := range insts[i].Mem {
			if m.Write {
				stores++
			}
		}
	}
	return min(copies, 2*(steady+1)+storeBuffer/max(stores, 1)+1)
}

// enough is the number of copies that show every alias. Most blocks access the same addresses in each copy from some
// copy on.
func (m Mover) enough(all []asm.Followed, copies int) int {
	each := len(all) / copies
	steady := copies // the first copy that accesses what the one before and all later ones do
	for ; steady > 1; steady-- {
		last, before := all[(steady-1)*each:steady*each], all[(steady-2)*each:(steady-1)*each]
		if !slices.Equal(last, before) {
			break
		}
	}
	return EnoughCopies(m.Insts, copies, steady, m.StoreBuffer)
}

// aliases counts the words in which a load equals one of the last room stores in the low 12 bits of the address
// alone, if the accesses that follow the register are moved.
func aliases(all []following, by uint64, room int) (n int) {
	const word = 8
	var latest [layout.PageSize / word]struct {
		store int // its number, from 1
		word  uint64
	}
	stores := 0
	for _, a := range all {
		addr := a.addr
		if a.carried {
			addr += by
		}
		if a.Write {
			stores++
		}
		for w := addr / word; w <= (addr+uint64(max(a.Width, 1))-1)/word; w++ {
			last := &latest[w%uint64(len(latest))]
			if a.Read && last.store > 0 && stores-last.store < room && last.word != w {
				n++
			}
			if a.Write {
				last.store, last.word = stores, w
			}
		}
	}
	return n
}

// following is an access of some copy at an address that the initial state determines.
type following struct {
	*asm.Mem
	addr    uint64
	align   int64 // demanded by the instruction
	carried bool  // it moves with the register
}

// followed lists the accesses of the first copies at known addresses; unmoved are those of the state as it is.
func (m Mover) followed(state initial.State, r asm.Reg, copies int, unmoved []asm.Followed) (all []following) {
	state.GPR[r] += lineBytes
	for i, after := range asm.Follow(m.Insts, copies, state.StartAt(layout.Home)) {
		if a := unmoved[i]; a.Known {
			in := &m.Insts[a.Inst]
			all = append(all, following{&in.Mem[a.Mem], a.Addr, int64(in.Align), after.Known && after.Addr == a.Addr+lineBytes})
		}
	}
	return all
}
