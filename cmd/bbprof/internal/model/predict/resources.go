package predict

import (
	"context"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/resources"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/cpu"
)

// resourcesPrefix starts a source that is a table of bbprof instructions -resources.
const resourcesPrefix = "resources:"

// measuredTable predicts the fullest resource or the longest chain, from a table measured on the core.
type measuredTable struct {
	name  string
	file  *resources.Table
	forms map[string]int
}

func newMeasuredTable(name string, core cpu.Name) (Source, error) {
	file, err := resources.Open(name)
	if err != nil {
		return nil, usage("%w", err)
	}
	t := &measuredTable{name: name, file: file, forms: map[string]int{}}
	if of := cpu.Name(t.file.Core); of != core && cpu.Of(of).Name != cpu.Unknown && core != "" {
		return nil, usage("%s: it was measured on %s, and the blocks on %s; if the two are alike, -core '%s' says so", name, of, core, of)
	}
	for i := range t.file.Forms {
		t.forms[t.file.Forms[i].Name] = i
	}
	return t, nil
}

func (t *measuredTable) String() string {
	return fmt.Sprintf("%s: the fullest of %d resources or the longest chain of %d measured forms, %s", t.name,
		len(t.file.Resources), len(t.forms), t.file.Core)
}

func (t *measuredTable) Predict(_ context.Context, blocks []string) ([]score.Prediction, error) {
	return each(blocks, t.block), nil
}

func (t *measuredTable) block(insts []asm.Inst) (cycles float64, err error) {
	renamed := 0 // that need no unit
	var mix resources.Mix
	latencies := make([]map[string]float64, len(insts))
	for i := range insts {
		in := &insts[i]
		form := in.Form()
		if form == nil {
			return 0, fmt.Errorf("the table has no form of %s", in.Text())
		}
		n, ok := t.forms[form.Name()]
		if !ok {
			return 0, fmt.Errorf("the table has no form %s", form.Name())
		}
		latencies[i] = t.file.Forms[n].Latencies
		if idiom(in, form) {
			renamed++
			continue
		}
		at := slices.IndexFunc(mix, func(p resources.Part) bool { return p.Form == n })
		if at < 0 {
			at, mix = len(mix), append(mix, resources.Part{Form: n})
		}
		mix[at].N++
	}
	cycles = max(t.file.Cycles(mix), longestChain(insts, latencies))
	for r, resource := range t.file.Resources {
		if resource.Name == resources.FrontEnd {
			cycles = max(cycles, float64(renamed)/resource.PerCycle+t.file.Load(mix, r))
		}
	}
	return cycles, nil
}

// idiom reports whether the result does not depend on the registers read: renaming makes such zeros or ones.
func idiom(in *asm.Inst, f *asm.Form) bool {
	reads, _ := in.Dataflow()
	if reads != (asm.Values{}) || len(in.Mem) > 0 {
		return false
	}
	for _, o := range f.Operands() {
		if o.Read && (o.Class == asm.GPROperand || o.Class == asm.VectorOperand) {
			return true
		}
	}
	return false
}
