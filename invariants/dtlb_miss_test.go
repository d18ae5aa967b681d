package invariants

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestDTLBMiss(t *testing.T) {
	pages := func(n int, width int) (tr Trace) {
		for copy := range 2 {
			for i := range n {
				tr.Accesses = append(tr.Accesses, asm.Access{Copy: copy, Addr: P + uint64(i+1)*page - 8, Width: width})
			}
		}
		return tr
	}
	for _, c := range []struct {
		name    string
		trace   Trace
		entries int
		reason  verdict.Reason
		kind    Kind
	}{
		{"none", Trace{}, 64, "", Inferred},
		{"as many as entries", pages(64, 8), 64, "", Inferred},
		{"one more", pages(65, 8), 64, verdict.DTLBMiss, ""},
		{"the last reaches into one more", pages(64, 9), 64, verdict.DTLBMiss, ""},
		{"a core that is not known", pages(500, 8), 0, "", Unchecked},
	} {
		f := DTLBMiss(c.trace, Core{DTLB: c.entries})
		require.Equal(t, c.name, c.reason, reasonOf(f))
		require.Equal(t, c.name+": evidence", c.kind, f.Evidence.Kind)
	}
	walk := pages(1, 8)
	for copy := range 100 {
		walk.Accesses = append(walk.Accesses, asm.Access{Copy: copy, Addr: P + uint64(copy)*page, Width: 8})
	}
	require.Equal(t, "the copy before which few enough pages were accessed", 64, DTLBMiss(walk, Core{DTLB: 64}).Copy)
}
