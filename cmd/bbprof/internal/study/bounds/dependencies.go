package bounds

import (
	"maps"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/invariants"
)

type dependency struct {
	from, to int // indexes in the block, from 0
	copies   int // distance in copies; 0 within an iteration
	value    asm.Values
	memory   bool // through memory: from stores it, to loads it
	mem      int  // index of the load in to's Mem
}

// dependencies lists what each instruction waits for: for registers the last writer, for memory what the trace says.
func dependencies(insts []asm.Inst, forwards []invariants.Forward) (all []dependency) {
	writes := make([]asm.Values, len(insts))
	reads := make([]asm.Values, len(insts))
	for i := range insts {
		reads[i], writes[i] = insts[i].Dataflow()
	}
	for to := range insts {
		for _, v := range reads[to].Single() {
			before := lastWriter(writes[:to], v)
			if before >= 0 {
				all = append(all, dependency{from: before, to: to, value: v})
			} else if before = lastWriter(writes, v); before >= 0 {
				all = append(all, dependency{from: before, to: to, copies: 1, value: v})
			}
		}
	}
	for _, f := range forwards {
		all = append(all, dependency{from: f.Store, to: f.Load, copies: f.Copies, memory: true, mem: f.Mem})
	}
	return all
}

func lastWriter(writes []asm.Values, v asm.Values) int {
	for i, w := range slices.Backward(writes) {
		if w.And(v) != (asm.Values{}) {
			return i
		}
	}
	return -1
}

// group is a strongly connected set of instructions with the dependencies among them: each of its cycles contains at
// least one loop-carried dependency.
type group []dependency

func (g group) carried() (all []dependency) {
	for _, d := range g {
		if d.copies > 0 {
			all = append(all, d)
		}
	}
	return all
}

// groups returns the strongly connected components of the dependencies that contain a cycle.
func groups(n int, all []dependency) []group {
	next := make([][]int, n)
	for _, d := range all {
		next[d.from] = append(next[d.from], d.to)
	}
	reach := make([][]bool, n) // reach[i][j]: j depends on i, maybe indirectly
	for i := range reach {
		reach[i] = make([]bool, n)
		for todo := []int{i}; len(todo) > 0; todo = todo[1:] {
			for _, to := range next[todo[0]] {
				if !reach[i][to] {
					reach[i][to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	var found []group
	done := make([]bool, n)
	for i := range n {
		if done[i] || !reach[i][i] {
			continue
		}
		var g group
		for _, d := range all {
			if reach[i][d.from] && reach[d.from][i] && reach[i][d.to] && reach[d.to][i] {
				g = append(g, d)
				done[d.from], done[d.to] = true, true
			}
		}
		found = append(found, g)
	}
	return found
}

type cycle struct {
	dependencies []dependency // each starts where the one before ends
	latency      float64      // of one round, as documented; 0 if one is unknown
	copies       int          // iterations per round
}

func (c cycle) perIteration() float64 { return c.latency / float64(c.copies) }

const maxCycles = 20_000

// longest returns the cycle of a group with the highest latency per iteration, given an instruction's latency for the
// dependency by which it is entered. Of two equal ones it returns the shorter.
func (g group) longest(latency func(dependency) float64) (best cycle) {
	from := map[int][]dependency{}
	for _, d := range g {
		from[d.from] = append(from[d.from], d)
	}
	looked := 0
	var path []dependency
	var walk func(start, at int)
	walk = func(start, at int) {
		for _, d := range from[at] {
			if looked++; looked > maxCycles {
				return
			}
			switch {
			case d.to == start:
				c := cycle{dependencies: append(slices.Clone(path), d)}
				for _, d := range c.dependencies {
					c.latency += latency(d)
					c.copies += d.copies
				}
				if c.copies > 0 && (best.copies == 0 || c.perIteration() > best.perIteration()+1e-9 ||
					c.perIteration() > best.perIteration()-1e-9 && len(c.dependencies) < len(best.dependencies)) {
					best = c
				}
			// each cycle is found from its lowest instruction
			case d.to > start && !slices.ContainsFunc(path, func(p dependency) bool { return p.from == d.to }) && d.to != at:
				path = append(path, d)
				walk(start, d.to)
				path = path[:len(path)-1]
			}
		}
	}
	for _, start := range slices.Sorted(maps.Keys(from)) {
		walk(start, start)
	}
	return best
}
