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

// Run says under what conditions rows came about. It stands, as JSON, in column run_header of
// the first row that a run writes; a resumed file holds one for each start.
type Run struct {
	// These decide about the results, so they are the same in all rows of one Run.ID.
	Version  string         `json:"version"`
	Host     Host           `json:"host"`
	Settings map[string]any `json:"settings"` // how to measure, named as the flags are, defaults put in

	// Which rows of the input it takes.
	Shard string `json:"shard,omitempty"`

	// For the reader only.
	Kernel   string   `json:"kernel"`
	Clock    string   `json:"clock"`
	Selftest string   `json:"selftest"`
	AtEnd    string   `json:"selftest_at_end,omitempty"` // not of a run that was interrupted, or into a pipe
	Workers  [][]int  `json:"workers"`                   // the CPUs of each
	Inputs   []string `json:"inputs"`
	Started  string   `json:"started"` // RFC 3339
}

// Host is the CPU, as far as results depend on it.
type Host struct {
	Microarchitecture cpu.Name `json:"microarchitecture"`
	Vendor            string   `json:"vendor"`
	Brand             string   `json:"brand"`
	Family            int      `json:"family"`
	Model             int      `json:"model"`
}

// HostOf is the part of a CPU's description that is compared.
func HostOf(c host.CPU) Host {
	return Host{c.Microarchitecture, c.Vendor, c.Brand, c.Family, c.Model}
}

// auto is a setting that bbprof chooses for each block.
const auto = "auto"

// SettingsOf are all options but those that say where to measure and what else to tell, with the
// names and values of the flags: what a user reads in a result, a command line takes.
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
	// What few set stands there only where it is set.
	if o.Strict {
		settings["strict"] = true
	}
	if o.Branch != "" {
		settings["branch"] = string(o.Branch)
	}
	if o.Copies > 1 {
		settings["copies"] = float64(o.Copies)
	}
	if o.At != nil {
		settings["layout"] = float64(*o.At)
	}
	if len(o.Set) > 0 {
		settings["set"] = o.Set.String()
	}
	if len(o.Memory) > 0 {
		settings["mem"] = o.Memory.String()
	}
	if len(o.Tolerate) > 0 { // by no flag of batch
		settings["tolerate"] = joined(o.Tolerate)
	}
	return settings
}

func joined[T any](list []T) string {
	var texts []string
	for _, x := range list {
		texts = append(texts, fmt.Sprint(x))
	}
	return strings.Join(texts, ",")
}

func ParseRun(text string) (r Run, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Run{}, fmt.Errorf("its run_header %.60q cannot be read: %w", text, err)
	}
	return r, nil
}

// ID names what decides about the results, in three numbers: eight digits for the settings and
// the microarchitecture, four for the CPU, four for bbprof's version. It stands in each row, so it
// is there also where a filter has dropped the row with the run's header.
func (r Run) ID() string {
	core := []any{r.Host.Microarchitecture}
	if r.Host.Microarchitecture == cpu.Unknown {
		core = append(core, r.Host.Vendor, r.Host.Family, r.Host.Model)
	}
	return digits(8, r.Settings, core) + "-" + digits(4, r.Host) + "-" + digits(4, r.Version)
}

// digits are the first hexadecimal digits of the hash of some values.
func digits(n int, values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // of text and numbers
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:n]
}

var runID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}$`)

// IsID reports whether the cell of a column run is an ID.
func IsID(cell string) bool { return runID.MatchString(cell) }

// Comparable reports whether rows of two IDs were measured with the same settings on the same
// microarchitecture.
func Comparable(a, b string) bool { return IsID(a) && IsID(b) && a[:8] == b[:8] }

// IDDifference is Difference by an ID alone: unlike is what makes results incomparable, told what
// should change nothing.
func (r Run) IDDifference(id string) (unlike, told []string) {
	here := r.ID()
	there, now := strings.Split(id, "-"), strings.Split(here, "-")
	switch {
	case !IsID(id):
		return []string{fmt.Sprintf("column run is %.40q, which names no run", id)}, nil
	case there[0] != now[0]:
		unlike = append(unlike, fmt.Sprintf("settings or microarchitecture: run %s, here %s", id, here))
	}
	if there[1] != now[1] {
		told = append(told, fmt.Sprintf("CPU: another, by its number in run %s, here %s", id, here))
	}
	if there[2] != now[2] {
		told = append(told, fmt.Sprintf("version: another, by its number in run %s, here %s", id, here))
	}
	return unlike, told
}

func (r Run) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // of text and numbers
	}
	return string(text)
}

// Difference says in what two runs differ that decides about the results, each as "what: a,
// here b".
func (r Run) Difference(here Run) (list []string) {
	if r.Version != here.Version {
		list = append(list, differs("version", r.Version, here.Version))
	}
	if r.Host != here.Host {
		list = append(list, differs("CPU", r.Host, here.Host))
	}
	return append(list, r.SettingsDifference(here)...)
}

// SettingsDifference is the part of Difference that is the user's doing.
func (r Run) SettingsDifference(here Run) (list []string) {
	names := maps.Clone(r.Settings)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, here.Settings)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := r.Settings[name], here.Settings[name]; !reflect.DeepEqual(a, b) {
			list = append(list, differs("setting "+name, a, b))
		}
	}
	return list
}

// Runs are those that the rows of a file tell of.
type Runs struct {
	runs         []Run
	ids          []string // without repetition
	last, header string   // the latest of each
}

// All are the runs whose headers there are.
func (r *Runs) All() []Run { return r.runs }

// None reports whether no row names its run.
func (r *Runs) None() bool { return len(r.runs)+len(r.ids) == 0 }

// Add takes a row, and reports whether it tells of a run that no row before it has told of.
func (r *Runs) Add(s Schema, cells []string) (another bool, err error) {
	if at := s.Index("run"); at >= 0 && cells[at] != r.last && IsID(cells[at]) {
		r.last = strings.Clone(cells[at])
		if another = !slices.Contains(r.ids, r.last); another {
			r.ids = append(r.ids, r.last)
		}
	}
	at := s.Index("run_header")
	if at < 0 || cells[at] == "" || cells[at] == r.header {
		return another, nil
	}
	r.header = strings.Clone(cells[at])
	run, err := ParseRun(r.header)
	r.runs = append(r.runs, run)
	return true, err
}

// Mixes says why rows of another file must not stand beside those of one called name, "" if they may: its first run is of
// another microarchitecture, or has other settings.
func (r *Runs) Mixes(name string, others *Runs) string {
	const unlike = "it was not measured as %s was: %s"
	if len(r.ids) > 0 && (len(r.runs) == 0 || len(others.runs) == 0) {
		for _, id := range others.ids {
			if !Comparable(r.ids[0], id) {
				return fmt.Sprintf(unlike, name, fmt.Sprintf("settings or microarchitecture differ (run %s, there %s)", id, r.ids[0]))
			}
		}
	}
	if len(r.runs) == 0 {
		return ""
	}
	there := r.runs[0]
	for _, run := range others.runs {
		list := there.SettingsDifference(run)
		if !sameCore(there.Host, run.Host) {
			list = append(list, fmt.Sprintf("microarchitecture: %s (%s), here %s (%s)", there.Host.Microarchitecture, there.Host.Brand, run.Host.Microarchitecture, run.Host.Brand))
		}
		if list != nil {
			return fmt.Sprintf(unlike, name, strings.Join(list, "; "))
		}
	}
	return ""
}

// sameCore compares the microarchitectures, where they have names.
func sameCore(a, b Host) bool {
	if a.Microarchitecture == cpu.Unknown {
		return a == b
	}
	return a.Microarchitecture == b.Microarchitecture
}

func differs(what string, there, here any) string {
	return fmt.Sprintf("%s: %v, here %v", what, show(there), show(here))
}

func show(v any) string {
	if text, err := json.Marshal(v); err == nil {
		return string(text)
	}
	return fmt.Sprint(v)
}
