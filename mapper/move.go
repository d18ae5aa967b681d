package mapper

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// lineBytes are what no access of a result crosses, and the widest alignment that matters.
const lineBytes = 64

// operand is where an access goes, if that may be moved.
type operand struct {
	at    int64
	width int64 // bytes accessed, 0 of an address alone
	align int64 // without which the instruction faults, 1 for none

	// Of a rip-relative operand:
	field int   // of its displacement, in the block
	disp  int64 // as written
	move  int64 // by how much it is to be moved
}

// wants is the alignment of a whole variable of the operand's width; an address is that of any.
func (o operand) wants() int64 {
	if o.width == 0 || o.width >= lineBytes {
		return lineBytes
	}
	return max(o.align, 1<<bits.Len64(uint64(o.width-1)))
}

// harmed reports whether the operand, moved so, makes its instruction fault or cross a line.
func (o operand) harmed(move int64) bool {
	at := o.at + move
	return at&(o.align-1) != 0 || o.width > 0 && at>>6 != (at+min(o.width, lineBytes)-1)>>6
}

// bestMove is the smallest distance at which the fewest operands fault or cross a line, and among those the
// fewest accesses and then the fewest addresses lack the alignment of a whole variable. harmed is how many
// fault or cross a line all the same.
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

// Movable reports whether registers that start elsewhere may remove what a block is rejected for.
func Movable(reason verdict.Reason) bool {
	return slices.Contains([]verdict.Reason{verdict.Misaligned, verdict.UnalignedOperand, verdict.Alias4K}, reason)
}

// Mover moves registers of the initial state of a block.
type Mover struct {
	Insts       []asm.Inst
	Copies      int // that run in a row
	StoreBuffer int // entries, which bound how far back a load may find a store
}

// Move gives the state with those registers moved whose accesses a movable reason is about, so that fewer are. What a user
// has set is left alone. ok is false where no register helps.
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
	unmoved := asm.Follow(m.Insts, copies, harness.Start(next))
	if reason == verdict.Alias4K {
		copies = m.tell(unmoved, copies)
	}
	for r := asm.RAX; r <= asm.R15; r++ {
		if users.Names(r) || reads>>r&1 == 0 {
			continue
		}
		if by := best(m.followed(next, r, copies, unmoved)); by != 0 {
			next.GPR[r] += by
			set = append(set, fmt.Sprintf("%s=%#x", r, next.GPR[r]))
			unmoved = asm.Follow(m.Insts, copies, harness.Start(next))
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

// alignCopies are looked at for alignment: those of a block that advances by 4 bytes a copy go through a line.
const alignCopies = lineBytes / 4

// withinLine is by how much to move what a register carries so that as few accesses as possible cross a line or lack the alignment that an
// instruction demands; 0 if none does.
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

// withinPage is by how many lines to move what a register carries so that as few loads as possible alias an earlier store; 0 if none does.
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

// tell is how many copies tell all. From some copy on most blocks access what the copy before did; then as many more as fill the
// store buffer, and as many as came before, have met all the aliases that there are.
func (m Mover) tell(all []asm.Followed, copies int) int {
	each, stores := len(all)/copies, 0
	steady := copies // the first copy that accesses what the one before and all later ones do
	for ; steady > 1; steady-- {
		last, before := all[(steady-1)*each:steady*each], all[(steady-2)*each:(steady-1)*each]
		if !slices.Equal(last, before) {
			break
		}
	}
	for _, a := range all[:each] {
		if m.Insts[a.Inst].Mem[a.Mem].Write {
			stores++
		}
	}
	return min(copies, 2*(steady+1)+m.StoreBuffer/max(stores, 1)+1)
}

// aliases counts the words that loads share, in the low 12 bits of the address alone, with the latest of the last room stores
// there, if what a register carries is moved.
func aliases(all []following, by uint64, room int) (n int) {
	const word = 8
	var latest [layout.PageSize / word]struct {
		store int // by number, from 1
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

// following is an access of some copy, at an address that follows from the state.
type following struct {
	*asm.Mem
	addr    uint64
	align   int64 // that the instruction demands
	carried bool  // it moves as the register does
}

// followed are the accesses of the first copies as far as they are known, unmoved those from the state as it is.
func (m Mover) followed(state initial.State, r asm.Reg, copies int, unmoved []asm.Followed) (all []following) {
	state.GPR[r] += lineBytes
	for i, after := range asm.Follow(m.Insts, copies, harness.Start(state)) {
		if a := unmoved[i]; a.Known {
			in := &m.Insts[a.Inst]
			all = append(all, following{&in.Mem[a.Mem], a.Addr, int64(in.Align), after.Known && after.Addr == a.Addr+lineBytes})
		}
	}
	return all
}
