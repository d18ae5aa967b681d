package check

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

// Baseline is what a result file of bbprof batch says.
type Baseline struct {
	Rows []Block          // without cycles where nothing was measured
	Runs []resultfile.Run // under what conditions they were measured
}

// Measured reports whether there is something to compare with.
func (b *Block) Measured() bool { return b.Cycles > 0 }

// leastHalf is half of the last digit that a file has.
const leastHalf = 0.00005

// ReadBaseline reads rows that have at least the columns hex, status, cycles, ci_low and ci_high.
func ReadBaseline(in resultfile.Reader) (b Baseline, err error) {
	schema := in.Schema()
	if schema == nil {
		return b, errors.New("it is empty, or ends within its first line")
	}
	at := map[string]int{}
	for _, name := range []string{"hex", "status", "cycles", "ci_low", "ci_high", "run_header"} {
		if at[name] = schema.Index(name); at[name] < 0 && name != "run_header" {
			return b, fmt.Errorf("it has no column %s: a baseline is what bbprof batch writes", name)
		}
	}
	for {
		cells, err := in.Next()
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		cell := func(name string) string { return cells[at[name]] }
		if at["run_header"] >= 0 && cell("run_header") != "" {
			run, err := resultfile.ParseRun(cell("run_header"))
			if err != nil {
				return b, err
			}
			b.Runs = append(b.Runs, run)
		}
		row := Block{Row: len(b.Rows) + 1}
		if cell("status") == string(profiler.OK) {
			if err := row.parse(cell); err != nil {
				return b, fmt.Errorf("row %d: %w", row.Row, err)
			}
		}
		b.Rows = append(b.Rows, row)
	}
}

// parse reads what was measured.
func (r *Block) parse(cell func(name string) string) (err error) {
	if r.Code, err = asm.ParseHex(cell("hex"), profiler.MaxBlock); err != nil {
		return fmt.Errorf("hex: %w", err)
	}
	var v [3]float64
	for i, name := range []string{"cycles", "ci_low", "ci_high"} {
		if v[i], err = strconv.ParseFloat(cell(name), 64); err != nil {
			return fmt.Errorf("%s is %q, and no number", name, cell(name))
		}
	}
	if !(v[0] > 0 && v[0]-v[0] == 0 && v[1] <= v[0] && v[0] <= v[2]) {
		return fmt.Errorf("%s cycles with an interval from %s to %s cannot be", cell("cycles"), cell("ci_low"), cell("ci_high"))
	}
	r.Cycles, r.Half = v[0], max((v[2]-v[1])/2, leastHalf)
	return nil
}

// Distinct are the blocks that there is something to compare with. Rows that repeat another's
// measurement of the same block are left out.
func Distinct(rows []Block) (blocks []Block) {
	type key struct {
		code         string
		cycles, half float64
	}
	seen := map[key]bool{}
	for _, r := range rows {
		k := key{string(r.Code), r.Cycles, r.Half}
		if r.Measured() && !seen[k] {
			seen[k] = true
			blocks = append(blocks, r)
		}
	}
	return blocks
}

// Against says in what the baseline's conditions differ from those here: unlike lists what makes
// its cycles other blocks' cycles, another microarchitecture or other settings; told what should
// change nothing.
func (b *Baseline) Against(here resultfile.Run) (unlike, told []string) {
	if len(b.Runs) == 0 {
		unlike = append(unlike, "it does not say on which CPU and with which settings (column run_header)")
	}
	for _, run := range b.Runs {
		there := run.Host
		switch same := there.Microarchitecture == here.Host.Microarchitecture; {
		case !same:
			unlike = append(unlike, fmt.Sprintf("microarchitecture: %s, here %s", there.Microarchitecture, here.Host.Microarchitecture))
		case there.Microarchitecture == host.Unknown && (there.Vendor != here.Host.Vendor || there.Family != here.Host.Family || there.Model != here.Host.Model):
			unlike = append(unlike, fmt.Sprintf("CPU: %s family %#x model %#x, here %s family %#x model %#x",
				there.Vendor, there.Family, there.Model, here.Host.Vendor, here.Host.Family, here.Host.Model))
		case there.Brand != here.Host.Brand:
			told = append(told, fmt.Sprintf("CPU: %s, here %s", there.Brand, here.Host.Brand))
		}
		if run.Version != here.Version {
			told = append(told, fmt.Sprintf("version: %s, here %s", run.Version, here.Version))
		}
		unlike = append(unlike, run.SettingsDifference(here)...)
	}
	return distinct(unlike), distinct(told)
}

// distinct drops repetitions; runs of one file mostly are alike.
func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
