package asm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestAccessesFrom: what instructions access from one state.
func TestAccessesFrom(t *testing.T) {
	s := Machine{Regs: Regs{RIP: 0x400000, FSBase: 0x10000, GSBase: 0x20000}, Opmasks: [8]uint64{1: 0b0101, 2: 0}}
	for i := range s.GPR {
		s.GPR[i] = 0x1000 * uint64(i+1)
	}
	s.GPR[numSI], s.GPR[numDI] = 0xffffffff80000000, 0xfffffffffffff1ff
	s.Vectors[1] = [64]byte{0: 1, 4: 2, 8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 12: 4} // 1, 2, -1, 4
	s.Vectors[2] = [64]byte{3: 0x80, 15: 0x80}                                       // of 4 elements the first and the last
	for _, row := range require.Table(t, "accesses.txt") {
		got := ""
		mustDecode(t, row[0])[0].AccessesFrom(&s, func(a Access, m Mem, suppressed bool) {
			got += fmt.Sprintf(" %x/%d", a.Addr, a.Width)
			for i, on := range []bool{a.Read, a.Write, suppressed} {
				if on {
					got += "rw-"[i : i+1]
				}
			}
		})
		require.Equal(t, row[2], row[1], strings.TrimPrefix(got, " "))
	}
	s.GPR[1] = 0 // rcx
	for _, repeated := range []string{"f3aa", "f3a4", "f2ae"} {
		mustDecode(t, repeated)[0].AccessesFrom(&s, func(a Access, _ Mem, _ bool) { t.Errorf("%s accesses %#x in no round", repeated, a.Addr) })
	}
}
