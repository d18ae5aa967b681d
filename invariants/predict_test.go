package invariants

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// repeated builds a trace of equal copies; an access is for each of them the same, plus step bytes a copy.
func repeated(copies int, step uint64, frame map[uint64]int, accesses ...asm.Access) Trace {
	tr := Trace{Copies: copies, Frame: frame}
	for c := range copies {
		for _, a := range accesses {
			a.Copy = c
			a.Addr += step * uint64(c)
			tr.Accesses = append(tr.Accesses, a)
		}
	}
	return tr
}

func inst(n int, a asm.Access) asm.Access { a.Inst = n; return a }

// TestPredict has the counts; whether there is any, the tests of the rules hold against Predict.
func TestPredict(t *testing.T) {
	core := Core{L1DWays: 2, StoreBuffer: 4}
	apart := map[uint64]int{0x1000: 0, 0x2000: 1, 0x3000: 2, 0x4000: 3}
	shared := map[uint64]int{0x1000: 0, 0x2000: 0}
	for _, c := range []struct {
		name  string
		trace Trace
		want  Prediction
	}{
		{"nothing", Trace{}, Prediction{}},
		{"equal low bits", repeated(2, 0, apart, store(0x1100, 8), load(0x2100, 8)),
			Prediction{Loads: 1, Stores: 1, Alias4K: 1, AliasStores: 1}},
		{"same address", repeated(2, 0, apart, store(0x1100, 8), load(0x1100, 8)),
			Prediction{Loads: 1, Stores: 1, Forwarded: 1, Forwards: []Forward{{Load: 0, Store: 0}}}},
		{"the store of the copy before", repeated(4, 0, apart, inst(3, load(0x1104, 8)), inst(5, store(0x1100, 8))),
			Prediction{Loads: 1, Stores: 1, Forwarded: 1, Blocked: 1, Forwards: []Forward{{Load: 3, Store: 5, Copies: 1, Partial: true}}}},
		{"a part of a wider store", repeated(2, 0, apart, store(0x1100, 8), load(0x1104, 4)),
			Prediction{Loads: 1, Stores: 1, Forwarded: 1, Forwards: []Forward{{Load: 0, Store: 0}}}},
		{"a narrower store", repeated(2, 0, apart, store(0x1100, 4), load(0x1100, 8)),
			Prediction{Loads: 1, Stores: 1, Forwarded: 1, Blocked: 1, Forwards: []Forward{{Load: 0, Store: 0, Partial: true}}}},
		{"one frame", repeated(2, 0, shared, store(0x1100, 8), load(0x2100, 8)),
			Prediction{Loads: 1, Stores: 1, AliasFrame: 2}}, // each comes after the other's
		{"four stores back", repeated(2, 0, apart, store(0x1100, 8), store(0x1200, 8), store(0x1300, 8), store(0x1400, 8), load(0x2100, 8)),
			Prediction{Loads: 1, Stores: 4, Alias4K: 1, AliasStores: 4}},
		{"across pages", repeated(2, 0, apart, load(0x1ffc, 8)), Prediction{Loads: 1, Splits: 1, PageSplits: 1}},
		{"half of the copies that count", repeated(4, 4, apart, load(0x1030, 8)), // 30 34 | 38 3c
			Prediction{Loads: 1, Splits: 0.5}},
		{"one line more", repeated(2, 0, apart, load(0x1000, 8), load(0x2000, 8), load(0x3000, 8)),
			Prediction{Loads: 3, L1DMisses: 3}},
	} {
		require.Equal(t, c.name, c.want, Predict(c.trace, core))
	}
}

func TestCodeMisses(t *testing.T) {
	const size = 8 * page
	for _, c := range []struct {
		at    uint64
		bytes int
		want  int
	}{
		{0, 0, 0},
		{0, size, 0},
		{0, size + 1, 9},    // one set has a line too many, and loses all of its nine
		{line - 1, size, 9}, // not aligned, it takes a line more
		{0, 2 * size, 2 * size / line},
	} {
		require.Equal(t, fmt.Sprintf("%d bytes at %d", c.bytes, c.at), c.want, CodeMisses(c.at, c.bytes, size))
	}
}

func TestL1I(t *testing.T) {
	if f := L1IMiss(32768, 32768); f.Rejection != nil || f.Evidence.Kind != Inferred || f.Evidence.Invariant != verdict.L1IMiss {
		t.Errorf("code that fills it: %+v", f)
	}
	if f := L1IMiss(32769, 32768); f.Rejection == nil || f.Rejection.Reason != verdict.L1IMiss {
		t.Errorf("one byte more: %+v", f)
	}
}
