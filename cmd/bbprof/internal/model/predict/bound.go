package predict

import (
	"context"
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

// LowerBounds is the source that predicts the lower bound of a core's widths.
func LowerBounds(c Core) Source { return widths{c} }

type widths struct{ core Core }

func (w widths) String() string {
	return fmt.Sprintf("max(n/%d, loads/%d, stores/%d), the widths of %s", w.core.Issue, w.core.Loads, w.core.Stores, w.core.Name)
}

func (w widths) Predict(_ context.Context, blocks []string) ([]score.Prediction, error) {
	out := make([]score.Prediction, len(blocks))
	for i, b := range blocks {
		insts, err := asm.DecodeHex(b)
		if err != nil {
			out[i] = score.Failed(oneLine(err.Error()))
			continue
		}
		out[i].Cycles, _ = w.core.LowerBound(insts)
	}
	return out, nil
}
