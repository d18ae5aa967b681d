package pmu

// coreOf names the core as the events table does. Models are those of Linux:
// arch/x86/include/asm/intel-family.h, init_amd in arch/x86/kernel/cpu/amd.c, and
// tools/perf/pmu-events/arch/x86/mapfile.csv.
func coreOf(cpu CPU, d Device) Core {
	switch {
	case cpu.Vendor == "AuthenticAMD":
		return amdCore(cpu.Family, cpu.Model)
	case cpu.Vendor == "GenuineIntel" && cpu.Family == 6:
		return intelCore(cpu.Model, d)
	}
	return Generic
}

// intelCore knows both kinds of core of a hybrid CPU, which have one model number; the
// device tells them apart.
func intelCore(model int, d Device) Core {
	small := d.Name == "cpu_atom" || d.Name == "cpu_lowpower"
	either := func(p, e Core) Core {
		if small {
			return e
		}
		return p
	}
	switch model {
	case 0x3c, 0x3f, 0x45, 0x46:
		return "haswell"
	case 0x3d, 0x47, 0x4f, 0x56:
		return "broadwell"
	case 0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6:
		return "skylake" // to Comet Lake, Cascade Lake among them
	case 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7:
		return "icelake" // and Tiger Lake, Rocket Lake
	case 0x8f, 0xcf, 0xd7: // Sapphire Rapids, Emerald Rapids, Bartlett Lake
		return "goldencove"
	case 0x97, 0x9a, 0xb7, 0xba, 0xbf: // Alder Lake, Raptor Lake
		return either("goldencove", "gracemont")
	case 0xbe: // Alder Lake-N
		return "gracemont"
	case 0xaa, 0xac, 0xb5: // Meteor Lake, Arrow Lake-U
		return either("redwoodcove", "crestmont")
	case 0xad, 0xae: // Granite Rapids
		return "redwoodcove"
	case 0xaf, 0xb6: // Sierra Forest, Grand Ridge
		return "crestmont"
	case 0xbd, 0xc5, 0xc6: // Lunar Lake, Arrow Lake
		if d.Name == "cpu_lowpower" { // Arrow Lake-H has two of Meteor Lake's small cores besides
			return "crestmont"
		}
		return either("lioncove", "skymont")
	case 0xcc, 0xd5: // Panther Lake, Wildcat Lake
		return either("cougarcove", "darkmont")
	case 0xdd: // Clearwater Forest
		return "darkmont"
	}
	return Generic
}

func amdCore(family, model int) Core {
	within := func(low, high int) bool { return low <= model && model <= high }
	switch family {
	case 0x17:
		switch {
		case within(0x00, 0x2f), within(0x50, 0x5f):
			return "zen1" // and Zen+
		case within(0x30, 0x4f), within(0x60, 0x7f), within(0x90, 0x91), within(0xa0, 0xaf):
			return "zen2"
		}
	case 0x19:
		switch {
		case within(0x00, 0x0f), within(0x20, 0x5f):
			return "zen3"
		case within(0x10, 0x1f), within(0x60, 0xaf):
			return "zen4"
		}
	case 0x1a:
		if within(0x00, 0x2f) || within(0x40, 0x4f) || within(0x60, 0x7f) {
			return "zen5"
		}
	}
	return Generic
}
