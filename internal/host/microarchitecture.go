package host

import "github.com/klauspost/cpuid/v2"

// Microarchitecture names a kind of core whose instructions take equally long. A server
// core and its shrinks count as their parent's: Skylake is also Cascade Lake and Comet Lake.
type Microarchitecture string

const (
	Unknown    Microarchitecture = "unknown"
	Haswell    Microarchitecture = "Haswell"
	Broadwell  Microarchitecture = "Broadwell"
	Skylake    Microarchitecture = "Skylake"
	IceLake    Microarchitecture = "Ice Lake"    // and Tiger Lake, Rocket Lake
	GoldenCove Microarchitecture = "Golden Cove" // and Raptor Cove
	Zen        Microarchitecture = "Zen"         // and Zen+
	Zen2       Microarchitecture = "Zen 2"
	Zen3       Microarchitecture = "Zen 3"
	Zen4       Microarchitecture = "Zen 4"
	Zen5       Microarchitecture = "Zen 5"
)

// Microarchitectures lists those that have a name, the older first within each vendor.
func Microarchitectures() []Microarchitecture {
	return []Microarchitecture{Haswell, Broadwell, Skylake, IceLake, GoldenCove, Zen, Zen2, Zen3, Zen4, Zen5}
}

// microarchitecture goes by Linux's lists of models: arch/x86/include/asm/intel-family.h and
// init_amd in arch/x86/kernel/cpu/amd.c. A hybrid CPU has cores of two kinds behind one
// model number, so it is Unknown. So are Redwood Cove, Lion Cove and whatever else may
// differ from its parent.
func microarchitecture(vendor cpuid.Vendor, family, model int, hybrid bool) Microarchitecture {
	switch {
	case hybrid:
		return Unknown
	case vendor == cpuid.Intel && family == 6:
		return intelCore(model)
	case vendor == cpuid.AMD:
		return amdCore(family, model)
	}
	return Unknown
}

func intelCore(model int) Microarchitecture {
	switch model {
	case 0x3c, 0x3f, 0x45, 0x46:
		return Haswell
	case 0x3d, 0x47, 0x4f, 0x56:
		return Broadwell
	case 0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6:
		return Skylake
	case 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7:
		return IceLake
	case 0x8f, 0xcf, 0x97, 0x9a, 0xb7, 0xba, 0xbf:
		return GoldenCove
	}
	return Unknown
}

func amdCore(family, model int) Microarchitecture {
	within := func(low, high int) bool { return low <= model && model <= high }
	switch family {
	case 0x17:
		switch {
		case within(0x00, 0x2f), within(0x50, 0x5f):
			return Zen
		case within(0x30, 0x4f), within(0x60, 0x7f), within(0x90, 0x91), within(0xa0, 0xaf):
			return Zen2
		}
	case 0x19:
		switch {
		case within(0x00, 0x0f), within(0x20, 0x5f):
			return Zen3
		case within(0x10, 0x1f), within(0x60, 0xaf):
			return Zen4
		}
	case 0x1a:
		if within(0x00, 0x2f) || within(0x40, 0x4f) || within(0x60, 0x7f) {
			return Zen5
		}
	}
	return Unknown
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
