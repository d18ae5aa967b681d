package asm

import (
	"math/bits"
	"slices"
	"strings"
)

// leastLatencies are the fewest cycles between a register that an instruction reads and one that it writes, on any
// core since Haswell and Zen (uops.info; Fog, instruction_tables.pdf). 0 is for what Golden Cove and later cores do
// at rename: moves, and additions of immediates. What is not here may take any time. Flags are left aside.
var leastLatencies = map[string]int{
	"mov": 0, "lea": 0, "inc": 0, "dec": 0,
	"add": 1, "sub": 1, "adc": 1, "sbb": 1, "and": 1, "or": 1, "xor": 1, "not": 1, "neg": 1,
	"shl": 1, "shr": 1, "sar": 1, "rol": 1, "ror": 1, "bswap": 1, "andn": 1, "shlx": 1, "shrx": 1, "sarx": 1, "rorx": 1, "popcnt": 1,
	"imul": 3, "mul": 3,
	"movaps": 0, "movups": 0, "movapd": 0, "movdqa": 0, "movdqu": 0,
	"andps": 1, "orps": 1, "xorps": 1, "andpd": 1, "orpd": 1, "xorpd": 1, "pand": 1, "por": 1, "pxor": 1,
	"paddb": 1, "paddw": 1, "paddd": 1, "paddq": 1, "psubb": 1, "psubw": 1, "psubd": 1, "psubq": 1,
	"addps": 2, "addpd": 2, "addss": 2, "addsd": 2, "subps": 2, "subpd": 2, "subss": 2, "subsd": 2, // 2 on Golden Cove, back to back
	"mulps": 3, "mulpd": 3, "mulss": 3, "mulsd": 3,
}

// leastLoad is the fewest cycles from an address to what is loaded from there (uops.info: 4), if no store can feed
// the load: a core that guesses the store has the value at once.
const leastLoad = 3

// leastLatency is how many cycles lie at least between any register of Dataflow that the instruction reads and those
// that it writes; ok is false if that is not known. stores says whether anything in the block stores.
func (in *Inst) leastLatency(stores bool) (cycles int, ok bool) {
	d := &in.raw
	cycles, ok = leastLatencies[strings.TrimPrefix(d.form.name, "v")]
	if fused := strings.HasPrefix(d.form.name, "vfmadd"); fused {
		cycles, ok = 4, true
	}
	if !ok || d.opmask != 0 || d.form.isMMX {
		return 0, false
	}
	var numbers []int
	for _, o := range d.form.ops {
		switch class := o.kind.class; {
		case class == GPROperand && d.width(o.size) < 4: // cores may rename parts of a register apart
			return 0, false
		case o.kind == opE || o.kind == opG:
			numbers = append(numbers, d.number(o.kind))
		case class == ImmediateOperand && (d.form.name == "add" || d.form.name == "sub"):
			cycles = 0
		}
	}
	if d.form.name == "sbb" && !d.hasMem && len(numbers) == 2 && numbers[0] == numbers[1] {
		return 0, false // AMD's cores know that only the carry matters
	}
	for _, m := range in.Mem {
		if m.Write || m.Implicit || cycles == 0 && stores {
			return 0, false
		}
		if cycles == 0 {
			cycles = leastLoad
		}
	}
	return cycles, true
}

// LeastCycles is how many cycles an iteration of the block takes at least for the longest chain of registers from one
// iteration to the next that is known to take time, or 0.
func LeastCycles(insts []Inst) float64 {
	stores := slices.ContainsFunc(insts, func(in Inst) bool {
		_, writes := in.Accesses()
		return writes
	})
	type step struct {
		reads, writes uint64 // general registers, above them vector registers
		cycles        int
		known         bool
	}
	var steps []step
	read, written := uint64(0), uint64(0)
	for i := range insts {
		r, w := insts[i].Dataflow()
		s := step{reads: r.registers(), writes: w.registers()}
		s.cycles, s.known = insts[i].leastLatency(stores)
		steps = append(steps, s)
		read, written = read|s.reads, written|s.writes
	}
	least := 0.0
	for carried := read & written; carried != 0; carried &= carried - 1 {
		from := bits.TrailingZeros64(carried)
		var at [registers]int        // when it can be ready,
		depends := uint64(1) << from // of those that depend on that one
		for iteration := 1; iteration <= mostIterations && depends != 0; iteration++ {
			for _, s := range steps {
				ready, waits := 0, s.known && s.reads&depends != 0
				for r := s.reads & depends; waits && r != 0; r &= r - 1 {
					ready = max(ready, at[bits.TrailingZeros64(r)]+s.cycles)
				}
				if depends &^= s.writes; waits {
					depends |= s.writes
				}
				for w := s.writes; w != 0; w &= w - 1 {
					at[bits.TrailingZeros64(w)] = ready
				}
			}
			if depends>>from&1 != 0 {
				least = max(least, float64(at[from])/float64(iteration))
			}
		}
	}
	return least
}

// mostIterations is how many iterations a chain may take to come back to its register, where registers swap.
const mostIterations = 4

// registers are the general ones and, above them, the vector registers.
const registers = 48

func (v Values) registers() uint64 { return uint64(v.GPR) | uint64(v.Vector)<<16 }

// fusing lists the instructions that some core fuses with a conditional branch after them (Intel Optimization Manual, "Macro-Fusion"; AMD's
// Software Optimization Guide for family 19h, "Branch Fusion").
var fusing = map[string]bool{"cmp": true, "test": true, "add": true, "sub": true, "and": true, "or": true, "xor": true, "inc": true, "dec": true}

// LeastSlots is how many operations the block is at least for a core that renames them: a branch and what sets its flags may be one, and nops
// none if the core fuses them with their neighbours.
func LeastSlots(insts []Inst, fusesNops bool) (slots int) {
	for i := range insts {
		if name := insts[i].raw.form.name; fusesNops && (name == "nop" || name == "endbr64") {
			continue
		}
		if b, ok := TrailingBranch(insts[:i+1]); ok && b.Conditional() && i > 0 && fusing[insts[i-1].raw.form.name] {
			continue
		}
		slots++
	}
	return slots
}
