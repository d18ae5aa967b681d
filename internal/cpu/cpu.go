// Package cpu is the one table of kinds of core: how each is recognised, the sizes that decide how a
// block is laid out and judged, and which events its hardware counters have. To add a core, add its
// Name, its row in cores, and its model numbers in models; internal/pmu/events.txt has its events
// and the selftest's answers.txt its known answers.
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

// Name names a kind of core whose instructions take equally long. A server core and its shrinks
// count as their parent's: Skylake is also Cascade Lake and Comet Lake.
type Name string

// The cores whose sizes are known.
const (
	Unknown     Name = "unknown"
	Haswell     Name = "Haswell"
	Broadwell   Name = "Broadwell"
	Skylake     Name = "Skylake"
	IceLake     Name = "Ice Lake"    // and Tiger Lake, Rocket Lake
	GoldenCove  Name = "Golden Cove" // and Raptor Cove
	RedwoodCove Name = "Redwood Cove"
	Zen         Name = "Zen" // and Zen+
	Zen2        Name = "Zen 2"
	Zen3        Name = "Zen 3"
	Zen4        Name = "Zen 4"
	Zen5        Name = "Zen 5"
)

// Core is what bbprof has to know of a kind of core.
type Core struct {
	Name   Name
	Events string // its name in the table of events, "" if that has none
	OpCache
	StoreBuffer   int // stores that the core can hold back from L1D
	DispatchWidth int // operations renamed a cycle at most, 0 if not known
	// AddsPerCycle is how many independent register adds a cycle the contention probe reaches on an idle
	// core, 0 if that is not known: the ALUs, or fewer where ports are bound at rename.
	AddsPerCycle float64
	// NopsPerCycle is the same of the probe's nops; 0 where the probe is of adds alone.
	NopsPerCycle float64
	// LeadWindows is unroll.FrontEnd's Lead, 0 where that was not measured.
	LeadWindows int
	// WayPredicted says that the way of L1D is predicted from the linear address (AMD's family 17h
	// Software Optimization Guide, 2.6.2.2).
	WayPredicted bool

	vendor string
	since  []cpuid.FeatureID // no older core of the vendor has any of these
	l1i    int               // nor, with AVX-512, so large an L1I, if not 0
}

// OpCache is the geometry of a decoded-instruction cache, as unroll.OpCache describes it.
type OpCache struct{ Lines, OpsPerLine, Window int }

// Vendors as CPUID leaf 0 names them.
const (
	intel = "GenuineIntel"
	amd   = "AuthenticAMD"
)

// unknown is safe on all cores: the smallest op cache and the largest store buffer. The ways of a
// core that is not Intel's may be predicted.
var unknown = Core{Name: Unknown, OpCache: OpCache{256, 6, 32}, StoreBuffer: 112, WayPredicted: true}

// cores, of each vendor from the oldest to the newest. Sources: Intel 64 and IA-32 Optimization
// Reference Manual, the section of each microarchitecture (op cache: "Decoded ICache"; store buffer
// and width: the tables of pipeline resources; Redwood Cove: "as Golden Cove", but an L1I of 64
// KiB); AMD Software Optimization Guides for families 17h, 19h and 1Ah, "Op Cache", "Integer
// Execution Unit", "Load-Store Unit"; Fog, microarchitecture.pdf; uops.info for adds per cycle.
//
// since: SDM vol. 1, chapter 5 (instructions by processor); AMD APM vol. 3, appendix D; Intel
// Architecture Instruction Set Extensions Programming Reference, table 1-2 (AMX-FP16: Granite Rapids).
var cores = []Core{
	{Name: Haswell, Events: "haswell", vendor: intel, OpCache: OpCache{256, 6, 32}, StoreBuffer: 42, DispatchWidth: 4, AddsPerCycle: 4},
	{Name: Broadwell, Events: "broadwell", vendor: intel, OpCache: OpCache{256, 6, 32}, StoreBuffer: 42, DispatchWidth: 4, AddsPerCycle: 4},
	{Name: Skylake, Events: "skylake", vendor: intel, OpCache: OpCache{256, 6, 32}, StoreBuffer: 56, DispatchWidth: 4, AddsPerCycle: 4,
		since: []cpuid.FeatureID{cpuid.AVX512BW}},
	{Name: IceLake, Events: "icelake", vendor: intel, OpCache: OpCache{384, 6, 64}, StoreBuffer: 72, DispatchWidth: 5, AddsPerCycle: 4,
		since: []cpuid.FeatureID{cpuid.AVX512VBMI2}},
	{Name: GoldenCove, Events: "goldencove", vendor: intel, OpCache: OpCache{512, 8, 64}, StoreBuffer: 112, DispatchWidth: 6, AddsPerCycle: 4.6,
		since: []cpuid.FeatureID{cpuid.AVX512FP16, cpuid.AMXTILE}}, // five ALUs; 4.6 was measured on Granite Rapids
	{Name: RedwoodCove, Events: "redwoodcove", vendor: intel, OpCache: OpCache{512, 8, 64}, StoreBuffer: 112, DispatchWidth: 6, AddsPerCycle: 4.6,
		since: []cpuid.FeatureID{cpuid.AMXFP16}, l1i: 64 << 10},

	{Name: Zen, Events: "zen1", vendor: amd, OpCache: OpCache{256, 8, 64}, StoreBuffer: 44, DispatchWidth: 6, AddsPerCycle: 4, WayPredicted: true},
	{Name: Zen2, Events: "zen2", vendor: amd, OpCache: OpCache{512, 8, 64}, StoreBuffer: 48, DispatchWidth: 6, AddsPerCycle: 4, WayPredicted: true,
		since: []cpuid.FeatureID{cpuid.WBNOINVD}},
	{Name: Zen3, Events: "zen3", vendor: amd, OpCache: OpCache{512, 8, 64}, StoreBuffer: 64, DispatchWidth: 6, AddsPerCycle: 4, WayPredicted: true,
		since: []cpuid.FeatureID{cpuid.VAES}},
	{Name: Zen4, Events: "zen4", vendor: amd, OpCache: OpCache{768, 9, 64}, StoreBuffer: 64, DispatchWidth: 6, AddsPerCycle: 4, WayPredicted: true,
		since: []cpuid.FeatureID{cpuid.AVX512F}},
	{Name: Zen5, Events: "zen5", vendor: amd, OpCache: OpCache{1024, 6, 64}, StoreBuffer: 104, DispatchWidth: 8, AddsPerCycle: 5.3, NopsPerCycle: 7.9, LeadWindows: 140, WayPredicted: true,
		since: []cpuid.FeatureID{cpuid.AVX512VP2INTERSECT}}, // six ALUs; adds: InstLatx64, Granite Ridge, and measured on Turin; nops and lead: measured there
}

// Names lists the cores whose sizes are known, the older first within each vendor.
func Names() []Name {
	var names []Name
	for _, c := range cores {
		names = append(names, c.Name)
	}
	return names
}

func named(n Name) Core {
	if i := slices.IndexFunc(cores, func(c Core) bool { return c.Name == n }); i >= 0 {
		return cores[i]
	}
	return unknown
}

// Recognized is what kind of core a CPU has, and by what.
type Recognized struct {
	Core
	// Contradiction says how CPUID's model number and its features disagree, "" if they do not.
	// Hypervisors hide or replace model numbers.
	Contradiction string
}

// Recognize finds the core of a CPU by its model number and, where that names a core that cannot have
// the features that the CPU has, or nothing at all under a hypervisor, by the features. A core is no
// newer than its newest feature says.
func Recognize(id ID) Recognized {
	byModel := modelOf(id)
	r := Recognized{Core: named(byModel.core)}
	features, why := newestByFeatures(id)
	older := func(a, b Name) bool { return slices.Index(Names(), a) < slices.Index(Names(), b) }
	switch {
	case byModel.small != "": // E-cores have an instruction set of their own
	case why == "" || byModel.core == Unknown && !id.Hypervisor:
	case byModel.core == Unknown:
		r.Core = features
		r.Contradiction = fmt.Sprintf("CPUID says %s, a model that bbprof does not know; features say %s (%s)", id, features.Name, why)
	case older(byModel.core, features.Name):
		r.Core = features
		r.Contradiction = fmt.Sprintf("CPUID says %s, which is %s; features say %s (%s)", id, byModel.core, features.Name, why)
	}
	if r.Name == Unknown {
		r.WayPredicted = id.Vendor != intel
	}
	if id.Hybrid {
		r.Name = Unknown // two kinds of core share one number
	}
	return r
}

// newestByFeatures is the newest core of which the CPU has a feature that no older one has, and which.
func newestByFeatures(id ID) (c Core, why string) {
	for _, candidate := range cores {
		if candidate.vendor != id.Vendor {
			continue
		}
		for _, f := range candidate.since {
			if id.has(f) {
				c, why = candidate, f.String()
			}
		}
		if candidate.l1i > 0 && id.L1I >= candidate.l1i && id.has(cpuid.AVX512BW) {
			c, why = candidate, fmt.Sprintf("%s and an L1I of %d KiB", cpuid.AVX512BW, id.L1I>>10)
		}
	}
	return c, why
}

// EventsOf names the events of the core that a device of the kernel counts, "" if there are none in
// the table. On a hybrid CPU the device tells the kinds of core apart.
func EventsOf(id ID, device string) string {
	m := modelOf(id)
	switch {
	case device == "cpu_lowpower" && m.lowPower != "":
		return m.lowPower
	case device == "cpu_lowpower", device == "cpu_atom":
		if m.small != "" {
			return m.small
		}
	}
	if m.events != "" {
		return m.events
	}
	id.Hybrid = false
	return Recognize(id).Events
}

// ID is what CPUID says of a CPU, as far as it tells kinds of core apart.
type ID struct {
	Vendor        string // CPUID's, such as GenuineIntel
	Family, Model int
	L1I           int  // bytes
	Hybrid        bool // the CPU has cores of several kinds
	Hypervisor    bool
	features      uint // bit i: it has telling[i]
}

// telling are the features that tell cores apart.
var telling = func() (all []cpuid.FeatureID) {
	for _, c := range cores {
		all = append(all, c.since...)
	}
	return all
}()

// Identify asks CPUID.
func Identify() ID {
	c := cpuid.CPU
	id := ID{Vendor: c.VendorString, Family: c.Family, Model: c.Model, L1I: c.Cache.L1I,
		Hybrid: c.Supports(cpuid.HYBRID_CPU), Hypervisor: c.Supports(cpuid.HYPERVISOR)}
	if c.AVX10Level >= 2 {
		return id // newer than all cores here, so features cannot say which
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

// ParseList reads numbers, as of CPUs, as the kernel and taskset write them, such as 1 or 0,2 or 0-3,8.
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

// Kind is which of them a logical CPU is; empty where all are of one kind.
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
