package block

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/profiler"
)

type Result struct {
	profiler.Result
	Models   []Prediction
	Distinct Distinct
}

// Distinct is the time where pointers start distinct, of a block whose loads otherwise meet stores.
type Distinct struct {
	Cycles  float64
	Init    string
	Indices bool // in memory, they differ, too
	Dropped bool // a loop's branch is left out
	Words   bool // loads meet stores there, too, by equal words of memory
}

type Prediction struct {
	Name    string  `json:"name"`
	Source  string  `json:"source"`
	Cycles  float64 `json:"cycles,omitzero"`
	Failure string  `json:"failure,omitempty"` // why there are no cycles
	View    string  `json:"view,omitempty"`    // llvm-mca's pressure and timeline, with -v
}

func (r Result) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(r.Result)
	if err != nil || r.Distinct.Cycles == 0 && len(r.Models) == 0 {
		return text, err
	}
	more, err := json.Marshal(struct {
		Distinct float64      `json:"distinct_cycles,omitzero"`
		Models   []Prediction `json:"models,omitempty"`
	}{r.Distinct.Cycles, r.Models})
	return fmt.Appendf(text[:len(text)-1], ",%s", more[1:]), err
}

func predictions(ctx context.Context, asked modelflags.Flags, code []byte, cpus []int, verbose bool) (list []Prediction, err error) {
	core, err := asked.NamedCore(cpus...)
	if err != nil {
		return nil, err
	}
	models, err := asked.Open(core)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		said, err := m.Predict(ctx, []string{fmt.Sprintf("%x", code)})
		if err != nil {
			return nil, err
		}
		p := Prediction{Name: m.Name, Source: m.String()}
		if said[0].Known() {
			p.Cycles = said[0].Cycles
		} else {
			p.Failure = said[0].Failure
		}
		if verbose {
			p.View = m.View(ctx, code)
		}
		list = append(list, p)
	}
	return list, nil
}

// beside returns the report's lines below the measured cycles.
func (r Result) beside() string {
	var w strings.Builder
	if d := r.Distinct; d.Cycles > 0 {
		fmt.Fprintf(&w, "%-12s%.3f cycles without equal pointers (-init %s)", "distinct", d.Cycles, d.Init)
		switch {
		case d.Indices:
			w.WriteString(", and with indices in memory that differ")
			if d.Dropped {
				w.WriteString(", its branch left out")
			}
		case d.Words:
			w.WriteString("; words of memory are equal there, too: -mem gives them others")
		}
		w.WriteByte('\n')
	}
	for _, p := range r.Models {
		fmt.Fprintf(&w, "%-12s%s: ", "model", p.Name)
		switch {
		case p.Failure != "":
			fmt.Fprintf(&w, "no prediction: %s", p.Failure)
		case r.Status != profiler.OK:
			fmt.Fprintf(&w, "%.3f cycles", p.Cycles)
		case p.Cycles < r.CILow, p.Cycles > r.CIHigh:
			fmt.Fprintf(&w, "%.3f cycles, %+.1f %%", p.Cycles, 100*(p.Cycles/r.Cycles-1))
		default:
			fmt.Fprintf(&w, "%.3f cycles, within the interval", p.Cycles)
		}
		if p.Source != p.Name {
			fmt.Fprintf(&w, " (%s)", p.Source)
		}
		w.WriteByte('\n')
		for line := range strings.Lines(p.View) {
			w.WriteString("  " + line)
		}
	}
	return w.String()
}
