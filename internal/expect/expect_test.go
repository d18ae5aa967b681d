package expect

import (
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/cpu"
)

// TestRows: a row is of a core that there is, and one that is not there expects what all others do.
func TestRows(t *testing.T) {
	for name := range rows {
		if !slices.Contains(cpu.Names(), name) {
			t.Errorf("no core is called %s", name)
		}
		if Of(name) == others {
			t.Errorf("the row of %s says nothing", name)
		}
	}
	if got := Of(cpu.Unknown); got != others {
		t.Errorf("an unknown core: %+v", got)
	}
	if got := Of(cpu.Zen5c); got != Of(cpu.Zen5) || got.SteadyAfter != 16 {
		t.Errorf("Zen 5c: %+v", got)
	}
}
