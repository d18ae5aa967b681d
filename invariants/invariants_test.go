package invariants

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/verdict"
)

func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name      string
		got       Evidence
		invariant verdict.Reason
		kind      Kind
		hint      string
	}{
		{"no page", L1D(Memory{}, 8), verdict.L1DMiss, Inferred, "no page"},
		{"no page, no cache", L1D(Memory{}, 0), verdict.L1DMiss, Inferred, "no page"},
		{"frames and 2 fill the ways", L1D(Memory{Pages: 6, Frames: 6, Loads: true}, 8), verdict.L1DMiss, Inferred, "8 lines per set"},
		{"one frame more", L1D(Memory{Pages: 7, Frames: 7, Loads: true}, 8), verdict.L1DMiss, Unchecked, "7 frame"},
		{"twice the frames and 2, to restore them", L1D(Memory{Pages: 3, Frames: 3, Stores: true}, 8), verdict.L1DMiss, Inferred, "8 lines per set"},
		{"one frame more to restore", L1D(Memory{Pages: 4, Frames: 4, Stores: true}, 8), verdict.L1DMiss, Unchecked, "10 lines per set"},
		{"many pages on one frame", L1D(Memory{Pages: 1000, Frames: 1, Stores: true}, 8), verdict.L1DMiss, Inferred, "4 lines per set"},
		{"one way too few", L1D(Memory{Pages: 1, Frames: 1, Stores: true}, 3), verdict.L1DMiss, Unchecked, ""},

		{"code that fills L1I", L1I(32768, 32768), verdict.L1IMiss, Inferred, "32768 bytes of code"},
		{"a byte more", L1I(32769, 32768), verdict.L1IMiss, Unchecked, "32769 bytes of code"},

		{"switches", ContextSwitches(6, 2), verdict.ContextSwitch, Counted, "0 in the 6 windows kept (getrusage); 2"},

		{"aligned, there being nothing", Misaligned(Memory{}), verdict.Misaligned, Inferred, "no memory"},
		{"one page", Misaligned(Memory{Pages: 1, Frames: 1}), verdict.Misaligned, Unchecked, "not known"},

		{"loads only", Alias4K(Memory{Pages: 2, Frames: 1, Loads: true}), verdict.Alias4K, Inferred, "load and a store"},
		{"stores only", Alias4K(Memory{Pages: 2, Frames: 1, Stores: true}), verdict.Alias4K, Inferred, "load and a store"},
		{"both, one page", Alias4K(Memory{Pages: 1, Frames: 1, Loads: true, Stores: true}), verdict.Alias4K, Inferred, "one page"},
		{"both, two pages", Alias4K(Memory{Pages: 2, Frames: 2, Loads: true, Stores: true}), verdict.Alias4K, Unchecked, "not known"},

		{"one page", AliasFrame(Memory{Pages: 1, Frames: 1}), verdict.AliasFrame, Inferred, "one page"},
		{"a frame each", AliasFrame(Memory{Pages: 3, Frames: 3}), verdict.AliasFrame, Inferred, "frame of its own"},
		{"one frame too few", AliasFrame(Memory{Pages: 3, Frames: 2}), verdict.AliasFrame, Unchecked, "not known"},
	} {
		if c.got.Invariant != c.invariant || c.got.Kind != c.kind || c.got.Detail == "" || !strings.Contains(c.got.Detail, c.hint) {
			t.Errorf("%s: %+v, want %s, %s, %q", c.name, c.got, c.invariant, c.kind, c.hint)
		}
	}
}
