package predict

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

// Core is what models have to be told of a kind of core, and the widths for its lower bound.
type Core struct {
	Name                 string // as package cpu has it
	Issue, Loads, Stores int    // a cycle, at most: instructions renamed, loads, stores
	LLVM, UICA, OSACA    string // its name for these; "" where they do not know it
}

// cores. Sources: Intel 64 and IA-32 Optimization Reference Manual, the section of each
// microarchitecture; AMD Software Optimization Guides for families 17h, 19h and 1Ah, "Load-Store Unit";
// llc -mcpu=help; the -arch lists of uiCA and OSACA. LLVM has Golden Cove's model for Redwood Cove.
var cores = []Core{
	{"Haswell", 4, 2, 1, "haswell", "HSW", "HSW"},
	{"Broadwell", 4, 2, 1, "broadwell", "BDW", "BDW"},
	{"Skylake", 4, 2, 1, "skylake-avx512", "SKX", "SKX"},
	{"Ice Lake", 5, 2, 2, "icelake-server", "ICL", "ICX"},
	{"Golden Cove", 6, 3, 2, "sapphirerapids", "", "SPR"},
	{"Redwood Cove", 6, 3, 2, "graniterapids", "", ""},
	{"Zen", 6, 2, 1, "znver1", "", "ZEN1"},
	{"Zen 2", 6, 2, 1, "znver2", "", "ZEN2"},
	{"Zen 3", 6, 3, 2, "znver3", "", "ZEN3"},
	{"Zen 4", 6, 3, 2, "znver4", "", "ZEN4"},
	{"Zen 5", 8, 4, 2, "znver5", "", ""},
}

// CoreOf finds a core by its name.
func CoreOf(name string) (Core, bool) {
	i := slices.IndexFunc(cores, func(c Core) bool { return c.Name == name })
	if i < 0 {
		return Core{}, false
	}
	return cores[i], true
}

// What limits a block, as far as the widths of a core tell.
const (
	FrontEnd   = "front end"
	LoadPorts  = "load ports"
	StorePorts = "store ports"
	Latency    = "latency or other ports"
)

// tight is how far above a lower bound a block may be and still be limited by it.
const tight = 1.1

// LowerBound is the least that a block can take for the widths of the core: max(n/issue, loads/L,
// stores/S). limit says which of them it is.
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
	cycles, limit = float64(len(insts))/float64(c.Issue), FrontEnd
	if l := float64(loads) / float64(c.Loads); l > cycles {
		cycles, limit = l, LoadPorts
	}
	if s := float64(stores) / float64(c.Stores); s > cycles {
		cycles, limit = s, StorePorts
	}
	return cycles, limit
}

// Limit says what limits a block that takes so many cycles.
func (c Core) Limit(insts []asm.Inst, measured float64) string {
	bound, limit := c.LowerBound(insts)
	if measured <= tight*bound {
		return limit
	}
	return Latency
}

// CoreNames lists them in a sentence.
func CoreNames() string {
	var names []string
	for _, c := range cores {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

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
