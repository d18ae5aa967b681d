package resources

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// File is a table in JSON, with latencies for predictions.
type File struct {
	Core      string         `json:"core"`
	CPU       string         `json:"cpu"`
	Made      string         `json:"made"`
	Resources []FileResource `json:"resources"`
	Forms     []FileForm     `json:"forms"`
}

// FileResource is a resource: the instructions that saturate it, and their rate per cycle.
type FileResource struct {
	Name     string       `json:"name"`
	PerCycle float64      `json:"per_cycle"`
	Kernel   []FileKernel `json:"kernel"`
	Cycles   float64      `json:"cycles"`
	Late     bool         `json:"late,omitempty"`
}

type FileKernel struct {
	Form string `json:"form"`
	N    int    `json:"n"`
}

// FileForm is a form's use of each resource, in order: share, low and high.
type FileForm struct {
	Form      string             `json:"form"`
	Alone     float64            `json:"alone,omitempty"`
	Latencies map[string]float64 `json:"latencies,omitempty"` // "2 to 1": from the second operand to the first
	Uses      [][3]float64       `json:"uses"`
	Why       map[string]string  `json:"untested,omitempty"` // why a use was not measured, by resource number
}

// File converts the table.
func (t *Table) File() (f File) {
	for _, r := range t.Resources {
		one := FileResource{Name: r.Name, PerCycle: rounded(r.PerCycle()), Cycles: rounded(r.Cycles), Late: r.Late}
		for _, p := range r.Kernel {
			one.Kernel = append(one.Kernel, FileKernel{t.Forms[p.Form].Name, p.N})
		}
		f.Resources = append(f.Resources, one)
	}
	for i := range t.Forms {
		one := FileForm{Form: t.Forms[i].Name, Alone: rounded(t.Forms[i].Alone)}
		for r, u := range t.Uses[i] {
			one.Uses = append(one.Uses, [3]float64{rounded(u.Share), rounded(u.Low), rounded(u.High)})
			if u.Why != "" {
				if one.Why == nil {
					one.Why = map[string]string{}
				}
				one.Why[strconv.Itoa(r)] = u.Why
			}
		}
		f.Forms = append(f.Forms, one)
	}
	return f
}

func rounded(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// Cycles predicts independent instructions: the time of the fullest resource, whose number it returns, or of one form's
// instructions alone (-1). counts are by form.
func (f *File) Cycles(counts map[int]float64) (cycles float64, fullest int) {
	fullest = -1
	for form, n := range counts {
		cycles = max(cycles, n*f.Forms[form].Alone)
	}
	for r := range f.Resources {
		sum := 0.0
		for form, n := range counts {
			sum += n * f.Slots(form, r)
		}
		if sum > cycles {
			cycles, fullest = sum, r
		}
	}
	return cycles, fullest
}

// Write writes the file.
func (f *File) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	return out.Encode(f)
}

// Read reads a file.
func Read(r io.Reader) (*File, error) {
	var f File
	if err := json.NewDecoder(r).Decode(&f); err != nil {
		return nil, err
	}
	if len(f.Resources) == 0 {
		return nil, fmt.Errorf("it names no resource; bbprof instructions -resources writes such files")
	}
	for i := range f.Forms {
		if len(f.Forms[i].Uses) != len(f.Resources) {
			return nil, fmt.Errorf("%s has uses of %d resources, and there are %d", f.Forms[i].Form, len(f.Forms[i].Uses), len(f.Resources))
		}
	}
	return &f, nil
}

// Slots returns a form's use in whole slots, at most its time alone.
func (f *File) Slots(form, resource int) float64 {
	use := f.Forms[form].Uses[resource][0]
	if alone := f.Forms[form].Alone; alone > 0 {
		use = min(use, alone)
	}
	return slots(use, f.Resources[resource].PerCycle)
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

// Untested returns why a use was not measured.
func (f *File) Untested(form, resource int) string {
	return f.Forms[form].Why[strconv.Itoa(resource)]
}

// WriteCSV writes a row per form and resource.
func (f *File) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"form", "resource", "share", "low", "high", "untested"})
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	for i := range f.Forms {
		form := &f.Forms[i]
		for r, u := range form.Uses {
			row := []string{form.Form, f.Resources[r].Name, number(u[0]), number(u[1]), number(u[2]), f.Untested(i, r)}
			if row[5] != "" {
				row[2], row[3], row[4] = "", "", ""
			}
			out.Write(row)
		}
	}
	out.Flush()
	return out.Error()
}
