package resultfile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

// Run says under what conditions rows came about. It stands, as JSON, in column run_header of
// the first row that a run writes; a file that was gone on with holds one for each start.
type Run struct {
	// These decide about the results, so they are the same in all rows of one Run.ID.
	Version  string         `json:"version"`
	Host     Host           `json:"host"`
	Settings map[string]any `json:"settings"` // profiler.Options, defaults put in

	// Which rows of the input it takes.
	Shard string `json:"shard,omitempty"`

	// For the reader only.
	Kernel   string   `json:"kernel"`
	Clock    string   `json:"clock"`
	Selftest string   `json:"selftest"`
	Workers  [][]int  `json:"workers"` // the CPUs of each
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

// SettingsOf are all options but those that say where to measure and what else to tell.
func SettingsOf(o profiler.Options) (map[string]any, error) {
	o = o.WithDefaults()
	o.CPUs, o.Detail = nil, false
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var settings map[string]any
	err = json.Unmarshal(text, &settings)
	delete(settings, "CPUs")
	delete(settings, "Detail")
	return settings, err
}

// ParseRun reads a run_header.
func ParseRun(text string) (r Run, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Run{}, fmt.Errorf("its run_header %.60q is none: %w", text, err)
	}
	return r, nil
}

// ID names what decides about the results, in eight digits.
func (r Run) ID() string {
	text, err := json.Marshal([]any{r.Version, r.Host, r.Settings})
	if err != nil {
		panic(err) // of text and numbers
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:8]
}

// String is the run as JSON.
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

func differs(what string, there, here any) string {
	return fmt.Sprintf("%s: %v, here %v", what, show(there), show(here))
}

func show(v any) string {
	if text, err := json.Marshal(v); err == nil {
		return string(text)
	}
	return fmt.Sprint(v)
}
