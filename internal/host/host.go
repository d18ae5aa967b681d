// Package host says what machine this is: the CPU, its caches and its front end, and the
// CPUs that this process may use.
package host

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/bbprof/bbprof/asm"
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
	// Microarchitecture is the core's, Unknown where the model does not tell.
	Microarchitecture Microarchitecture `json:"microarchitecture"`
	// L1D and L1I in bytes, from CPUID.
	L1D int `json:"l1d_bytes"`

	// AddsPerCycle is how many independent register adds the core executes a cycle at most,
	// 0 if it is not known.
	AddsPerCycle int `json:"adds_per_cycle"`

	Core     invariants.Core `json:"core"`
	FrontEnd unroll.FrontEnd `json:"front_end"`
	Features asm.Features    `json:"-"`
}

// Detect asks CPUID.
func Detect() CPU {
	c := cpuid.CPU
	return CPU{
		Vendor:            c.VendorString,
		Brand:             c.BrandName,
		Family:            c.Family,
		Model:             c.Model,
		Microarchitecture: microarchitecture(c.VendorID, c.Family, c.Model, c.Supports(cpuid.HYBRID_CPU)),
		L1D:               orDefault(c.Cache.L1D, 32<<10),
		AddsPerCycle:      addsPerCycle(c.VendorID, c.Family, c.Model),
		Core: invariants.Core{
			// L1D is indexed by the address within a page, so each way holds a page.
			L1DWays:      orDefault(c.Cache.L1D, 32<<10) / layout.PageSize,
			StoreBuffer:  storeBuffer(c.VendorID, c.Family, c.Model),
			WayPredicted: c.VendorID != cpuid.Intel, // AMD from Zen on; unknown cores may
		},
		FrontEnd: unroll.FrontEnd{
			L1I:     orDefault(c.Cache.L1I, 32<<10),
			OpCache: opCache(c.VendorID, c.Family, c.Model),
		},
		Features: asm.Features{
			AVX:      c.Supports(cpuid.AVX),
			AVX512:   c.Supports(cpuid.AVX512F),
			AVX512BW: c.Supports(cpuid.AVX512BW),
		},
	}
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

// addsPerCycle is the smaller of the rename width and the number of integer ALUs. Sources
// as for opCache; uops.info.
func addsPerCycle(vendor cpuid.Vendor, family, model int) int {
	switch {
	case vendor == cpuid.Intel && family == 6:
		switch opCache(vendor, family, model).Lines {
		case 384: // Ice Lake: rename 5, four ALUs
			return 4
		case 512: // Golden Cove: five ALUs
			return 5
		}
		if model >= 0x3c { // from Haswell on; before, three ALUs
			return 4
		}
	case vendor == cpuid.AMD && (family == 0x17 || family == 0x19): // Zen to Zen 4
		return 4
	case vendor == cpuid.AMD && family == 0x1a: // Zen 5: six ALUs
		return 6
	}
	return 0
}

// storeBuffer is how many stores the core can hold back from L1D.
// Sources as for opCache: Haswell 42, Skylake 56, Ice Lake 72, Golden Cove 112; Zen 44, Zen 2
// 48, Zen 3 and 4 64, Zen 5 104.
func storeBuffer(vendor cpuid.Vendor, family, model int) int {
	const largest = 112 // conservative where the core is not known
	switch {
	case vendor == cpuid.Intel && family == 6:
		switch opCache(vendor, family, model).Lines {
		case 384:
			return 72
		case 512:
			return 112
		}
		switch model {
		case 0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6: // Skylake to Comet Lake
			return 56
		case 0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56: // Haswell, Broadwell
			return 42
		}
	case vendor == cpuid.AMD && family == 0x17:
		if model < 0x30 {
			return 44
		}
		return 48
	case vendor == cpuid.AMD && family == 0x19:
		return 64
	case vendor == cpuid.AMD && family == 0x1a:
		return 104
	}
	return largest
}

// opCache is the geometry of the decoded-instruction cache. Sources: Intel 64 and IA-32
// Optimization Reference Manual, "Decoded ICache" of each core; AMD Software Optimization
// Guides for families 17h, 19h and 1Ah, "Op Cache"; Fog, microarchitecture.pdf. An unknown
// CPU gets the smallest, which is safe on all others.
func opCache(vendor cpuid.Vendor, family, model int) unroll.OpCache {
	smallest := unroll.OpCache{Lines: 256, OpsPerLine: 6, Window: 32} // Sandy Bridge to Comet Lake, 1.5 K ops
	switch {
	case vendor == cpuid.Intel && family == 6:
		switch model {
		case 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7: // Ice Lake, Tiger Lake, Rocket Lake: 2.25 K
			return unroll.OpCache{Lines: 384, OpsPerLine: 6, Window: 64}
		case 0x8f, 0xcf, 0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xaa, 0xad, 0xae, 0xac, 0xc5, 0xc6, 0xb5, 0xbd: // Golden Cove on: 4 K
			return unroll.OpCache{Lines: 512, OpsPerLine: 8, Window: 64}
		}
	case vendor == cpuid.AMD && family == 0x17 && model < 0x30: // Zen, Zen+: 2 K
		return unroll.OpCache{Lines: 256, OpsPerLine: 8, Window: 64}
	case vendor == cpuid.AMD && family == 0x19 && (model >= 0x10 && model <= 0x1f || model >= 0x60): // Zen 4: 6.75 K
		return unroll.OpCache{Lines: 768, OpsPerLine: 9, Window: 64}
	case vendor == cpuid.AMD && family == 0x1a: // Zen 5: 6 K
		return unroll.OpCache{Lines: 1024, OpsPerLine: 6, Window: 64}
	case vendor == cpuid.AMD && family >= 0x17: // Zen 2 and 3: 4 K
		return unroll.OpCache{Lines: 512, OpsPerLine: 8, Window: 64}
	}
	return smallest
}
