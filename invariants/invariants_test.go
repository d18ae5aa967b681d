package invariants

import (
	"testing"

	"github.com/bbprof/bbprof/verdict"
)

func TestL1I(t *testing.T) {
	if f := L1IMiss(32768, 32768); f.Rejection != nil || f.Evidence.Kind != Inferred || f.Evidence.Invariant != verdict.L1IMiss {
		t.Errorf("code that fills it: %+v", f)
	}
	if f := L1IMiss(32769, 32768); f.Rejection == nil || f.Rejection.Reason != verdict.L1IMiss {
		t.Errorf("one byte more: %+v", f)
	}
}
