// Package host says what machine this is: the CPU, its caches and front end, and the CPUs that this process may use.
package host

import (
	"os"
	"runtime"

	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/unroll"
)

type CPU struct {
	Vendor string `json:"vendor"`
	Brand  string `json:"brand"`
	Family int    `json:"family"`
	Model  int    `json:"model"`
	// Microarchitecture is the core's name, cpu.Unknown if neither model nor features identify it.
	Microarchitecture cpu.Name `json:"microarchitecture"`
	// Contradiction says how CPUID's model number and its features disagree, if they do; then the
	// features decide the microarchitecture.
	Contradiction string `json:"contradiction,omitempty"`
	ID            cpu.ID `json:"-"`
	// L1D and L1I in bytes, from CPUID.
	L1D int `json:"l1d_bytes"`

	// DispatchWidth is the most operations that the core renames a cycle, 0 if unknown.
	DispatchWidth int `json:"dispatch_width"`
	// AddsPerCycle is the contention probe's rate of independent register adds, 0 if unknown.
	AddsPerCycle float64 `json:"adds_per_cycle"`
	// IdleProbe is the contention probe's time on an idle core, see cpu.Core; 0 if unknown.
	IdleProbe float64 `json:"-"`
	// SessionsApart and SessionShare widen intervals, see cpu.Core.
	SessionsApart float64 `json:"-"`
	SessionShare  float64 `json:"-"`
	// NopsPerCycle is the same for nops, 0 where the probe has none.
	NopsPerCycle  float64 `json:"nops_per_cycle,omitzero"`
	SettlesAtOnce bool    `json:"-"` // see cpu.Core, as the following
	FusesNops     bool    `json:"-"`
	// Rates of loads, stores and branches, 0 if unknown.
	LoadsPerCycle, StoresPerCycle, BranchesPerCycle int `json:"-"`
	// MultiplyCycles is the latency of imul r64, r64, 0 if unknown.
	MultiplyCycles int `json:"multiply_cycles,omitzero"`

	Core     invariants.Core `json:"core"`
	FrontEnd unroll.FrontEnd `json:"front_end"`
	Features asm.Features    `json:"-"`
	// Disabled are extensions that the CPU has and the operating system does not enable.
	Disabled asm.Features `json:"-"`
}

// asCore is an environment variable for tests: the name of the core whose row in the table to use, such as unknown,
// whatever the CPU is.
const asCore = "BBPROF_AS_CORE"

// Detect describes the first of some logical CPUs, or without any the CPU that is measured on by default. On hybrid
// CPUs they differ in sizes and caches.
func Detect(chosen ...int) CPU {
	return detect(cpu.Identify(), machine{read: os.ReadFile, allowed: AllowedCPUs, caches: cachesOn}, chosen)
}

type machine struct {
	read    func(file string) ([]byte, error)
	allowed func() ([]int, error)
	caches  func(number int) []Cache // of a logical CPU, none if unknown
}

func detect(id cpu.ID, m machine, chosen []int) CPU {
	c := cpuid.CPU
	l1d, l1i, kind := c.Cache.L1D, c.Cache.L1I, ""
	if id.Hybrid {
		kindOf := func(number int) string { return cpu.Kind(m.read, number) }
		if len(chosen) == 0 {
			all, _ := m.allowed() // measuring reports the error
			chosen = fastestKind(all, kindOf)
		}
		if len(chosen) > 0 {
			kind = kindOf(chosen[0])
			for _, level1 := range m.caches(chosen[0]) {
				switch {
				case level1.Level != 1:
				case level1.Kind == "data":
					l1d = level1.Bytes
				case level1.Kind == "instruction":
					l1i = level1.Bytes
				}
			}
		}
		id.L1I = l1i
	}
	core := cpu.Recognize(id, kind)
	if name := os.Getenv(asCore); name != "" {
		core.Core = cpu.Of(cpu.Name(name))
	}
	features := asm.Features{
		AVX:      c.Supports(cpuid.AVX),
		AVX512:   c.Supports(cpuid.AVX512F),
		AVX512BW: c.Supports(cpuid.AVX512BW),
	}
	return CPU{
		Vendor:            c.VendorString,
		Brand:             c.BrandName,
		Family:            c.Family,
		Model:             c.Model,
		Microarchitecture: core.Name,
		Contradiction:     core.Contradiction,
		ID:                id,
		L1D:               orSmallest(l1d),
		DispatchWidth:     core.DispatchWidth,
		AddsPerCycle:      core.AddsPerCycle,
		IdleProbe:         core.IdleProbe,
		SessionsApart:     core.SessionsApart,
		SessionShare:      core.SessionShare,
		NopsPerCycle:      core.NopsPerCycle,
		SettlesAtOnce:     core.SettlesAtOnce,
		FusesNops:         core.FusesNops,
		LoadsPerCycle:     core.LoadsPerCycle,
		StoresPerCycle:    core.StoresPerCycle,
		BranchesPerCycle:  core.BranchesPerCycle,
		MultiplyCycles:    core.MultiplyCycles,
		Core: invariants.Core{
			// L1D is indexed by the address within a page, so each way holds a page.
			L1DWays:      orSmallest(l1d) / layout.PageSize,
			StoreBuffer:  core.StoreBuffer,
			DTLB:         core.DTLB,
			WayPredicted: core.WayPredicted,
		},
		FrontEnd: unroll.FrontEnd{
			L1I:     orSmallest(l1i),
			OpCache: unroll.OpCache(core.OpCache),
			ByPlace: core.LoopsByPlace,
		},
		Features: features,
		Disabled: disabled(AskCPUID, features),
	}
}

// cachesOn lists a logical CPU's caches, none if this process may not run on it.
func cachesOn(number int) (all []Cache) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good: the thread, which stays bound, ends with the goroutine
		defer close(done)
		if PinThread(number) == nil {
			all = Caches(AskCPUID)
		}
	}()
	<-done
	return all
}

// Missing lists those of these CPUID features, as klauspost/cpuid names them, that the CPU or its system lacks.
func Missing(features []string) (missing []string) {
	for _, name := range features {
		if f := cpuid.ParseFeature(name); f == cpuid.UNKNOWN || !cpuid.CPU.Supports(f) {
			missing = append(missing, name)
		}
	}
	return missing
}

// Ticks reads the time-stamp counter, 0 where there is none.
func Ticks() uint64 { return cpuid.CPU.RTCounter() }

// VectorBits lists the vector widths that the CPU executes, 128 first, whose units are never powered down.
func (c CPU) VectorBits() []int {
	bits := []int{128}
	if c.Features.AVX {
		bits = append(bits, 256)
	}
	if c.Features.AVX512 {
		bits = append(bits, 512)
	}
	return bits
}

// orSmallest takes the smallest size of any core's first-level cache if a hypervisor hides the true one.
func orSmallest(bytes int) int {
	if bytes <= 0 {
		return 32 << 10
	}
	return bytes
}
