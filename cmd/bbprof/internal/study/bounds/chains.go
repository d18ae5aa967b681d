package bounds

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/rewrite"
	"github.com/bbprof/bbprof/internal/stat"
)

// cut ends a loop-carried dependency with one instruction. control costs the same and cuts nothing.
type cut struct {
	before       int // the instruction before which either is placed
	cut, control []byte
}

// findCut finds how to cut a dependency; why says why it cannot be cut.
func (q *question) findCut(d dependency) (c cut, why string) {
	r := q.room
	switch v := d.value; {
	case d.memory:
		return q.cutMemory(d)
	case v.X87:
		return c, "bbprof cannot cut a dependency through the x87 stack"
	case v.GPR != 0:
		n := bits.TrailingZeros16(v.GPR)
		c.cut = rewrite.MovImm(n, q.base.Init.GPR[n])
		if c.control = rewrite.Nop(len(c.cut)); r.scratch != none {
			c.control = rewrite.MovImm(r.scratch, q.base.Init.GPR[n])
		}
	case v.Flags != 0:
		idle := r.fixed
		if r.scratch != none {
			idle = r.scratch
		}
		if idle == none {
			return c, "the block leaves no register to set flags from"
		}
		c.cut, c.control = rewrite.Encode("test r64, r64", asm.Address{}, idle, idle), rewrite.Nop(3)
		if r.scratch != none {
			c.control = rewrite.Encode("lea r64, m", rewrite.Pointer(idle, 0), r.scratch, 0)
		}
	case v.Vector != 0:
		n := bits.TrailingZeros32(v.Vector)
		if r.still == none {
			return c, "the block leaves no vector register"
		}
		c.cut = rewrite.MovVector(n, r.still, q.state)
		if c.control = rewrite.Nop(len(c.cut)); r.vector != none {
			c.control = rewrite.MovVector(r.vector, r.still, q.state)
		}
	default:
		return c, "bbprof cannot cut a dependency through an opmask"
	}
	return c, ""
}

// cutMemory stores a ready value to the load's address before the load.
func (q *question) cutMemory(d dependency) (c cut, why string) {
	in := &q.insts[d.to]
	m := &in.Mem[d.mem]
	value := q.room.scratch
	if value == none {
		value = q.room.fixed
	}
	c.before = d.to
	var ok bool
	if c.cut, c.control, ok = rewrite.Ready(in, m, value, q.room.still); !ok {
		return c, "bbprof cannot store to where this instruction loads from"
	}
	return c, ""
}

// add puts the cuts, or their controls, into a change.
func add(c *rewrite.Change, cuts []cut, control bool) {
	if c.Before == nil {
		c.Before = map[int][][]byte{}
	}
	for _, k := range cuts {
		code := k.cut
		if control {
			code = k.control
		}
		c.Before[k.before] = append(c.Before[k.before], code)
	}
}

// shortest is the share of the time below which a chain's documented latency makes it not worth testing.
const shortest = 0.4

// chains cuts each group of dependencies that may be long enough to matter.
func (q *question) chains() (all []ChainReport) {
	var cuts [][]cut // by chain; nil if it cannot be cut
	for _, g := range groups(len(q.insts), dependencies(q.insts, q.base.Predicted.Forwards)) {
		r, known := q.describe(g)
		if known && r.Documented < shortest*q.base.Cycles {
			continue
		}
		of, why := q.cutsOf(g)
		r.Untested = why
		all, cuts = append(all, r), append(cuts, of)
	}
	binds, tested := false, 0
	for i, of := range cuts {
		r := &all[i]
		if of == nil {
			continue
		}
		tested++
		saved, why := q.saved(of, nil)
		// cutting all of them may cost what it saves, as with the stack pointer
		if len(of) > 1 && len(of) <= mostCuts {
			for j := 0; j < len(of) && (why != "" || !q.matters(saved)); j++ {
				saved, why = q.saved(of[j:j+1], nil)
			}
		}
		if r.Untested = why; why == "" {
			r.Saved = &saved.Time
			r.Binds = q.matters(saved) && r.possible(q.base.Cycles)
		}
		binds = binds || r.Binds
	}
	if tested < 2 || binds {
		return all
	}
	// Among chains of equal length, cutting one alone saves nothing: cut each while all others are cut.
	if saved, why := q.saved(slices.Concat(cuts...), nil); why != "" || !q.matters(saved) {
		return all
	}
	for i, of := range cuts {
		if of != nil {
			others := slices.Concat(slices.Concat(cuts[:i]...), slices.Concat(cuts[i+1:]...))
			saved, why := q.saved(of, others)
			if why == "" && q.matters(saved) && all[i].possible(q.base.Cycles) {
				all[i].Binds, all[i].Together, all[i].Saved = true, true, &saved.Time
			}
		}
	}
	return all
}

// possible reports whether the block takes long enough for a chain of at least a cycle per round.
func (c *ChainReport) possible(cycles float64) bool { return cycles*float64(c.Copies) > 0.95 }

type saving struct {
	Time
	cut Time
}

// matters reports whether the cuts save time beyond making up for their control's cost.
func (q *question) matters(s saving) bool {
	least := stat.EffectShare * q.base.Cycles
	return s.Low > 0 && s.Cycles >= least && q.base.Cycles-s.cut.Cycles >= least/2
}

// saved measures what the cuts save compared with their controls, in a block that others also cut.
func (q *question) saved(cuts, others []cut) (s saving, why string) {
	var with, without rewrite.Change
	add(&with, others, false)
	add(&without, others, false)
	add(&with, cuts, true)
	add(&without, cuts, false)
	control, why := q.time(with)
	if why == "" {
		s.cut, why = q.time(without)
		s.Time = control.minus(s.cut, 1)
	}
	return s, why
}

// mostCuts limits how many cuts of a chain are tried one by one.
const mostCuts = 6

func (q *question) cutsOf(g group) (cuts []cut, why string) {
	seen := map[string]bool{}
	for _, d := range g.carried() {
		key := fmt.Sprint(d.value, d.memory)
		if d.memory {
			key = fmt.Sprint(d.to, d.mem)
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		c, why := q.findCut(d)
		if why != "" {
			return nil, why
		}
		cuts = append(cuts, c)
	}
	return cuts, ""
}

// describe names a group by its longest cycle; known reports whether all its latencies are known.
func (q *question) describe(g group) (r ChainReport, known bool) {
	core := q.core()
	longest := g.longest(func(d dependency) float64 {
		l, ok := latency(&q.insts[d.to], d, core)
		if !ok {
			return unknownLatency
		}
		return l
	})
	known = true
	var steps []string
	for _, d := range rotated(longest.dependencies) {
		in := &q.insts[d.to]
		l, ok := latency(in, d, core)
		r.Instructions = append(r.Instructions, d.to+1)
		r.Memory = r.Memory || d.memory
		step := in.Mnemonic
		if l > 0 || !ok {
			step = fmt.Sprintf("%s (%s)", in.Mnemonic, latencyText(l, ok))
		}
		steps = append(steps, step)
		known = known && ok
	}
	r.Copies = longest.copies
	if r.Text = strings.Join(steps, " → "); known {
		r.Documented = longest.perIteration()
	}
	return r, known
}

func rotated(cycle []dependency) []dependency {
	first := 0
	for i, d := range cycle {
		if d.to < cycle[first].to {
			first = i
		}
	}
	return append(slices.Clone(cycle[first:]), cycle[:first]...)
}

func (q *question) core() string {
	if q.base.Host == nil {
		return ""
	}
	return q.base.Host.CPU.Microarchitecture
}
