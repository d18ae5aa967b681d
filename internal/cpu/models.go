package cpu

type model struct {
	vendor      string
	family      int
	first, last int // model numbers
	core        Name
	// The small cores of a hybrid CPU (cpu_atom), and those of a low-power island (cpu_lowpower), if they differ.
	small, lowPower Name
}

// of returns the core of one of the Kinds.
func (m model) of(kind string) Name {
	switch {
	case kind == "cpu_lowpower" && m.lowPower != "":
		return m.lowPower
	case (kind == "cpu_lowpower" || kind == "cpu_atom") && m.small != "":
		return m.small
	}
	return m.core
}

// models are the lists of Linux: arch/x86/include/asm/intel-family.h, init_amd in arch/x86/kernel/cpu/amd.c, and
// tools/perf/pmu-events/arch/x86/mapfile.csv. Linux does not distinguish Zen+, Zen 4c and Zen 5c from their parents;
// their model numbers are those of InstLatx64's dumps (0800F82, 0810F81, 0AA0F02, 0B10F10).
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
	{vendor: intel, family: 6, first: 0x8c, last: 0x8d, core: IceLake},          // Tiger Lake
	{vendor: intel, family: 6, first: 0xa7, core: IceLake},                      // Rocket Lake
	{vendor: intel, family: 6, first: 0x8f, core: GoldenCove},                   // Sapphire Rapids
	{vendor: intel, family: 6, first: 0xcf, core: GoldenCove},                   // Emerald Rapids
	{vendor: intel, family: 6, first: 0xd7, core: GoldenCove},                   // Bartlett Lake
	{vendor: intel, family: 6, first: 0x97, core: GoldenCove, small: Gracemont}, // Alder Lake
	{vendor: intel, family: 6, first: 0x9a, core: GoldenCove, small: Gracemont},
	{vendor: intel, family: 6, first: 0xb7, core: GoldenCove, small: Gracemont}, // Raptor Lake
	{vendor: intel, family: 6, first: 0xba, core: GoldenCove, small: Gracemont},
	{vendor: intel, family: 6, first: 0xbf, core: GoldenCove, small: Gracemont},
	{vendor: intel, family: 6, first: 0x86, core: Tremont},                       // Jacobsville
	{vendor: intel, family: 6, first: 0x96, core: Tremont},                       // Elkhart Lake
	{vendor: intel, family: 6, first: 0x9c, core: Tremont},                       // Jasper Lake
	{vendor: intel, family: 6, first: 0xbe, core: Gracemont},                     // Alder Lake-N
	{vendor: intel, family: 6, first: 0xaa, core: RedwoodCove, small: Crestmont}, // Meteor Lake
	{vendor: intel, family: 6, first: 0xac, core: RedwoodCove, small: Crestmont},
	{vendor: intel, family: 6, first: 0xb5, core: RedwoodCove, small: Crestmont}, // Arrow Lake-U
	{vendor: intel, family: 6, first: 0xad, last: 0xae, core: RedwoodCove},       // Granite Rapids
	{vendor: intel, family: 6, first: 0xaf, core: Crestmont},                     // Sierra Forest
	{vendor: intel, family: 6, first: 0xb6, core: Crestmont},                     // Grand Ridge
	// Arrow Lake-H also has two of Meteor Lake's small cores.
	{vendor: intel, family: 6, first: 0xbd, core: LionCove, small: Skymont, lowPower: Crestmont},             // Lunar Lake
	{vendor: intel, family: 6, first: 0xc5, last: 0xc6, core: LionCove, small: Skymont, lowPower: Crestmont}, // Arrow Lake
	{vendor: intel, family: 6, first: 0xcc, core: CougarCove, small: Darkmont},                               // Panther Lake
	{vendor: intel, family: 6, first: 0xd5, core: CougarCove, small: Darkmont},                               // Wildcat Lake
	{vendor: intel, family: 6, first: 0xdd, core: Darkmont},                                                  // Clearwater Forest

	{vendor: amd, family: 0x17, first: 0x00, last: 0x07, core: Zen},
	{vendor: amd, family: 0x17, first: 0x08, core: ZenPlus}, // Pinnacle Ridge
	{vendor: amd, family: 0x17, first: 0x09, last: 0x17, core: Zen},
	{vendor: amd, family: 0x17, first: 0x18, core: ZenPlus}, // Picasso
	{vendor: amd, family: 0x17, first: 0x19, last: 0x2f, core: Zen},
	{vendor: amd, family: 0x17, first: 0x50, last: 0x5f, core: Zen},
	{vendor: amd, family: 0x17, first: 0x30, last: 0x4f, core: Zen2},
	{vendor: amd, family: 0x17, first: 0x60, last: 0x7f, core: Zen2},
	{vendor: amd, family: 0x17, first: 0x90, last: 0x91, core: Zen2},
	{vendor: amd, family: 0x17, first: 0xa0, last: 0xaf, core: Zen2},
	{vendor: amd, family: 0x19, first: 0x00, last: 0x0f, core: Zen3},
	{vendor: amd, family: 0x19, first: 0x20, last: 0x5f, core: Zen3},
	{vendor: amd, family: 0x19, first: 0x10, last: 0x1f, core: Zen4},
	{vendor: amd, family: 0x19, first: 0x60, last: 0x9f, core: Zen4},  // Phoenix 2 (0x78) also has Zen 4c
	{vendor: amd, family: 0x19, first: 0xa0, last: 0xaf, core: Zen4c}, // Bergamo, Siena
	{vendor: amd, family: 0x1a, first: 0x00, last: 0x0f, core: Zen5},
	{vendor: amd, family: 0x1a, first: 0x10, last: 0x1f, core: Zen5c}, // Turin Dense
	{vendor: amd, family: 0x1a, first: 0x20, last: 0x2f, core: Zen5},  // Strix Point also has Zen 5c
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
