package invariants

import "github.com/bbprof/bbprof/asm"

// stores is the store buffer: the last stores of a trace.
type stores struct {
	ring []asm.Access
	next int // the oldest, once the ring is full
	room int
}

func newStores(room int) *stores { return &stores{ring: make([]asm.Access, 0, room), room: room} }

func (s *stores) add(a asm.Access) {
	switch {
	case s.room == 0:
	case len(s.ring) < s.room:
		s.ring = append(s.ring, a)
	default:
		s.ring[s.next] = a
		s.next = (s.next + 1) % s.room
	}
}

// back returns the nth store from the end, 1 for the last one.
func (s *stores) back(n int) *asm.Access {
	i := s.next - n
	if i < 0 {
		i += len(s.ring)
	}
	return &s.ring[i]
}

// youngest returns the distance, in stores, of the youngest store that matches, 0 if there is none.
func (s *stores) youngest(match func(store *asm.Access) bool) int {
	for n := 1; n <= len(s.ring); n++ {
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
