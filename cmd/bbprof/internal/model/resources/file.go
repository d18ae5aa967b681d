package resources

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/profiler"
)

// Table is what forms use of each resource, with latencies for predictions.
type Table struct {
	Core      string     `json:"core"`
	CPU       string     `json:"cpu"`
	Made      string     `json:"made"`
	Resources []Resource `json:"resources"`
	Forms     []Form     `json:"forms"`
}

// Resource is represented by the instructions that saturate it.
type Resource struct {
	Name     string   `json:"name"`
	PerCycle float64  `json:"per_cycle"`      // of the kernel
	Kernel   []Copies `json:"kernel"`         // repeated as a whole
	Cycles   float64  `json:"cycles"`         // of the kernel
	Late     bool     `json:"late,omitempty"` // found for otherwise unexplained forms, and tested only for them

	kernel observation
	needs  int // resource that all users of this one use, too; -1: none
}

// Copies is a number of instructions of a form.
type Copies struct {
	Form string `json:"form"`
	N    int    `json:"n"`
}

// Form is a form and its use of each resource.
type Form struct {
	Name      string             `json:"form"`
	Alone     float64            `json:"alone,omitempty"`     // cycles each of many; 0 if unknown
	Latencies map[string]float64 `json:"latencies,omitempty"` // "2 to 1": from the second operand to the first
	Uses      []Use              `json:"uses"`

	// Simple forms may join a kernel: they wait for nothing in any mix.
	Simple bool   `json:"-"`
	Beside []Part `json:"-"` // instructions that each mix needs per instruction, to be subtracted
}

// Use is the cycles that one instruction of a form adds to a kernel. In JSON it is three numbers, or why there are none.
type Use struct {
	Share, Low, High float64
	Why              string // why it was not measured
}

func (u Use) MarshalJSON() ([]byte, error) {
	if u.Why != "" {
		return json.Marshal(u.Why)
	}
	return json.Marshal([]float64{u.Share, u.Low, u.High})
}

func (u *Use) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &u.Why)
	}
	return json.Unmarshal(text, &[]any{&u.Share, &u.Low, &u.High})
}

// finish names the kernels' instructions, and rounds all numbers.
func (t *Table) finish() {
	round := func(numbers ...*float64) {
		for _, v := range numbers {
			*v = math.Round(*v*1e4) / 1e4
		}
	}
	for i := range t.Resources {
		r := &t.Resources[i]
		r.PerCycle, r.Cycles = r.kernel.perCycle(), r.kernel.cycles
		round(&r.PerCycle, &r.Cycles)
		for _, p := range r.kernel.mix {
			r.Kernel = append(r.Kernel, Copies{t.Forms[p.Form].Name, p.N})
		}
	}
	for i := range t.Forms {
		round(&t.Forms[i].Alone)
		for k := range t.Forms[i].Uses {
			u := &t.Forms[i].Uses[k]
			round(&u.Share, &u.Low, &u.High)
		}
	}
}

// Cycles predicts independent instructions: the time of the fullest resource, or of one form's instructions alone.
func (t *Table) Cycles(mix Mix) (cycles float64) {
	for _, p := range mix {
		cycles = max(cycles, float64(p.N)*t.Forms[p.Form].Alone)
	}
	for r := range t.Resources {
		cycles = max(cycles, t.Load(mix, r))
	}
	return cycles
}

// Load returns the time that a mix takes of a resource.
func (t *Table) Load(mix Mix, resource int) (sum float64) {
	for _, p := range mix {
		sum += float64(p.N) * t.Slots(p.Form, resource)
	}
	return sum
}

func (t *Table) Write(w io.Writer) error { return json.NewEncoder(w).Encode(t) }

// Open reads the table in a file. An error names the file.
func Open(name string) (*Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return t, err
}

func Read(r io.Reader) (*Table, error) {
	var t Table
	if err := json.NewDecoder(r).Decode(&t); err != nil {
		return nil, err
	}
	if len(t.Resources) == 0 {
		return nil, fmt.Errorf("it names no resource; bbprof instructions -resources writes such files")
	}
	for i := range t.Resources {
		if r := &t.Resources[i]; !(r.PerCycle > 0) || !possible(r.PerCycle) {
			return nil, fmt.Errorf("resource %s executes %g instructions a cycle: want a number above 0", r.Name, r.PerCycle)
		}
	}
	for i := range t.Forms {
		if err := t.Forms[i].check(len(t.Resources)); err != nil {
			return nil, fmt.Errorf("form %s: %w", t.Forms[i].Name, err)
		}
	}
	return &t, nil
}

func (f *Form) check(resources int) error {
	if len(f.Uses) != resources {
		return fmt.Errorf("it has uses of %d resources, and there are %d", len(f.Uses), resources)
	}
	for pair, cycles := range f.Latencies {
		if !possible(cycles) {
			return fmt.Errorf("its latency %s is %g cycles, which no instruction takes", pair, cycles)
		}
	}
	for r, u := range f.Uses {
		if !possible(u.Share, u.Low, u.High) {
			return fmt.Errorf("its use of resource %d is %g cycles, from %g to %g, which no instruction takes", r+1, u.Share, u.Low, u.High)
		}
	}
	if !possible(f.Alone) {
		return fmt.Errorf("alone it takes %g cycles, which no instruction takes", f.Alone)
	}
	return nil
}

// possible reports whether all are cycles, or instructions a cycle, that something can take.
func possible(numbers ...float64) bool {
	return !slices.ContainsFunc(numbers, func(v float64) bool { return !(v >= 0 && v <= profiler.MostCycles) })
}

// Slots returns a form's use in whole slots, at most its time alone.
func (t *Table) Slots(form, resource int) float64 {
	use := t.Forms[form].Uses[resource].Share
	if alone := t.Forms[form].Alone; alone > 0 {
		use = min(use, alone)
	}
	return slots(use, t.Resources[resource].PerCycle)
}

// slots rounds a use down to whole slots: a kernel of one-operation forms takes one per instruction. An operation that
// another unit can execute takes part of a slot of a full kernel, since schedulers are not ideal; with a free slot
// elsewhere it takes none.
func slots(use, perCycle float64) float64 {
	const nearly, few = 0.15, 6 // of a slot; slots beyond which parts count
	if n := use * perCycle; n < few {
		return max(0, math.Floor(n+nearly)/perCycle)
	}
	return use
}

// WriteCSV writes a row per form and resource.
func (t *Table) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"form", "resource", "share", "low", "high", "untested"})
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	for i := range t.Forms {
		for r, u := range t.Forms[i].Uses {
			row := []string{t.Forms[i].Name, t.Resources[r].Name, "", "", "", u.Why}
			if u.Why == "" {
				row[2], row[3], row[4] = number(u.Share), number(u.Low), number(u.High)
			}
			out.Write(row)
		}
	}
	out.Flush()
	return out.Error()
}
