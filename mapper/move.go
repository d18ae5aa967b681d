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

// movable are the reasons that other starts of registers within a line may remove.
var movable = map[verdict.Reason]bool{verdict.Misaligned: true, verdict.UnalignedOperand: true}

// moved is a state with those registers moved, by less than a line, whose accesses cross lines or lack the alignment that an
// instruction demands, so that fewer do. What a user has set is left alone. ok is false where no register helps.
func moved(insts []asm.Inst, state initial.State) (_ initial.State, ok bool) {
	users, err := initial.ParseSet(state.Set)
	if err != nil && state.Set != "" {
		return state, false
	}
	var set []string
	next := state
	for r := asm.RAX; r <= asm.R15; r++ {
		operands := carried(insts, next, r)
		if !slices.ContainsFunc(operands, func(o Operand) bool { return o.harmed(0) }) || users.Names(r) {
			continue
		}
		if by, _ := BestMove(operands); by != 0 {
			next.GPR[r] += uint64(by)
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

// movedCopies are looked at: those of a block that advances by 4 bytes a copy go through a line.
const movedCopies = LineBytes / 4

// carried are the accesses of the first copies that move as a register does.
func carried(insts []asm.Inst, state initial.State, r asm.Reg) (operands []Operand) {
	before := asm.Follow(insts, movedCopies, harness.Start(state))
	state.GPR[r] += LineBytes
	for i, after := range asm.Follow(insts, movedCopies, harness.Start(state)) {
		if a := before[i]; a.Known && after.Known && after.Addr == a.Addr+LineBytes {
			in := &insts[a.Inst]
			o := Operand{At: int64(a.Addr), Width: int64(in.Mem[a.Mem].Width), Align: 1}
			if !in.Mem[a.Mem].Implicit {
				o.Align = max(1, int64(in.Align))
			}
			operands = append(operands, o)
		}
	}
	return operands
}
