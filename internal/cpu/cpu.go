// Package cpu is the one table of kinds of core: how each is recognised, the sizes that decide how a block is laid
// out and judged, what other tables call it, and which events its hardware counters have. Values that bbprof measures
// at its start are not here, or only for comparison. To add a core, add its Name, its row in cores (cores.go), and
// its model numbers in models (models.go); CONTRIBUTING.md lists the other tables.
package cpu

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Names lists the cores with known sizes, oldest first within each vendor.
func Names() []Name {
	var names []Name
	for _, c := range cores {
		names = append(names, c.Name)
	}
	return names
}

func WidestDispatch() (widest int) {
	for _, c := range cores {
		widest = max(widest, c.DispatchWidth)
	}
	return widest
}

// Of returns a core's row, or the careful one if it has none.
func Of(n Name) Core {
	if i := slices.IndexFunc(cores, func(c Core) bool { return c.Name == n }); i >= 0 {
		return cores[i].careful()
	}
	return unknown
}

// careful fills the sizes that a row lacks and code needs from the unknown core.
func (c Core) careful() Core {
	if c.OpCache == (OpCache{}) && !c.NoOpCache {
		c.OpCache = unknown.OpCache
	}
	c.StoreBuffer = cmp.Or(c.StoreBuffer, unknown.StoreBuffer)
	return c
}

// Recognized is a CPU's kind of core, and the evidence.
type Recognized struct {
	Core
	// Contradiction says how CPUID's model number and its features disagree, "" if they do not.
	// Hypervisors hide or replace model numbers.
	Contradiction string
}

// Recognize finds the core of a CPU by its model number. If the number is unknown or names a core that lacks
// the CPU's features, as under some hypervisors, the features decide: the core is no newer than its newest
// feature. All cores of a hybrid CPU share one model number, so kind (from [Kind]) must say which one it is; if it
// is empty the core is unknown.
func Recognize(id ID, kind string) Recognized {
	m := modelOf(id)
	byModel := m.of(kind)
	r := Recognized{Core: Of(byModel)}
	features, why := newestByFeatures(id)
	older := func(a, b Name) bool { return slices.Index(Names(), a) < slices.Index(Names(), b) }
	switch {
	case m.small != "": // the features are those that both kinds have
		if id.Hybrid && kind == "" {
			r.Core = unknown
		}
	case why == "" || byModel == Unknown && !id.Hypervisor:
	case byModel == Unknown:
		r.Core = features
		r.Contradiction = fmt.Sprintf("CPUID says %s, a model that bbprof does not know; features say %s (%s)", id, features.Name, why)
	case older(byModel, features.Name):
		r.Core = features
		r.Contradiction = fmt.Sprintf("CPUID says %s, which is %s; features say %s (%s)", id, byModel, features.Name, why)
	}
	if r.Name == Unknown {
		r.WayPredicted = id.Vendor != intel
	}
	return r
}

// newestByFeatures returns the newest core that introduced one of the CPU's features, and that feature.
func newestByFeatures(id ID) (c Core, why string) {
	for _, candidate := range cores {
		if candidate.vendor != id.Vendor {
			continue
		}
		for _, f := range candidate.since {
			if id.has(f) {
				c, why = candidate.careful(), f.String()
			}
		}
		if candidate.l1i > 0 && id.L1I >= candidate.l1i && id.has(cpuid.AVX512BW) {
			c, why = candidate.careful(), fmt.Sprintf("%s and an L1I of %d KiB", cpuid.AVX512BW, id.L1I>>10)
		}
	}
	return c, why
}

// EventsOf names the row of events for the core that a kernel device counts, "" if the table has none.
// On a hybrid CPU the device distinguishes the kinds of core.
func EventsOf(id ID, device string) string {
	id.Hybrid = id.Hybrid && slices.Contains(Kinds, device) // else the kernel, or a hypervisor, presents one kind
	return Recognize(id, device).Events
}

// ID holds the part of CPUID that distinguishes kinds of core.
type ID struct {
	Vendor        string // CPUID's, such as GenuineIntel
	Family, Model int
	L1I           int  // bytes
	Hybrid        bool // the CPU has cores of several kinds
	Hypervisor    bool
	features      uint // bit i: the CPU has telling[i]
}

var telling = func() (all []cpuid.FeatureID) {
	for _, c := range cores {
		all = append(all, c.since...)
	}
	return all
}()

func Identify() ID {
	c := cpuid.CPU
	id := ID{Vendor: c.VendorString, Family: c.Family, Model: c.Model, L1I: c.Cache.L1I,
		Hybrid: c.Supports(cpuid.HYBRID_CPU), Hypervisor: c.Supports(cpuid.HYPERVISOR)}
	if c.AVX10Level >= 2 {
		return id // newer than all cores here, so features cannot name it
	}
	return id.with(c.Supports)
}

func (id ID) with(has func(...cpuid.FeatureID) bool) ID {
	for i, f := range telling {
		if has(f) {
			id.features |= 1 << i
		}
	}
	return id
}

func (id ID) has(f cpuid.FeatureID) bool {
	return id.features>>slices.Index(telling, f)&1 != 0
}

func (id ID) String() string {
	return fmt.Sprintf("%s family %#x model %#x", cmp.Or(id.Vendor, "unknown vendor"), id.Family, id.Model)
}

// ParseList reads a list of numbers as the kernel and taskset write it, such as 1 or 0,2 or 0-3,8.
func ParseList(s string) (numbers []int, err error) {
	for field := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(field), "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		const most = 1 << 13 // CONFIG_NR_CPUS of the largest x86-64 kernels
		if err != nil || first < 0 || last < first || last-first >= most {
			return nil, fmt.Errorf("invalid CPU list %q: want 0, 0,2 or 0-3", s)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// Devices is where the kernel lists its sources of events.
const Devices = "/sys/bus/event_source/devices"

// Kinds are the devices of the kinds of core that a hybrid CPU has, the fastest first. Each lists its CPUs in a file
// (Linux, tools/perf/Documentation/intel-hybrid.txt; arch/x86/events/intel/core.c has the third).
var Kinds = []string{"cpu_core", "cpu_atom", "cpu_lowpower"}

// Kind returns the kind of a logical CPU, one of Kinds; empty where there is only one kind.
func Kind(read func(file string) ([]byte, error), number int) string {
	for _, kind := range Kinds {
		list, err := read(path.Join(Devices, kind, "cpus"))
		numbers, _ := ParseList(string(list))
		if err == nil && slices.Contains(numbers, number) {
			return kind
		}
	}
	return ""
}
