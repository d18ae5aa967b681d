package cpu

import "github.com/klauspost/cpuid/v2"

// Name names a kind of core with the same instruction times: Skylake is also Cascade Lake and Comet Lake.
type Name string

// The cores that have a row.
const (
	Unknown     Name = "unknown"
	Haswell     Name = "Haswell"
	Broadwell   Name = "Broadwell"
	Skylake     Name = "Skylake"
	IceLake     Name = "Ice Lake"    // and Tiger Lake, Rocket Lake
	GoldenCove  Name = "Golden Cove" // and Raptor Cove
	RedwoodCove Name = "Redwood Cove"
	LionCove    Name = "Lion Cove"   // Arrow Lake, Lunar Lake
	CougarCove  Name = "Cougar Cove" // Panther Lake
	Tremont     Name = "Tremont"
	Gracemont   Name = "Gracemont" // the small cores of Alder Lake and Raptor Lake; Alder Lake-N
	Crestmont   Name = "Crestmont" // those of Meteor Lake; Sierra Forest
	Skymont     Name = "Skymont"   // those of Arrow Lake and Lunar Lake
	Darkmont    Name = "Darkmont"  // those of Panther Lake; Clearwater Forest
	Zen         Name = "Zen"
	ZenPlus     Name = "Zen+"
	Zen2        Name = "Zen 2"
	Zen3        Name = "Zen 3"
	Zen4        Name = "Zen 4"
	Zen4c       Name = "Zen 4c"
	Zen5        Name = "Zen 5"
	Zen5c       Name = "Zen 5c"
)

// Core holds what bbprof needs to know about a kind of core. An unknown value is 0.
type Core struct {
	Name Name
	// Like names the core whose instruction times, and so known answers and latencies, this one shares; "" if none.
	Like   Name
	Events string // its name in the table of events, "" if it is not there
	OpCache
	NoOpCache      bool // the decoders serve all code, so that only L1I limits the number of copies
	StoreBuffer    int  // stores that the core can hold back from L1D
	DispatchWidth  int  // operations renamed a cycle, at most
	LoadsPerCycle  int  // at most
	StoresPerCycle int
	DTLB           int // entries of the first-level data TLB for pages of 4 KiB; those of loads where stores have others
	// BranchesPerCycle is the number of branch units (Intel Optimization Manual, ports 0 and 6; AMD's Software Optimization Guides for
	// families 17h and 19h). One of these branches may be taken.
	BranchesPerCycle int
	// FusesNops says that a nop takes no slot of its own beside another instruction.
	FusesNops      bool
	MultiplyCycles int // the latency of imul r64, r64
	// SettlesAtOnce says that images reach their final speed within 4 runs: 2,000 blocks agreed as well without more,
	// and took 5 % less time. On Redwood Cove dense code in long images needs some 60, and unmeasured cores get as
	// many.
	SettlesAtOnce bool
	// AddsPerCycle is the contention probe's rate of independent register adds on an idle core, where it was
	// measured: the number of ALUs, or less where ports are bound at rename.
	AddsPerCycle float64
	// IdleProbe is the contention probe's time on an idle core in cycles, for 64 iterations without nops, where it was
	// measured: a closer answer than AddsPerCycle gives.
	IdleProbe float64
	// NopsPerCycle is the same for the probe's nops; 0 where the probe has adds alone.
	NopsPerCycle float64
	// SessionsApart is how many times as far apart as its windows tell the cycles of two sessions lie, for a block whose layouts took a second
	// visit: which physical pages its code and data have decides on some cores in which of several speeds it runs. 0: not farther.
	SessionsApart float64
	// SessionShare is how far apart the cycles of two sessions lie besides, as a share of them, which adds to the interval of any block.
	SessionShare float64
	// LoopsByPlace says that how fast a loop runs depends on the addresses of its code: both images of one must be the same code.
	LoopsByPlace bool
	// WayPredicted says that the way of L1D is predicted from the linear address (AMD's family 17h
	// Software Optimization Guide, 2.6.2.2).
	WayPredicted bool
	Latencies    Latencies
	// LLVM, UICA and OSACA are the names of these tools' models, "" where there is none.
	LLVM, UICA, OSACA string

	vendor string
	since  []cpuid.FeatureID // features that no older core of the vendor has
	l1i    int               // if not 0, older cores with AVX-512 have a smaller L1I
}

// OpCache is the geometry of a decoded-instruction cache, as unroll.OpCache describes it.
type OpCache struct{ Lines, OpsPerLine, Window int }

// Latencies is a column of the table of documented latencies (study/bounds).
type Latencies int

const (
	SkylakeLatencies Latencies = iota // Skylake to Ice Lake, and cores without a column
	GoldenCoveLatencies
	RedwoodCoveLatencies
	LionCoveLatencies
	GracemontLatencies
	SkymontLatencies
	ZenLatencies   // Zen 3 to Zen 5
	LatencyColumns // the number of columns
)

// Vendors as CPUID leaf 0 names them.
const (
	intel = "GenuineIntel"
	amd   = "AuthenticAMD"
)

// unknown is safe on all cores: the smallest op cache and data TLB, and the largest store buffer in the table. A core that is
// not Intel's may predict ways.
var unknown = Core{Name: Unknown, OpCache: OpCache{256, 6, 32}, StoreBuffer: 112, DTLB: 64, WayPredicted: true}

// cores, of each vendor from the oldest to the newest, the small ones last.
//
// Sources, where a row names no other. Op cache, store buffer, data TLB, widths: Intel 64 and IA-32 Optimization Reference
// Manual, the section of each microarchitecture ("Decoded ICache", the tables of pipeline resources; Redwood Cove:
// "as Golden Cove", but an L1I of 64 KiB); AMD Software Optimization Guides for families 17h, 19h and 1Ah, "Op
// Cache", "Integer Execution Unit", "Load-Store Unit"; Fog, microarchitecture.pdf. Adds a cycle: uops.info. Multiply:
// "IMUL r64, r64" in InstLatx64's dumps (github.com/InstLatx64/InstLatx64), and measured on Skylake, Redwood Cove,
// Zen 4 and Zen 5. since: SDM vol. 1, chapter 5 (instructions by processor); AMD APM vol. 3, appendix D; Intel
// Architecture Instruction Set Extensions Programming Reference, table 1-2 (AMX-FP16: Granite Rapids). Names of
// tools: llc -mcpu=help; the -arch lists of uiCA and OSACA. LLVM uses Golden Cove's model for Redwood Cove. It also
// does so for the small cores, where it is wrong, so they have no LLVM name here.
var cores = []Core{
	{Name: Haswell, Events: "haswell", vendor: intel, OpCache: OpCache{256, 6, 32}, StoreBuffer: 42, DTLB: 64, DispatchWidth: 4, BranchesPerCycle: 2, LoadsPerCycle: 2, StoresPerCycle: 1,
		MultiplyCycles: 3, AddsPerCycle: 4, LLVM: "haswell", UICA: "HSW", OSACA: "HSW"},
	{Name: Broadwell, Events: "broadwell", vendor: intel, OpCache: OpCache{256, 6, 32}, StoreBuffer: 42, DTLB: 64, DispatchWidth: 4, BranchesPerCycle: 2, LoadsPerCycle: 2, StoresPerCycle: 1,
		MultiplyCycles: 3, AddsPerCycle: 4, LLVM: "broadwell", UICA: "BDW", OSACA: "BDW"},
	{Name: Skylake, Events: "skylake", vendor: intel, OpCache: OpCache{256, 6, 32}, StoreBuffer: 56, DTLB: 64, DispatchWidth: 4, BranchesPerCycle: 2, LoadsPerCycle: 2, StoresPerCycle: 1,
		MultiplyCycles: 3, AddsPerCycle: 4, LLVM: "skylake-avx512", UICA: "SKX", OSACA: "SKX",
		since: []cpuid.FeatureID{cpuid.AVX512BW}},
	{Name: IceLake, Events: "icelake", vendor: intel, OpCache: OpCache{384, 6, 64}, StoreBuffer: 72, DTLB: 64, DispatchWidth: 5, BranchesPerCycle: 2, LoadsPerCycle: 2, StoresPerCycle: 2,
		MultiplyCycles: 3, AddsPerCycle: 4, LLVM: "icelake-server", UICA: "ICL", OSACA: "ICX",
		since: []cpuid.FeatureID{cpuid.AVX512VBMI2}},
	{Name: GoldenCove, Events: "goldencove", vendor: intel, OpCache: OpCache{512, 8, 64}, StoreBuffer: 112, DTLB: 96, DispatchWidth: 6, BranchesPerCycle: 2,
		LoadsPerCycle: 3, StoresPerCycle: 2,
		MultiplyCycles: 3, AddsPerCycle: 4.6, // five ALUs; 4.6 was measured on Granite Rapids
		IdleProbe: 955, // 954 to 957 in every idle recording of an Emerald Rapids
		// On the same, of some 7,000 such corpus blocks in two pairs of runs 95 % were within 1.5 and 1.8 half-widths; of the others, 0.9.
		SessionsApart: 1.8,
		// Of a pair of runs of all corpus blocks beside busy siblings 93.8 % of the second were inside without it, and would have been
		// 95.8 % with 0.004; of another with it 96.2 %.
		SessionShare: 0.004,
		// On the same, of 160 register-only blocks two runs were within 1 % for 97 % with it and 88 % without, and the 108 whose own loop in
		// assembly repeats at each of four places within 1 % of that for 100 and 88 %. Of all corpus blocks 97.4 % were accepted by two
		// runs, not 95.7, and 92 % of these within 0.5 %, not 89.
		LoopsByPlace: true,
		Latencies:    GoldenCoveLatencies, LLVM: "sapphirerapids", OSACA: "SPR",
		since: []cpuid.FeatureID{cpuid.AVX512FP16, cpuid.AMXTILE}},
	{Name: RedwoodCove, Events: "redwoodcove", vendor: intel, OpCache: OpCache{512, 8, 64}, StoreBuffer: 112, DTLB: 96, DispatchWidth: 6, BranchesPerCycle: 2,
		LoadsPerCycle: 3, StoresPerCycle: 2, MultiplyCycles: 3, AddsPerCycle: 4.6,
		Latencies: RedwoodCoveLatencies, LLVM: "graniterapids",
		since: []cpuid.FeatureID{cpuid.AMXFP16}, l1i: 64 << 10},
	// Lion Cove: LLVM's X86SchedLunarlakeP.td ("LunarlakeP can allocate 8 uops per cycle", three load and two store
	// ports), which InstLatx64's dump of an Arrow Lake's large cores (00C0662_BC) confirms. Intel says that its op
	// cache holds 5,250 operations (Lunar Lake Tech Tour, 2024), not how, and nothing of the store buffer.
	lionCove,
	// Cougar Cove: Intel's slides of Panther Lake (Tech Tour, 2025) have a rename of 8, and InstLatx64 finds no
	// instruction that takes another time than on Lion Cove; both as github.com/jiegec/cpu quotes them
	// (docs/cougar_cove.md).
	lionCove.as(CougarCove, "cougarcove"),

	// The small cores mark the lengths of instructions in L1I instead of caching operations (Intel on Skymont, Tech
	// Tour, 2024: "on-demand instruction length decoder"). Loads and stores a cycle: InstLatx64's dumps of the little
	// cores of an Alder Lake, a Meteor Lake and an Arrow Lake (0090672_LC, 00A06A4_LC, 00C0662_LC); Tremont's
	// multiply: of a Jasper Lake (00906C0).
	{Name: Tremont, vendor: intel, NoOpCache: true, DispatchWidth: 4, // WikiChip, "Intel Unveils the Tremont Microarchitecture", "Back End"
		MultiplyCycles: 5, Latencies: GracemontLatencies},
	// Gracemont and Crestmont: width: Optimization Reference Manual ("wider allocation width, 6-wide from 5-wide", of
	// Crestmont); store buffer: Chips and Cheese, "Gracemont: Revenge of the Atom Cores" and "Meteor Lake's E-Cores:
	// Crestmont Makes Incremental Progress"; both as github.com/jiegec/cpu quotes them (docs/gracemont.d2,
	// docs/crestmont.d2).
	{Name: Gracemont, Events: "gracemont", vendor: intel, NoOpCache: true, StoreBuffer: 50, DispatchWidth: 5, LoadsPerCycle: 2, StoresPerCycle: 2,
		MultiplyCycles: 5, Latencies: GracemontLatencies},
	{Name: Crestmont, Events: "crestmont", vendor: intel, NoOpCache: true, StoreBuffer: 48, DispatchWidth: 6, LoadsPerCycle: 2, StoresPerCycle: 2,
		MultiplyCycles: 5, Latencies: GracemontLatencies},
	// Skymont and Darkmont: width: Intel's slides (Tech Tours, 2024, "eight-wide allocation", and 2025). InstLatx64
	// finds instructions that take other times on Darkmont than on Skymont, so the rest of its row is not known; its
	// column of latencies is the nearest.
	{Name: Skymont, Events: "skymont", vendor: intel, NoOpCache: true, DispatchWidth: 8, LoadsPerCycle: 3, StoresPerCycle: 2,
		MultiplyCycles: 4, Latencies: SkymontLatencies},
	{Name: Darkmont, Events: "darkmont", vendor: intel, NoOpCache: true, DispatchWidth: 8, Latencies: SkymontLatencies},

	zen,
	// Zen+: the Software Optimization Guide for family 17h, models 00h to 2Fh, does not tell it from Zen;
	// InstLatx64's dump of a Pinnacle Ridge (0800F82) is within Zen's answers for all blocks of the selftest that it
	// has.
	zen.as(ZenPlus, zen.Events),
	{Name: Zen2, Events: "zen2", vendor: amd, OpCache: OpCache{512, 8, 64}, StoreBuffer: 48, DTLB: 64, DispatchWidth: 6, BranchesPerCycle: 2, LoadsPerCycle: 2, StoresPerCycle: 1,
		MultiplyCycles: 3, AddsPerCycle: 4, WayPredicted: true, Latencies: ZenLatencies, LLVM: "znver2", OSACA: "ZEN2",
		since: []cpuid.FeatureID{cpuid.WBNOINVD}},
	{Name: Zen3, Events: "zen3", vendor: amd, IdleProbe: 1152, // measured on Milan, 1150 to 1154 in five recordings
		OpCache: OpCache{512, 8, 64}, StoreBuffer: 64, DTLB: 64, DispatchWidth: 6, BranchesPerCycle: 2, LoadsPerCycle: 3, StoresPerCycle: 2,
		MultiplyCycles: 3, AddsPerCycle: 4, WayPredicted: true, Latencies: ZenLatencies, LLVM: "znver3", OSACA: "ZEN3",
		since: []cpuid.FeatureID{cpuid.VAES}},
	// Zen 4c and Zen 5c: AMD presents them as the same core in less area, with the same time for every instruction,
	// and less L3 (TechPowerUp, "AMD Introduces Ryzen 5 and Ryzen 3 Mobile Processors with Zen 4c Cores", 2 November
	// 2023). Features do not distinguish them from their parents, so features alone name the parent.
	zen4,
	zen4.as(Zen4c, zen4.Events),
	zen5,
	zen5.as(Zen5c, zen5.Events),
}

// Rows that other rows refer to.
var (
	lionCove = Core{Name: LionCove, Events: "lioncove", vendor: intel, DispatchWidth: 8, LoadsPerCycle: 3, StoresPerCycle: 2, MultiplyCycles: 3,
		Latencies: LionCoveLatencies, LLVM: "lunarlake"}

	zen = Core{Name: Zen, Events: "zen1", vendor: amd, OpCache: OpCache{256, 8, 64}, StoreBuffer: 44, DTLB: 64, DispatchWidth: 6, BranchesPerCycle: 2, LoadsPerCycle: 2, StoresPerCycle: 1,
		MultiplyCycles: 3, AddsPerCycle: 4, WayPredicted: true, Latencies: ZenLatencies, LLVM: "znver1", OSACA: "ZEN1"}
	zen4 = Core{Name: Zen4, Events: "zen4", vendor: amd, SettlesAtOnce: true, FusesNops: true, BranchesPerCycle: 2, IdleProbe: 1147, // both measured on Genoa
		OpCache: OpCache{768, 9, 64}, StoreBuffer: 64, DTLB: 72, DispatchWidth: 6, LoadsPerCycle: 3, StoresPerCycle: 2,
		MultiplyCycles: 3, AddsPerCycle: 4, WayPredicted: true, Latencies: ZenLatencies, LLVM: "znver4", OSACA: "ZEN4",
		since: []cpuid.FeatureID{cpuid.AVX512F}}
	zen5 = Core{Name: Zen5, Events: "zen5", vendor: amd, OpCache: OpCache{1024, 6, 64}, StoreBuffer: 104, DTLB: 96, DispatchWidth: 8, LoadsPerCycle: 4, StoresPerCycle: 2,
		MultiplyCycles: 3, AddsPerCycle: 5.3, NopsPerCycle: 7.9, // six ALUs; adds: InstLatx64, Granite Ridge, and measured on Turin; nops: measured there
		WayPredicted: true, Latencies: ZenLatencies, LLVM: "znver5",
		since: []cpuid.FeatureID{cpuid.AVX512VP2INTERSECT}}
)

// as returns c's row for a core with the same instruction times.
func (c Core) as(name Name, events string) Core {
	c.Name, c.Like, c.Events, c.since = name, c.Name, events, nil // no feature distinguishes the two
	return c
}
