package invariants

import "github.com/bbprof/bbprof/asm"

// stores is the store buffer: the last stores of a trace.
type stores struct {
	ring []asm.Access
	next int // the oldest, once the ring is full
	room int
	// Nearly all loads overlap no store, or one to their own page. A table of the words stored to within a page finds
	// these without a scan of the ring.
	words [page / word]stored
}

// stored summarises the last stores to a word at some offset within pages.
type stored struct {
	n       int
	page    uint64 // the first store's page
	several bool   // there were stores to other pages, too
}

const word = 8

func newStores(room int) *stores { return &stores{ring: make([]asm.Access, 0, room), room: room} }

func (s *stores) add(a asm.Access) {
	if s.room == 0 {
		return
	}
	if len(s.ring) < s.room {
		s.ring = append(s.ring, a)
	} else {
		for addr := range wordsOf(s.ring[s.next]) {
			if w := s.word(addr); w.n > 1 {
				w.n--
			} else {
				*w = stored{}
			}
		}
		s.ring[s.next] = a
		s.next = (s.next + 1) % s.room
	}
	for addr := range wordsOf(a) {
		w := s.word(addr)
		if w.n++; w.n == 1 {
			w.page = addr &^ within
		}
		w.several = w.several || w.page != addr&^within
	}
}

func (s *stores) word(addr uint64) *stored { return &s.words[addr&within/word] }

// wordsOf lists the words that an access touches.
func wordsOf(a asm.Access) func(yield func(addr uint64) bool) {
	return func(yield func(addr uint64) bool) {
		for addr := a.Addr &^ (word - 1); addr < a.Addr+uint64(a.Width) && yield(addr); addr += word {
		}
	}
}

// back returns the nth store from the end, 1 for the last one.
func (s *stores) back(n int) asm.Access { return s.ring[(s.next+len(s.ring)-n)%len(s.ring)] }

// youngest returns the distance, in stores, of the youngest store that matches, 0 if there is none.
func (s *stores) youngest(match func(store asm.Access) bool) int {
	for n := 1; n <= len(s.ring); n++ {
		if match(s.back(n)) {
			return n
		}
	}
	return 0
}

// aliases returns the distance of the youngest store that a load aliases with, 0 if there is none.
func (s *stores) aliases(t Trace, load asm.Access) int {
	for addr := range wordsOf(load) {
		if w := s.word(addr); w.several || w.n > 0 && w.page != addr&^within {
			return s.youngest(func(store asm.Access) bool { return overlap12(load, store) && t.apart(load, store) })
		}
	}
	return 0
}

// feeds returns the distance of the youngest store that a load overlaps in its whole address.
func (s *stores) feeds(load asm.Access) int {
	return s.youngest(func(store asm.Access) bool { return overlap(load, store) })
}
