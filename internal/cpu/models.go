package cpu

// model says which cores the CPUs with some model numbers have.
type model struct {
	vendor      string
	family      int
	first, last int // model numbers
	core        Name
	// Names in the table of events, where the core is not in the table of cores or is not alone: of
	// the large cores, of the small ones (device cpu_atom), and of those in a low-power island
	// (cpu_lowpower), if they differ.
	events, small, lowPower string
}

// models are the lists of Linux: arch/x86/include/asm/intel-family.h, init_amd in
// arch/x86/kernel/cpu/amd.c, and tools/perf/pmu-events/arch/x86/mapfile.csv.
var models = []model{
	{vendor: intel, family: 6, first: 0x3c, core: Haswell},
	{vendor: intel, family: 6, first: 0x3f, core: Haswell},
	{vendor: intel, family: 6, first: 0x45, last: 0x46, core: Haswell},
	{vendor: intel, family: 6, first: 0x3d, core: Broadwell},
	{vendor: intel, family: 6, first: 0x47, core: Broadwell},
	{vendor: intel, family: 6, first: 0x4f, core: Broadwell},
	{vendor: intel, family: 6, first: 0x56, core: Broadwell},
	{vendor: intel, family: 6, first: 0x4e, core: Skylake},
	{vendor: intel, family: 6, first: 0x5e, core: Skylake},
	{vendor: intel, family: 6, first: 0x55, core: Skylake}, // and Cascade Lake, Cooper Lake
	{vendor: intel, family: 6, first: 0x8e, core: Skylake},
	{vendor: intel, family: 6, first: 0x9e, core: Skylake},
	{vendor: intel, family: 6, first: 0xa5, last: 0xa6, core: Skylake}, // Comet Lake
	{vendor: intel, family: 6, first: 0x6a, core: IceLake},
	{vendor: intel, family: 6, first: 0x6c, core: IceLake},
	{vendor: intel, family: 6, first: 0x7d, last: 0x7e, core: IceLake},
	{vendor: intel, family: 6, first: 0x8c, last: 0x8d, core: IceLake},            // Tiger Lake
	{vendor: intel, family: 6, first: 0xa7, core: IceLake},                        // Rocket Lake
	{vendor: intel, family: 6, first: 0x8f, core: GoldenCove},                     // Sapphire Rapids
	{vendor: intel, family: 6, first: 0xcf, core: GoldenCove},                     // Emerald Rapids
	{vendor: intel, family: 6, first: 0xd7, core: GoldenCove},                     // Bartlett Lake
	{vendor: intel, family: 6, first: 0x97, core: GoldenCove, small: "gracemont"}, // Alder Lake
	{vendor: intel, family: 6, first: 0x9a, core: GoldenCove, small: "gracemont"},
	{vendor: intel, family: 6, first: 0xb7, core: GoldenCove, small: "gracemont"}, // Raptor Lake
	{vendor: intel, family: 6, first: 0xba, core: GoldenCove, small: "gracemont"},
	{vendor: intel, family: 6, first: 0xbf, core: GoldenCove, small: "gracemont"},
	{vendor: intel, family: 6, first: 0xbe, core: Unknown, events: "gracemont", small: "gracemont"}, // Alder Lake-N
	{vendor: intel, family: 6, first: 0xaa, core: RedwoodCove, small: "crestmont"},                  // Meteor Lake
	{vendor: intel, family: 6, first: 0xac, core: RedwoodCove, small: "crestmont"},
	{vendor: intel, family: 6, first: 0xb5, core: RedwoodCove, small: "crestmont"},                  // Arrow Lake-U
	{vendor: intel, family: 6, first: 0xad, last: 0xae, core: RedwoodCove},                          // Granite Rapids
	{vendor: intel, family: 6, first: 0xaf, core: Unknown, events: "crestmont", small: "crestmont"}, // Sierra Forest
	{vendor: intel, family: 6, first: 0xb6, core: Unknown, events: "crestmont", small: "crestmont"}, // Grand Ridge
	// Arrow Lake-H also has two of Meteor Lake's small cores.
	{vendor: intel, family: 6, first: 0xbd, core: Unknown, events: "lioncove", small: "skymont", lowPower: "crestmont"}, // Lunar Lake
	{vendor: intel, family: 6, first: 0xc5, last: 0xc6, core: Unknown, events: "lioncove", small: "skymont", lowPower: "crestmont"},
	{vendor: intel, family: 6, first: 0xcc, core: Unknown, events: "cougarcove", small: "darkmont"}, // Panther Lake
	{vendor: intel, family: 6, first: 0xd5, core: Unknown, events: "cougarcove", small: "darkmont"}, // Wildcat Lake
	{vendor: intel, family: 6, first: 0xdd, core: Unknown, events: "darkmont", small: "darkmont"},   // Clearwater Forest

	{vendor: amd, family: 0x17, first: 0x00, last: 0x2f, core: Zen},
	{vendor: amd, family: 0x17, first: 0x50, last: 0x5f, core: Zen},
	{vendor: amd, family: 0x17, first: 0x30, last: 0x4f, core: Zen2},
	{vendor: amd, family: 0x17, first: 0x60, last: 0x7f, core: Zen2},
	{vendor: amd, family: 0x17, first: 0x90, last: 0x91, core: Zen2},
	{vendor: amd, family: 0x17, first: 0xa0, last: 0xaf, core: Zen2},
	{vendor: amd, family: 0x19, first: 0x00, last: 0x0f, core: Zen3},
	{vendor: amd, family: 0x19, first: 0x20, last: 0x5f, core: Zen3},
	{vendor: amd, family: 0x19, first: 0x10, last: 0x1f, core: Zen4},
	{vendor: amd, family: 0x19, first: 0x60, last: 0xaf, core: Zen4},
	{vendor: amd, family: 0x1a, first: 0x00, last: 0x2f, core: Zen5},
	{vendor: amd, family: 0x1a, first: 0x40, last: 0x4f, core: Zen5},
	{vendor: amd, family: 0x1a, first: 0x60, last: 0x7f, core: Zen5},
}

func modelOf(id ID) model {
	for _, m := range models {
		if m.vendor == id.Vendor && m.family == id.Family && m.first <= id.Model && id.Model <= max(m.first, m.last) {
			return m
		}
	}
	return model{core: Unknown}
}
