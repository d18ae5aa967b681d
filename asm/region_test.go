package asm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// TestRegionOf: the blocks of a loop, and what is in the way.
func TestRegionOf(t *testing.T) {
	for _, test := range []struct {
		name, code                  string
		entry, insts, blocks, exits int
		leads                       []int64
		reason                      verdict.Reason
	}{
		{"one block", "4801d8" + "48ffc9" + "75f8", 0, 3, 1, 1, []int64{8}, ""},
		{"the header below the body, as Go writes it", "480304c8" + "48ffc1" + "4839d9" + "7cf4", 7, 4, 2, 1, []int64{12}, ""},
		{"a branch that leaves", "84c0" + "7406" + "48ffc9" + "75f7", 0, 4, 2, 2, []int64{9, 10}, ""},
		{"a call on one of two ways", "84c0" + "7505" + "e811111111" + "48ffc9" + "75f2", 0, 4, 2, 2, []int64{4, 14}, ""},
		{"a call by address after what prepares it", "84c0" + "7505" + "31c0" + "41ffd0" + "48ffc9" + "75f2", 0, 4, 2, 2, []int64{4, 14}, ""},
		{"code between that does not come back", "84c0" + "7505" + "0f0b0f0b90" + "48ffc9" + "75f2", 0, 4, 2, 2, []int64{4, 14}, ""},
		{"no loop", "84c0" + "7403" + "48ffc0" + "48ffc3", 0, 4, 3, 1, []int64{10}, ""},
		{"a call on each way", "e800000000" + "ebf9", 0, 0, 0, 0, nil, verdict.ControlFlow},
		{"a system call", "0f05" + "ebfc", 0, 0, 0, 0, nil, verdict.Syscall},
		{"an entry past the code", "ebfe", 2, 0, 0, 0, nil, verdict.ControlFlow},
		{"into an instruction", "05eb049090" + "75fa" + "ebf7", 0, 0, 0, 0, nil, verdict.ControlFlow},
	} {
		r, err := RegionOf(require.Hex(t, test.code), test.entry)
		if verdict.ReasonOf(err) != test.reason || (err == nil) != (test.reason == "") {
			t.Errorf("%s: %v, not %q", test.name, err, test.reason)
		} else if err == nil {
			require.Equal(t, test.name, []any{test.insts, test.blocks, test.exits, test.leads}, []any{len(r.Insts), r.Blocks, r.Exits, r.Leads()})
		}
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
