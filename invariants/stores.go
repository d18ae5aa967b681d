package invariants

import "github.com/bbprof/bbprof/asm"

// stores lists the stores of a trace, of which the last room are in the store buffer.
type stores struct {
	all  []asm.Access
	room int
}

func (s *stores) add(a asm.Access) { s.all = append(s.all, a) }

// back returns the nth store from the end, 1 for the last one.
func (s *stores) back(n int) *asm.Access { return &s.all[len(s.all)-n] }

// youngest returns the distance, in stores, of the youngest store that matches, 0 if there is none.
func (s *stores) youngest(match func(store *asm.Access) bool) int {
	for n := 1; n <= min(len(s.all), s.room); n++ {
		if match(s.back(n)) {
			return n
		}
	}
	return 0
}

// aliases returns the distance of the youngest store that a load aliases with, 0 if there is none.
func (s *stores) aliases(t Trace, load *asm.Access) int {
	return s.youngest(func(store *asm.Access) bool { return overlap12(load, store) && t.apart(load, store) })
}

// feeds returns the distance of the youngest store that a load overlaps in its whole address.
func (s *stores) feeds(load *asm.Access) int {
	return s.youngest(func(store *asm.Access) bool { return overlap(load, store) })
}
