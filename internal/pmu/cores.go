package pmu

// coreOf names the core as the events table does. Models as in Linux's arch/x86/include/asm/intel-family.h and
// tools/perf/pmu-events/arch/x86/mapfile.csv.
func coreOf(cpu CPU, d Device) Core {
	switch {
	case cpu.Vendor == "AuthenticAMD":
		return amdCore(cpu.Family, cpu.Model)
	}
	return Generic
}

func amdCore(family, model int) Core {
	switch family {
	case 0x17:
		if model < 0x30 {
			return "zen1"
		}
	}
	return Generic
}
