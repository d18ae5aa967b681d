package resultfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/profiler"
)

// Run describes the conditions of a measurement. It is stored as JSON in column run_header of a run's first row; a
// resumed file holds one for each start.
type Run struct {
	// These affect the results, so all rows of one Run.ID share them.
	Version  string         `json:"version"`
	Host     Host           `json:"host"`
	Settings map[string]any `json:"settings"` // how to measure, by flag name, with defaults

	// The rows of the input that it takes.
	Shard string `json:"shard,omitempty"`

	// For information only.
	Kernel   string       `json:"kernel"`
	Machine  host.Machine `json:"machine,omitzero"`
	Clock    string       `json:"clock"`
	Selftest string       `json:"selftest"`
	Controls *Controls    `json:"controls,omitempty"` // unless the run was interrupted or wrote to a pipe
	Workers  [][]int      `json:"workers"`            // CPUs of each worker
	Inputs   []string     `json:"inputs"`
	Started  string       `json:"started"` // RFC 3339
}

// Host describes the CPU, as far as results depend on it.
type Host struct {
	Microarchitecture cpu.Name `json:"microarchitecture"`
	Vendor            string   `json:"vendor"`
	Brand             string   `json:"brand"`
	Family            int      `json:"family"`
	Model             int      `json:"model"`
}

func HostOf(c host.CPU) Host {
	return Host{c.Microarchitecture, c.Vendor, c.Brand, c.Family, c.Model}
}

// auto marks a setting that bbprof chooses per block.
const auto = "auto"

// SettingsOf returns all options but those about where to measure and what else to report, with the flags' names
// and syntax, so that a command line accepts what a result shows.
func SettingsOf(o profiler.Options) map[string]any {
	o = o.WithDefaults()
	settings := map[string]any{
		"unroll":    auto,
		"budget":    o.Budget.String(),
		"precision": o.Precision,
		"frames":    auto,
		"init":      cmp.Or(o.Init, auto),
		"ftz":       !o.NoFTZ,
		"rescue":    !o.NoRescue,
		"mode":      string(o.Mode),
		"frontend":  string(o.FrontEnd),
		"clock":     string(o.Clock),
		"identical": float64(cmp.Or(o.Identical, timing.PaperIdentical)),
		"events":    strings.Join(o.Events, ","),
	}
	if o.Unroll != nil {
		settings["unroll"] = fmt.Sprintf("%d,%d", o.Unroll.Short, o.Unroll.Long)
	}
	if o.Frames != profiler.AutoFrames {
		settings["frames"] = float64(o.Frames)
	}
	// Rarely used settings appear only if set.
	if o.Strict {
		settings["strict"] = true
	}
	if o.Branch != "" {
		settings["branch"] = string(o.Branch)
	}
	if o.Copies > 1 {
		settings["bodies"] = float64(o.Copies)
	}
	if o.Layout != nil {
		settings["layout"] = float64(*o.Layout)
	}
	if len(o.Set) > 0 {
		settings["set"] = o.Set.String()
	}
	return settings
}

func ParseRun(text string) (r Run, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Run{}, fmt.Errorf("its run_header %.60q cannot be read: %w", text, err)
	}
	return r, nil
}

// ID identifies everything that affects the results, in three numbers: eight digits for the settings and the
// microarchitecture, four for the CPU, four for bbprof's version. It is in every row, so it survives a filter that
// drops the row with the header.
func (r Run) ID() string {
	core := []any{r.Host.Microarchitecture}
	if r.Host.Microarchitecture == cpu.Unknown {
		core = append(core, r.Host.Vendor, r.Host.Family, r.Host.Model)
	}
	return digits(8, r.Settings, core) + "-" + digits(4, r.Host) + "-" + digits(4, r.Version)
}

// digits returns the first hexadecimal digits of a hash of the values.
func digits(n int, values ...any) string {
	text, _ := json.Marshal(values) // cannot fail for text and numbers
	return fmt.Sprintf("%x", sha256.Sum256(text))[:n]
}

var runID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}$`)

// isID reports whether a cell of column run is an ID.
func isID(cell string) bool { return runID.MatchString(cell) }

func (r Run) String() string {
	text, _ := json.Marshal(r) // cannot fail for text and numbers
	return string(text)
}

// Difference lists where two runs differ, each as "what: there, here that".
type Difference struct {
	Unlike []string // make their cycles incomparable
	Told   []string // should not affect results, but are reported
}

func (d Difference) All() []string { return slices.Concat(d.Unlike, d.Told) }

// Difference is the one rule for comparing: rows need the same microarchitecture and settings. Another CPU of that
// microarchitecture and another version of bbprof are only reported.
func (r Run) Difference(here Run) (d Difference) {
	if !sameCore(r.Host, here.Host) {
		d.Unlike = append(d.Unlike, fmt.Sprintf("microarchitecture: %v, here %v", r.Host, here.Host))
	} else if r.Host != here.Host {
		d.Told = append(d.Told, differs("CPU", r.Host, here.Host))
	}
	if r.Version != here.Version {
		d.Told = append(d.Told, differs("version", r.Version, here.Version))
	}
	names := map[string]any{}
	maps.Copy(names, here.Settings)
	maps.Copy(names, r.Settings)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := r.Settings[name], here.Settings[name]; !reflect.DeepEqual(a, b) {
			d.Unlike = append(d.Unlike, differs("setting "+name, a, b))
		}
	}
	return d
}

// differenceOfIDs is Difference for a run of which only the ID is known.
func differenceOfIDs(there, here string) (d Difference) {
	a, b := strings.Split(there, "-"), strings.Split(here, "-")
	if a[0] != b[0] {
		d.Unlike = append(d.Unlike, fmt.Sprintf("settings or microarchitecture: run %s, here %s", there, here))
	}
	for i, what := range []string{"CPU", "version"} {
		if a[i+1] != b[i+1] {
			d.Told = append(d.Told, fmt.Sprintf("%s: differs, by its number in run %s, here %s", what, there, here))
		}
	}
	return d
}

func (h Host) String() string {
	if h.Microarchitecture == cpu.Unknown {
		return fmt.Sprintf("%s family %#x model %#x", h.Vendor, h.Family, h.Model)
	}
	return fmt.Sprintf("%s (%s)", h.Microarchitecture, strings.TrimSpace(h.Brand))
}

// sameCore compares the microarchitectures, or their CPUID if unnamed.
func sameCore(a, b Host) bool {
	if a.Microarchitecture == cpu.Unknown {
		a.Brand, b.Brand = "", ""
		return a == b
	}
	return a.Microarchitecture == b.Microarchitecture
}

// Runs collects the runs that a file's rows name.
type Runs struct {
	runs    []Run
	ids     []string // distinct, like the headers
	headers []string
	last    string // the latest row's ID
}

// All returns the runs with known headers.
func (r *Runs) All() []Run { return r.runs }

// None reports whether no row names its run.
func (r *Runs) None() bool { return len(r.runs)+len(r.ids) == 0 }

func (r *Runs) Add(s Schema, cells []string) error {
	if at := s.Index("run"); at >= 0 && cells[at] != r.last && isID(cells[at]) {
		if r.last = strings.Clone(cells[at]); !slices.Contains(r.ids, r.last) {
			r.ids = append(r.ids, r.last)
		}
	}
	if at := s.Index(runHeader); at >= 0 {
		return r.addHeader(cells[at])
	}
	return r.addHeader("")
}

// addHeader adds a value of column run_header; an empty one is none.
func (r *Runs) addHeader(text string) error {
	if text != "" && !slices.Contains(r.headers, text) {
		run, err := ParseRun(text)
		if err != nil {
			return err
		}
		r.headers, r.runs = append(r.headers, strings.Clone(text)), append(r.runs, run)
	}
	if len(r.runs) > mostRuns || len(r.ids) > mostRuns {
		return fmt.Errorf("its rows are of more than %d runs", mostRuns)
	}
	return nil
}

// mostRuns bounds the runs of a file; more mean damage.
const mostRuns = 1000

// Against returns the distinct differences between these runs and one; by ID if a filter dropped the headers.
func (r *Runs) Against(here Run) (d Difference) {
	add := func(more Difference) {
		d.Unlike, d.Told = append(d.Unlike, more.Unlike...), append(d.Told, more.Told...)
	}
	for _, run := range r.runs {
		add(run.Difference(here))
	}
	for _, id := range r.ids {
		if len(r.runs) == 0 {
			add(differenceOfIDs(id, here.ID()))
		}
	}
	for _, list := range []*[]string{&d.Unlike, &d.Told} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return d
}

// Mixes says why these rows must not be combined with those of other files, "" if they may.
func (r *Runs) Mixes(others *Runs) string {
	var unlike []string
	switch {
	case len(r.runs) > 0 && len(others.runs) > 0:
		for _, run := range others.runs {
			unlike = append(unlike, r.runs[0].Difference(run).Unlike...)
		}
	case len(r.ids) > 0:
		for _, id := range others.ids {
			unlike = append(unlike, differenceOfIDs(r.ids[0], id).Unlike...)
		}
	}
	return strings.Join(unlike, "; ")
}

func differs(what string, there, here any) string {
	a, _ := json.Marshal(there)
	b, _ := json.Marshal(here)
	return fmt.Sprintf("%s: %s, here %s", what, a, b)
}
