// Package host says what machine this is: the CPU, its caches and its front end, and the
// CPUs that this process may use.
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

// CPU describes the processor.
type CPU struct {
	Vendor string `json:"vendor"`
	Brand  string `json:"brand"`
	Family int    `json:"family"`
	Model  int    `json:"model"`
	// Microarchitecture is the core's, cpu.Unknown where neither model nor features tell.
	Microarchitecture cpu.Name `json:"microarchitecture"`
	// Contradiction says how CPUID's model number and its features disagree, if they do; the
	// microarchitecture is then what the features say.
	Contradiction string `json:"contradiction,omitempty"`
	ID            cpu.ID `json:"-"`
	// L1D and L1I in bytes, from CPUID.
	L1D int `json:"l1d_bytes"`

	// DispatchWidth is how many operations the core renames a cycle at most, 0 if it is not known.
	DispatchWidth int `json:"dispatch_width"`
	// AddsPerCycle is how many independent register adds a cycle the contention probe reaches,
	// 0 if it is not known.
	AddsPerCycle float64 `json:"adds_per_cycle"`
	// NopsPerCycle is the same of nops, 0 where the probe has none.
	NopsPerCycle  float64 `json:"nops_per_cycle,omitzero"`
	SettlesAtOnce bool    `json:"-"` // see cpu.Core
	// MultiplyCycles is the latency of imul r64, r64, 0 if it is not known.
	MultiplyCycles int `json:"multiply_cycles,omitzero"`

	Core     invariants.Core `json:"core"`
	FrontEnd unroll.FrontEnd `json:"front_end"`
	Features asm.Features    `json:"-"`
	// Disabled are extensions that the CPU has and the operating system does not enable.
	Disabled asm.Features `json:"-"`
}

// Detect is the CPU that the first of some logical CPUs is or, of none, the one that is measured on where none is chosen.
// It matters on hybrid CPUs, whose kinds of core differ in sizes and caches.
func Detect(chosen ...int) CPU {
	return detect(cpu.Identify(), machine{read: os.ReadFile, allowed: AllowedCPUs, caches: cachesOn}, chosen)
}

// machine is what a hybrid CPU is asked.
type machine struct {
	read    func(file string) ([]byte, error)
	allowed func() ([]int, error)
	caches  func(number int) []Cache // of a logical CPU, none if it does not tell
}

func detect(id cpu.ID, m machine, chosen []int) CPU {
	c := cpuid.CPU
	l1d, l1i, kind := c.Cache.L1D, c.Cache.L1I, ""
	if id.Hybrid {
		kindOf := func(number int) string { return cpu.Kind(m.read, number) }
		if len(chosen) == 0 {
			all, _ := m.allowed() // whoever measures is told why not
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
		L1D:               orDefault(l1d, 32<<10),
		DispatchWidth:     core.DispatchWidth,
		AddsPerCycle:      core.AddsPerCycle,
		NopsPerCycle:      core.NopsPerCycle,
		SettlesAtOnce:     core.SettlesAtOnce,
		MultiplyCycles:    core.MultiplyCycles,
		Core: invariants.Core{
			// L1D is indexed by the address within a page, so each way holds a page.
			L1DWays:      orDefault(l1d, 32<<10) / layout.PageSize,
			StoreBuffer:  core.StoreBuffer,
			WayPredicted: core.WayPredicted,
		},
		FrontEnd: unroll.FrontEnd{
			L1I:     orDefault(l1i, 32<<10),
			OpCache: unroll.OpCache(core.OpCache),
			Lead:    unroll.Lead(core.Lead),
		},
		Features: features,
		Disabled: disabled(AskCPUID, features),
	}
}

// cachesOn are those of a logical CPU, none if this process may not run on it.
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

// Missing is which of these CPUID features, by their names in klauspost/cpuid, the CPU or
// its operating system lacks.
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

// VectorBits lists the vector widths that the CPU executes, 128 first: no unit of that width
// is ever switched off.
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

// orDefault takes the smallest size in use where a hypervisor hides the true one.
func orDefault(bytes, otherwise int) int {
	if bytes <= 0 {
		return otherwise
	}
	return bytes
}
