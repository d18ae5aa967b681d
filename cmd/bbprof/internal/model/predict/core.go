package predict

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/cpu"
)

// CoreNamed returns the core that was asked for, or else another, empty if that is unknown.
func CoreNamed(asked, otherwise string) (cpu.Core, error) {
	if c := cpu.Of(cpu.Name(cmp.Or(asked, otherwise))); c.Name != cpu.Unknown {
		return c, nil
	}
	if asked == "" {
		return cpu.Core{}, nil
	}
	var known []string
	for _, n := range cpu.Names() {
		known = append(known, string(n))
	}
	return cpu.Core{}, usage("-core %s: bbprof does not know it; it knows %s", asked, strings.Join(known, ", "))
}

const (
	FrontEnd   = "front end"
	LoadPorts  = "load ports"
	StorePorts = "store ports"
	Latency    = "latency or other ports"
)

// tight is the largest ratio to a lower bound that still counts as limited by it.
const tight = 1.1

// lowerBound returns the bound from the core's known widths, max(n/issue, loads/L, stores/S), and names the largest
// term.
func lowerBound(c cpu.Core, insts []asm.Inst) (cycles float64, limit string) {
	var loads, stores int
	for i := range insts {
		for _, m := range insts[i].Mem {
			n := max(1, m.Elements)
			if m.Read {
				loads += n
			}
			if m.Write {
				stores += n
			}
		}
	}
	for _, of := range []struct {
		n, width int
		limit    string
	}{{len(insts), c.DispatchWidth, FrontEnd}, {loads, c.LoadsPerCycle, LoadPorts}, {stores, c.StoresPerCycle, StorePorts}} {
		if of.width == 0 {
			continue
		}
		if least := float64(of.n) / float64(of.width); limit == "" || least > cycles {
			cycles, limit = least, of.limit
		}
	}
	return cycles, limit
}

// Limit names what limits a block of these cycles.
func Limit(c cpu.Core, insts []asm.Inst, measured float64) string {
	bound, limit := lowerBound(c, insts)
	if measured <= tight*bound {
		return limit
	}
	return Latency
}

// LowerBounds predicts the lower bound of a core's widths.
func LowerBounds(c cpu.Core) Source { return widths{c} }

type widths struct{ core cpu.Core }

func (w widths) String() string {
	terms := fmt.Sprintf("n/%d", w.core.DispatchWidth)
	if w.core.LoadsPerCycle > 0 {
		terms += fmt.Sprintf(", loads/%d", w.core.LoadsPerCycle)
	}
	if w.core.StoresPerCycle > 0 {
		terms += fmt.Sprintf(", stores/%d", w.core.StoresPerCycle)
	}
	return fmt.Sprintf("max(%s), the widths of %s", terms, w.core.Name)
}

func (w widths) Predict(_ context.Context, blocks []string) ([]score.Prediction, error) {
	return each(blocks, func(insts []asm.Inst) (float64, error) {
		cycles, _ := lowerBound(w.core, insts)
		return cycles, nil
	}), nil
}

// each predicts blocks one by one, in this process.
func each(blocks []string, predict func([]asm.Inst) (float64, error)) []score.Prediction {
	out := make([]score.Prediction, len(blocks))
	for i, b := range blocks {
		insts, err := asm.DecodeHex(b)
		if err == nil {
			out[i].Cycles, err = predict(insts)
		}
		if err != nil {
			out[i] = score.Failed(oneLine(err.Error()))
		}
	}
	return out
}
