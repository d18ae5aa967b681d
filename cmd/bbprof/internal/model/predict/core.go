package predict

import (
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/cpu"
)

// Core is what models need to know of a core, and the widths for its lower bound.
type Core struct {
	Name                 string // in package cpu
	Issue, Loads, Stores int    // most per cycle: instructions renamed, loads, stores; 0 if unknown
	LLVM, UICA, OSACA    string // its name there; "" if unknown
}

func CoreOf(name string) (Core, bool) {
	c := cpu.Of(cpu.Name(name))
	if c.Name == cpu.Unknown {
		return Core{}, false
	}
	return Core{string(c.Name), c.DispatchWidth, c.LoadsPerCycle, c.StoresPerCycle, c.LLVM, c.UICA, c.OSACA}, true
}

const (
	FrontEnd   = "front end"
	LoadPorts  = "load ports"
	StorePorts = "store ports"
	Latency    = "latency or other ports"
)

// tight is the largest ratio to a lower bound that still counts as limited by it.
const tight = 1.1

// LowerBound returns the bound from the core's known widths, max(n/issue, loads/L, stores/S), and names the largest
// term.
func (c Core) LowerBound(insts []asm.Inst) (cycles float64, limit string) {
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
	}{{len(insts), c.Issue, FrontEnd}, {loads, c.Loads, LoadPorts}, {stores, c.Stores, StorePorts}} {
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
func (c Core) Limit(insts []asm.Inst, measured float64) string {
	bound, limit := c.LowerBound(insts)
	if measured <= tight*bound {
		return limit
	}
	return Latency
}

func CoreNames() string {
	var names []string
	for _, n := range cpu.Names() {
		names = append(names, string(n))
	}
	return strings.Join(names, ", ")
}

func LowerBounds(c Core) Source { return widths{c} }

type widths struct{ core Core }

func (w widths) String() string {
	terms := fmt.Sprintf("n/%d", w.core.Issue)
	if w.core.Loads > 0 {
		terms += fmt.Sprintf(", loads/%d", w.core.Loads)
	}
	if w.core.Stores > 0 {
		terms += fmt.Sprintf(", stores/%d", w.core.Stores)
	}
	return fmt.Sprintf("max(%s), the widths of %s", terms, w.core.Name)
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
