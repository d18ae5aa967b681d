package invariants

import (
	"math/rand/v2"
	"testing"

	"github.com/bbprof/bbprof/asm"
)

// The low 12 bits alone leave out no store that apart would find, through accesses of any width, across pages, and when
// stores leave the buffer.
func TestStoresLikeEachOne(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	trace := Trace{Frame: map[uint64]int{}}
	for p := range uint64(8) {
		trace.Frame[p*page] = int(p % 3)
	}
	widths := []int{1, 2, 4, 8, 16, 32, 64, 512, 5000}
	found := 0
	for _, room := range []int{0, 1, 2, 7} {
		s := stores{room: room}
		var all []asm.Access
		for range 20000 {
			a := asm.Access{Addr: uint64(r.IntN(5)) * page, Width: widths[r.IntN(len(widths))]}
			a.Addr += uint64(r.IntN(page))
			if r.IntN(4) > 0 { // and some crowd
				a.Addr, a.Width = a.Addr&^within+uint64(r.IntN(64)), min(a.Width, 8)
			}
			last := all[max(len(all)-room, 0):]
			want := 0
			for n := 1; n <= len(last) && want == 0; n++ {
				if trace.apart(&a, &last[len(last)-n]) {
					want = n
				}
			}
			got := s.aliases(trace, &a)
			if got != want {
				t.Fatalf("room %d: %+v aliases with the store %d back, want %d of %+v", room, a, got, want, last)
			}
			if want > 0 {
				found++
			}
			if r.IntN(2) == 0 {
				s.add(a)
				all = append(all, a)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d loads aliased", found)
	}
}
