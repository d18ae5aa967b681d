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

// LineBytes are what no access of a result crosses, and the widest alignment that matters.
const LineBytes = 64

// Operand is where an access goes, if that may be moved.
type Operand struct {
	At    int64
	Width int64 // bytes accessed, 0 of an address alone
	Align int64 // without which the instruction faults, 1 for none
}

// wants is the alignment of a whole variable of the operand's width; an address is that of any.
func (o Operand) wants() int64 {
	if o.Width == 0 || o.Width >= LineBytes {
		return LineBytes
	}
	return max(o.Align, 1<<bits.Len64(uint64(o.Width-1)))
}

// harmed reports whether the operand, moved so, makes its instruction fault or cross a line.
func (o Operand) harmed(move int64) bool {
	at := o.At + move
	return at&(o.Align-1) != 0 || o.Width > 0 && at>>6 != (at+min(o.Width, LineBytes)-1)>>6
}

// BestMove is the smallest distance at which the fewest operands fault or cross a line, and among those the
// fewest accesses and then the fewest addresses lack the alignment of a whole variable. harmed is how many
// fault or cross a line all the same.
func BestMove(operands []Operand) (move int64, harmed int) {
	best := [3]int{math.MaxInt}
	for by := range int64(LineBytes) {
		var cost [3]int
		for _, o := range operands {
			if o.harmed(by) {
				cost[0]++
			}
			if (o.At+by)&(o.wants()-1) != 0 {
				which := 1
				if o.Width == 0 {
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

// movable are the reasons that registers which start elsewhere may remove: within a line, and within a page.
var movable = map[verdict.Reason]bool{verdict.Misaligned: true, verdict.UnalignedOperand: true, verdict.Alias4K: true}

// moved is a state with those registers moved whose accesses a reason is about, so that fewer are. What a user has set is left
// alone. ok is false where no register helps.
func (t Task) moved(state initial.State, reason verdict.Reason) (_ initial.State, ok bool) {
	users, err := initial.ParseSet(state.Set)
	if err != nil && state.Set != "" {
		return state, false
	}
	best := t.withinLine
	if reason == verdict.Alias4K {
		best = t.withinPage
	}
	var set []string
	next := state
	for r := asm.RAX; r <= asm.R15; r++ {
		if users.Names(r) {
			continue
		}
		if by := best(next, r); by != 0 {
			next.GPR[r] += by
			set = append(set, fmt.Sprintf("%s=%#x", r, next.GPR[r]))
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
const alignCopies = LineBytes / 4

// withinLine is by how much to move a register so that as few accesses as possible cross a line or lack the alignment that an
// instruction demands; 0 if none does.
func (t Task) withinLine(state initial.State, r asm.Reg) uint64 {
	var operands []Operand
	harmed := false
	for _, a := range t.followed(state, r, alignCopies) {
		if !a.carried {
			continue
		}
		o := Operand{At: int64(a.addr), Width: int64(a.Width), Align: 1}
		if !a.Implicit {
			o.Align = max(1, a.align)
		}
		operands = append(operands, o)
		harmed = harmed || o.harmed(0)
	}
	if !harmed {
		return 0
	}
	by, _ := BestMove(operands)
	return uint64(by)
}

// withinPage is by how many lines to move a register so that as few loads as possible alias an earlier store; 0 if none does.
func (t Task) withinPage(state initial.State, r asm.Reg) (best uint64) {
	all := t.followed(state, r, t.Program.Factors.Long)
	if !slices.ContainsFunc(all, func(a following) bool { return a.carried }) {
		return 0
	}
	fewest := aliases(all, 0, t.StoreBuffer)
	for by := uint64(LineBytes); by < layout.PageSize && fewest > 0; by += LineBytes {
		if n := aliases(all, by, t.StoreBuffer); n < fewest {
			best, fewest = by, n
		}
	}
	return best
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

// followed are the accesses of the first copies as far as they are known.
func (t Task) followed(state initial.State, r asm.Reg, copies int) (all []following) {
	insts := t.Program.Insts
	before := asm.Follow(insts, copies, harness.Start(state))
	state.GPR[r] += LineBytes
	for i, after := range asm.Follow(insts, copies, harness.Start(state)) {
		if a := before[i]; a.Known {
			in := &insts[a.Inst]
			all = append(all, following{&in.Mem[a.Mem], a.Addr, int64(in.Align), after.Known && after.Addr == a.Addr+LineBytes})
		}
	}
	return all
}
