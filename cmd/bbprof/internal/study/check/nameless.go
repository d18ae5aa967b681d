package check

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// inBoth is a function with its pieces in the base and in the head.
type inBoth struct {
	name     string
	nameless bool
	pieces   [2][]*Piece
}

// byFunction groups pieces: the base's functions in their order, then those that only the head has.
func byFunction(base, head []Piece) (all []*inBoth) {
	named := map[string]*inBoth{}
	for side, pieces := range [][]Piece{base, head} {
		var last *inBoth
		for k := range pieces {
			p := &pieces[k]
			f := named[p.Function]
			if p.Nameless && last != nil && last.name == p.Function {
				f = last
			}
			if f == nil {
				f = &inBoth{name: p.Function, nameless: p.Nameless}
				if all = append(all, f); !p.Nameless {
					named[f.name] = f
				}
			}
			f.pieces[side] = append(f.pieces[side], p)
			last = f
		}
	}
	identify(all)
	return slices.DeleteFunc(all, func(f *inBoth) bool { return f.pieces[0] == nil && f.pieces[1] == nil })
}

// identify finds which nameless functions of the head are which of the base, for their addresses do not tell: those of the same content, and
// those that share more than half of their pieces, of which some are in no other function. Without that, two that differ would be compared.
func identify(all []*inBoth) {
	same := map[string][]*inBoth{} // of the head
	for _, f := range all {
		if f.alone(1) {
			same[content(f.pieces[1])] = append(same[content(f.pieces[1])], f)
		}
	}
	for _, f := range all {
		if !f.alone(0) {
			continue
		}
		if c := content(f.pieces[0]); len(same[c]) > 0 {
			f.join(same[c][0])
			same[c] = same[c][1:]
		}
	}
	shared := map[*inBoth]map[*inBoth]int{} // pieces that are in these two alone
	there := owners(all, 1)
	for key, a := range owners(all, 0) {
		b := there[key]
		if a == nil || b == nil || !a.alone(0) || !b.alone(1) {
			continue
		}
		for _, pair := range [][2]*inBoth{{a, b}, {b, a}} {
			if shared[pair[0]] == nil {
				shared[pair[0]] = map[*inBoth]int{}
			}
			shared[pair[0]][pair[1]]++
		}
	}
	for _, a := range all {
		if b := most(shared[a]); a.alone(0) && b != nil && most(shared[b]) == a &&
			2*inCommon(a.pieces[0], b.pieces[1]) > max(len(a.pieces[0]), len(b.pieces[1])) {
			a.join(b)
		}
	}
}

// alone reports whether a nameless function is in one build only, as far as is known.
func (f *inBoth) alone(side int) bool {
	return f.nameless && f.pieces[side] != nil && f.pieces[1-side] == nil
}

// join makes a function of the base and one of the head one.
func (f *inBoth) join(head *inBoth) {
	if head.name != f.name {
		f.name = fmt.Sprintf("%s, now %s", f.name, head.name)
	}
	f.pieces[1], head.pieces[1] = head.pieces[1], nil
}

func content(pieces []*Piece) string {
	var all []byte
	for _, p := range pieces {
		all = append(binary.AppendUvarint(all, uint64(len(p.key))), p.key...)
	}
	return string(all)
}

// owners returns the function that each content of a piece is in; nil for what is in several.
func owners(all []*inBoth, side int) map[string]*inBoth {
	of := map[string]*inBoth{}
	for _, f := range all {
		for _, p := range f.pieces[side] {
			if owner, known := of[p.key]; known && owner != f {
				of[p.key] = nil
			} else {
				of[p.key] = f
			}
		}
	}
	return of
}

// most returns the function with the largest count, or nil if two have it.
func most(counts map[*inBoth]int) (first *inBoth) {
	largest := 0
	for f, n := range counts {
		switch {
		case n > largest:
			first, largest = f, n
		case n == largest:
			first = nil
		}
	}
	return first
}

// inCommon counts the pieces that both have.
func inCommon(a, b []*Piece) (n int) {
	left := map[string]int{}
	for _, p := range a {
		left[p.key]++
	}
	for _, p := range b {
		if left[p.key] > 0 {
			left[p.key]--
			n++
		}
	}
	return n
}
