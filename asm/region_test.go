package asm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// TestRegionOf: the blocks of a loop, and what is in the way.
func TestRegionOf(t *testing.T) {
	for _, row := range require.Table(t, "regions.txt") {
		got := []string{row[0], row[1], "", "", "", "", "", row[7]}
		r, err := RegionOf(require.Hex(t, row[0]), require.Get(strconv.Atoi(row[1]))(t))
		if got[6] = string(verdict.ReasonOf(err)); err == nil {
			got[2], got[3], got[4] = fmt.Sprint(len(r.Insts)), fmt.Sprint(r.Blocks), fmt.Sprint(r.Exits)
			got[5] = strings.Trim(fmt.Sprint(r.Leads()), "[]")
		}
		require.Equal(t, row[7], row, got)
	}
}

// TestRegionContained: whatever the bytes, all that control reaches in contained code is what the region had, and control leaves only to the
// end of the code, or through the jump before it.
func TestRegionContained(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	branches := [][]byte{{0x75, 0}, {0x74, 0}, {0xeb, 0}, {0xe2, 0}, {0xe3, 0}, {0x0f, 0x85, 0, 0, 0, 0}, {0xe9, 0, 0, 0, 0}, {0x2e, 0x7f, 0}}
	others := [][]byte{{0x48, 0xff, 0xc9}, {0x90}, {0x05, 1, 2, 3, 4}, {0x0f, 0x0b}, {0xc3}, {0xf3, 0x48, 0xab}, {0x84, 0xc0}, {0xe8, 0, 0, 0, 0}}
	contained := 0
	for range 20_000 {
		var code []byte
		for range 1 + rng.IntN(30) {
			one := others[rng.IntN(len(others))]
			if rng.IntN(3) == 0 {
				one = slices.Clone(branches[rng.IntN(len(branches))])
				to := rng.IntN(120) - 60
				one[len(one)-1] = byte(to)
				if len(one) >= 5 {
					at := one[len(one)-4:]
					at[0], at[1], at[2], at[3] = byte(to), byte(to>>8), byte(to>>16), byte(to>>24)
				}
			}
			code = append(code, one...)
		}
		entry := rng.IntN(len(code))
		r, err := RegionOf(code, entry)
		var before, safe []byte
		if err == nil {
			before, safe, err = r.Contained()
		}
		if err != nil {
			if verdict.ReasonOf(err) == "" {
				t.Fatalf("%x from %d: %v", code, entry, err)
			}
			continue
		}
		contained++
		known := map[int]string{}
		for i := range r.Insts {
			known[r.Insts[i].Offset] = r.Insts[i].Mnemonic
		}
		nodes, err := reach(append(before, safe...), entry+len(before))
		if err != nil {
			t.Fatalf("%x from %d: %v", code, entry, err)
		}
		for at, n := range nodes {
			name, ok := known[at-len(before)]
			exit := !ok && n.inst.Mnemonic == "jmp" && leads(nodes, n) == len(before)+len(safe)
			if !exit && (!ok || name != n.inst.Mnemonic) {
				t.Fatalf("%x from %d: %s at %d runs", code, entry, n.inst.Text(), at-len(before))
			}
			for _, to := range n.to {
				if to < 0 || to > len(before)+len(safe) {
					t.Fatalf("%x from %d: %s at %d leads to %d", code, entry, n.inst.Text(), at-len(before), to-len(before))
				}
			}
		}
	}
	if contained < 2_000 {
		t.Errorf("only %d regions are contained", contained)
	}
}

// leads returns to where a jump leads, by other jumps at most as many as there are instructions.
func leads(nodes map[int]node, n node) (to int) {
	for range nodes {
		to = n.to[0]
		if next, ok := nodes[to]; !ok || next.inst.Mnemonic != "jmp" {
			break
		}
		n = nodes[to]
	}
	return to
}
