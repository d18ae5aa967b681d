package selftest

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/profiler"
)

// A relation is between the times of blocks, and holds on any core: a core that violates it is measured wrongly.
type relation struct {
	text  string // what is measured last
	short bool
	// blocks are measured in order; expected is what the last must take, by the others' results.
	blocks   []profiler.Block
	expected func(others []profiler.Result, last profiler.Result) Answer
	clock    bool // expected is the clock's cross-check
}

// Chains through rax whose latencies add up on any core: no core fuses, eliminates or renames any of them away.
var (
	addRAX  = []byte{0x48, 0x01, 0xc0}       // add rax, rax
	negRAX  = []byte{0x48, 0xf7, 0xd8}       // neg rax
	notRAX  = []byte{0x48, 0xf7, 0xd0}       // not rax
	imulRAX = []byte{0x48, 0x0f, 0xaf, 0xc0} // imul rax, rax
	bswap   = []byte{0x48, 0x0f, 0xc8}       // bswap rax
	loadRAX = []byte{0x48, 0x8b, 0x00}       // mov rax, [rax]
	mulsd   = []byte{0xf2, 0x0f, 0x59, 0xc0} // mulsd xmm0, xmm0
	imulRCX = []byte{0x48, 0x0f, 0xaf, 0xc9} // imul rcx, rcx
)

func relations() []relation {
	return []relation{
		asClock(imulRAX),
		sum(true, addRAX, imulRAX, negRAX),
		sum(false, imulRAX, imulRAX),
		sum(false, notRAX, imulRAX, bswap),
		sum(false, loadRAX, loadRAX, loadRAX),
		sum(false, mulsd, mulsd),
		asLoop(true, imulRAX),
		asLoop(false, loadRAX),
		asLoop(false, mulsd),
		independent(imulRAX, imulRCX),
	}
}

func text(code []byte) string {
	insts, err := asm.Decode(code)
	if err != nil {
		return hex.EncodeToString(code)
	}
	return asm.Text(insts)
}

// asClock: by its own block, imul takes what the clock's cross-check found.
func asClock(code []byte) relation {
	return relation{text: text(code) + ", by the clock's cross-check", short: true, clock: true, blocks: []profiler.Block{{Code: code}},
		expected: func(_ []profiler.Result, last profiler.Result) Answer {
			if last.Clock == nil {
				return Answer{}
			}
			return Answer{last.Clock.MultiplyCycles, last.Clock.MultiplyCycles}
		}}
}

// sum: several chains in one block take the sum of their times.
func sum(short bool, parts ...[]byte) relation {
	r := relation{short: short, expected: func(parts []profiler.Result, _ profiler.Result) (a Answer) {
		for _, p := range parts {
			a.Low += p.Cycles
		}
		return Answer{a.Low, a.Low}
	}}
	var whole []byte
	for _, p := range parts {
		r.blocks = append(r.blocks, profiler.Block{Code: p})
		whole = append(whole, p...)
	}
	r.text = text(whole) + ", by its parts"
	r.blocks = append(r.blocks, profiler.Block{Code: whole})
	return r
}

// asLoop: a chain takes the same in a row and in a loop.
func asLoop(short bool, code []byte) relation {
	mode := func(m profiler.Mode) profiler.Block {
		return profiler.Block{Code: code, Setup: profiler.Setup{Mode: m}}
	}
	return relation{text: text(code) + ", in a loop as in a row", short: short, blocks: []profiler.Block{mode(profiler.Unroll), mode(profiler.Loop)},
		expected: func(others []profiler.Result, _ profiler.Result) Answer {
			return Answer{others[0].Cycles, others[0].Cycles}
		}}
}

// independent: two chains beside each other take as long as one, or up to twice that where they share a unit.
func independent(a, b []byte) relation {
	both := append(append([]byte(nil), a...), b...)
	return relation{text: text(both) + ", by one of them", blocks: []profiler.Block{{Code: a}, {Code: both}},
		expected: func(others []profiler.Result, _ profiler.Result) Answer {
			return Answer{others[0].Cycles, 2 * others[0].Cycles}
		}}
}

// measured memorizes results by what was measured, since relations share blocks.
type measured map[string]profiler.Result

func key(b profiler.Block) string { return string(b.Setup.Mode) + " " + string(b.Code) }

// relation measures the blocks of a relation that were not measured yet, and judges the last.
func (r *runner) relation(ctx context.Context, x relation) (o Outcome, err error) {
	last := x.blocks[len(x.blocks)-1]
	o = Outcome{Text: x.text, Hex: hex.EncodeToString(last.Code), Kind: Relation}
	var results []profiler.Result
	for _, b := range x.blocks {
		m, ok := r.known[key(b)]
		if !ok {
			var n int
			if m, n, err = r.measure(ctx, b); err != nil {
				return o, err
			}
			o.Tries += n
		}
		if m.Status != profiler.OK {
			o.judge(m, Answer{})
			o.Why = strings.TrimPrefix(fmt.Sprintf("%s: %s", text(b.Code), o.Why), o.Text+": ")
			return o, nil
		}
		r.known[key(b)] = m
		results = append(results, m)
	}
	n := len(results) - 1
	answer := x.expected(results[:n], results[n])
	o.judge(results[n], answer)
	if o.Status == Fail && x.clock && !clock.Whole(answer.Low) {
		o.Status, o.Why = Disturbed, fmt.Sprintf("other work disturbed the start, by which an imul took %.3f cycles", answer.Low)
	}
	if math.IsNaN(answer.Low) || answer == (Answer{}) {
		o.Status, o.Why = Skipped, "this clock has no cross-check"
	}
	return o, nil
}
