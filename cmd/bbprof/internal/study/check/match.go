// Package check compares two builds of a program, function by function: which blocks and loops changed, and whether
// those of the head take longer than those of the base.
//
//	match the pieces of each function by content, then by order → measure what changed, base and head in turn, in
//	the same layouts → test, jointly for all changes → an outcome for each, and for each function
//
// Equal bytes take equal time, so they are not measured, but for loops that stand elsewhere in a cache line: what
// changed of these is the layout.
package check

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Piece is a block of a build, with the branch that ends it, or a loop that its own branch closes. There may be a million.
type Piece struct {
	*Code
	Function string  `json:"-"`
	Address  uint64  `json:"address"`
	Source   string  `json:"source_line,omitempty"`
	Count    float64 `json:"count,omitzero"` // executions by the profile
	Cycles   float64 `json:"cycles,omitzero"`
	// Rejection says why it could not be measured.
	Rejection *verdict.Rejection `json:"rejection,omitempty"`
	Depth     int32              `json:"loop_depth"`
	Placed    bool               `json:"-"` // the address is known
	Nameless  bool               `json:"-"` // Function is no name but an address, of a stripped file
}

// executed is how many of its instructions ran, by the profile.
func (p *Piece) executed() float64 { return p.Count * float64(p.instructions) }

// Code is what pieces have in common that are the same bytes.
type Code struct {
	Bytes []byte `json:"-"`
	Hex   string `json:"hex"`
	Text  string `json:"text"`

	loop         bool
	joined       *blocks // of a loop of several; nil for any other code
	instructions int
	key          string // what of the code does not depend on where it and others stand
}

// Codes returns a function that gives each code once. ok is false if it does not decode.
func Codes() func(code []byte) (_ *Code, ok bool) {
	all := map[string]*Code{}
	return func(code []byte) (*Code, bool) {
		c, known := all[string(code)]
		if !known {
			c = newCode(bytes.Clone(code))
			all[string(code)] = c
		}
		return c, c != nil
	}
}

func newCode(code []byte) *Code {
	insts, err := asm.Decode(code)
	if err != nil || len(insts) == 0 {
		return nil
	}
	c := Code{Bytes: code, Hex: hex.EncodeToString(code), Text: asm.Text(insts), instructions: len(insts)}
	key := bytes.Clone(code)
	for i := range insts {
		if in := &insts[i]; in.RIPDisp > 0 {
			clear(key[in.Offset+in.RIPDisp : in.Offset+in.RIPDisp+4])
		}
	}
	if branch, ok := asm.TrailingBranch(insts); ok {
		if c.loop = branch.ToStart(); !c.loop { // its distance and so its length depend on others
			key = append(key[:branch.Offset], branch.Mnemonic...)
		}
	}
	last := len(insts) - 1
	for ; !c.loop && last > 0 && insts[last].Mnemonic == "nop"; last-- { // what aligns the code behind it
		key = key[:insts[last].Offset]
	}
	c.key = string(key)
	return &c
}

// Kind names a piece in reports.
func (p *Piece) Kind() string {
	if p.loop {
		return "loop"
	}
	return "block"
}

// Change is a stretch of a function that is not the same in both builds: pieces between others that are.
type Change struct {
	What What     `json:"what"`
	Base []*Piece `json:"base,omitempty"`
	Head []*Piece `json:"head,omitempty"`
	// Outside says that the pieces are in none of the function's loops.
	Outside bool `json:"outside_loops,omitzero"`
	// Per is the number of the base's iterations that one of the head's does, where that is known and not 1: the head's
	// loop is unrolled, or steps over more elements at once.
	Per float64 `json:"iterations_per_head_iteration,omitzero"`
	Outcome
}

// line is the size of a cache line in bytes.
const line = 64

// What says how a change differs.
type What string

const (
	Changed What = "changed"
	New     What = "new"   // only in the head
	Gone    What = "gone"  // only in the base
	Moved   What = "moved" // the same loop elsewhere in its cache line
)

// Function is a function that is not the same in both builds.
type Function struct {
	Name    string   `json:"function"`
	Changes []Change `json:"changes"`
	Equal   int      `json:"equal"` // pieces
	Cost    *Cost    `json:"cost,omitempty"`
	// Unmatched says that it has no name, and the other build no function that is like it alone.
	Unmatched bool `json:"unmatched,omitzero"`

	equal []*Piece // of the base
}

// Match compares two builds. Functions are in the base's order, then those that only the head has. equal is the number
// of functions that are the same.
func Match(base, head []Piece) (functions []Function, equal int) {
	functions = []Function{} // also in JSON
	for _, in := range byFunction(base, head) {
		f := Function{Name: in.name, Unmatched: in.alone(0) || in.alone(1)}
		a, b := in.pieces[0], in.pieces[1]
		if loops(a) != loops(b) {
			a, b = joined(a), joined(b)
		}
		for _, of := range []func(*Piece) bool{
			func(p *Piece) bool { return p.loop },
			func(p *Piece) bool { return !p.loop && p.Depth > 0 },
			func(p *Piece) bool { return !p.loop && p.Depth == 0 },
		} {
			f.match(pick(a, of), pick(b, of))
		}
		if len(f.Changes) == 0 {
			equal++
			continue
		}
		slices.SortStableFunc(f.Changes, func(a, b Change) int { return cmp.Compare(a.address(), b.address()) })
		functions = append(functions, f)
	}
	return functions, equal
}

func (c *Change) address() uint64 { return slices.Concat(c.Head, c.Base)[0].Address }

func pick(all []*Piece, of func(*Piece) bool) (some []*Piece) {
	for _, p := range all {
		if of(p) {
			some = append(some, p)
		}
	}
	return some
}

// match finds the changes between two lists of pieces: those between the pieces that both have, by content before
// order.
func (f *Function) match(a, b []*Piece) {
	inOrder := common(a, b)
	restA, restB := slices.Clone(a), slices.Clone(b) // nil: both have it
	for _, m := range inOrder {
		f.same(a[m[0]], b[m[1]])
		restA[m[0]], restB[m[1]] = nil, nil
	}
	elsewhere := map[string][]int{} // in b, by content
	for j, q := range restB {
		if q != nil {
			elsewhere[q.key] = append(elsewhere[q.key], j)
		}
	}
	for i, p := range restA {
		if p == nil || len(elsewhere[p.key]) == 0 {
			continue
		}
		j := elsewhere[p.key][0]
		f.same(p, b[j])
		restA[i], restB[j], elsewhere[p.key] = nil, nil, elsewhere[p.key][1:]
	}
	i, j := 0, 0
	for _, m := range append(inOrder, [2]int{len(a), len(b)}) {
		present := func(p *Piece) bool { return p != nil }
		f.changed(pick(restA[i:m[0]], present), pick(restB[j:m[1]], present))
		i, j = m[0], m[1]
	}
}

func (f *Function) changed(a, b []*Piece) {
	c := Change{What: Changed, Base: a, Head: b, Per: perIteration(a, b)}
	switch {
	case len(a)+len(b) == 0:
		return
	case len(b) == 0:
		c.What = Gone
	case len(a) == 0:
		c.What = New
	}
	first := slices.Concat(a, b)[0]
	c.Outside = !first.loop && first.Depth == 0
	f.Changes = append(f.Changes, c)
}

func (f *Function) same(a, b *Piece) {
	f.Equal++
	f.equal = append(f.equal, a)
	if a.loop && a.joined == nil && a.Placed && b.Placed && a.Address%line != b.Address%line {
		f.Changes = append(f.Changes, Change{What: Moved, Base: []*Piece{a}, Head: []*Piece{b}})
	}
}

// mostAlike is how many pieces of b are tried for one of a that has the content of many: else only the one of its number.
// A file of blocks that names no functions is one of a million pieces.
const mostAlike = 32

// common returns a longest common subsequence of two lists by content, as pairs of indices (Hunt and Szymanski, "A fast
// algorithm for computing longest common subsequences", Communications of the ACM 20, 1977).
func common(a, b []*Piece) (pairs [][2]int) {
	places, before := map[string][]int{}, map[string]int{} // in b, and how many in a so far, by content
	for j, q := range b {
		places[q.key] = append(places[q.key], j)
	}
	type link struct {
		pair [2]int
		last *link
	}
	var ends []*link // of the subsequence of each length, the one that ends first in b
	for i, p := range a {
		same, n := places[p.key], before[p.key]
		if before[p.key]++; len(same) > mostAlike {
			same = same[min(n, len(same)):min(n+1, len(same))]
		}
		// from the last, so that none extends another of the same piece
		for _, j := range slices.Backward(same) {
			at, _ := slices.BinarySearchFunc(ends, j, func(l *link, j int) int { return l.pair[1] - j })
			ends = slices.Grow(ends, 1)[:max(len(ends), at+1)]
			ends[at] = &link{pair: [2]int{i, j}}
			if at > 0 {
				ends[at].last = ends[at-1]
			}
		}
	}
	if len(ends) > 0 {
		for l := ends[len(ends)-1]; l != nil; l = l.last {
			pairs = append(pairs, l.pair)
		}
	}
	slices.Reverse(pairs)
	return pairs
}

// perIteration returns how many iterations of the base's loop one of the head's does; 0 if that is 1 or not known.
func perIteration(a, b []*Piece) float64 {
	if len(a) != 1 || len(b) != 1 || !a[0].loop {
		return 0
	}
	x, y := stride(a[0].Bytes), stride(b[0].Bytes)
	if x == 0 || y == 0 || x == y || x != -y && (y%x != 0 && x%y != 0) {
		return 0
	}
	if per := float64(y) / float64(x); per > 0 && per != 1 {
		return per
	}
	return 0
}

// stride returns by how many bytes a loop's first access that moves does so in an iteration, or without one, by how
// much the register does that its condition comes from; 0 if that does not follow from constants.
func stride(code []byte) int64 {
	insts, err := asm.Decode(code)
	if err != nil {
		return 0
	}
	steps, constant := asm.Steps(insts)
	step := func(r asm.Register) (int64, bool) {
		n, ok := r.GPR()
		if !ok {
			return 0, true
		}
		return steps[n], constant>>n&1 != 0
	}
	for i := range insts {
		for _, m := range insts[i].Mem {
			base, known := step(m.Base)
			index, knownToo := step(m.Index)
			if moves := base + index*int64(m.Scale); known && knownToo && moves != 0 {
				return moves
			}
		}
	}
	if len(insts) < 2 {
		return 0
	}
	reads, writes := insts[len(insts)-2].Dataflow() // what sets the flags that the branch tests
	for n := range steps {
		if (reads.GPR|writes.GPR)&constant>>n&1 != 0 && steps[n] != 0 {
			return steps[n]
		}
	}
	return 0
}
