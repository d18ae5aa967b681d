package asm

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// The start of all these tests: the paper's word everywhere, at an address apart from it.
const (
	paperWord  = 0x1234_5600
	testFSBase = 0x2345_6800
	testHome   = 0x6000_1000_0000
)

func testStart() Start {
	s := Start{Regs: Regs{RIP: testHome, FSBase: testFSBase}, Fill: paperWord}
	for i := range s.GPR {
		s.GPR[i] = paperWord
	}
	return s
}

func TestFollow(t *testing.T) {
	for _, row := range require.Table(t, "follow.txt") {
		var known []string
		for _, a := range Follow(mustDecode(t, row[0]), require.Get(strconv.Atoi(row[1]))(t), testStart()) {
			if a.Known {
				known = append(known, fmt.Sprintf("%d+%x", a.Inst, a.Addr))
			}
		}
		require.Equal(t, row[3], row[2], strings.Join(known, " "))
	}
}

// Whatever the bytes are, each access of each copy comes once, in order.
func FuzzFollow(f *testing.F) {
	for _, seed := range []string{"488b03", "50", "c9", "8f03", "48a5", "f3a4", "4898", "480fc1c3", "62f27d0990444b10", "d7"} {
		code := require.Hex(f, seed)
		f.Add(code, 5)
	}
	f.Fuzz(func(t *testing.T, code []byte, copies int) {
		insts, err := Decode(code)
		if err != nil {
			return
		}
		copies = min(max(copies, 1), 600)
		all := Follow(insts, copies, testStart())
		for c := range copies {
			for i := range insts {
				for k := range insts[i].Mem {
					if len(all) == 0 || all[0].Inst != i || all[0].Mem != k {
						t.Fatalf("%x: access %d of instruction %d of copy %d is missing", code, k, i, c)
					}
					all = all[1:]
				}
			}
		}
	})
}
