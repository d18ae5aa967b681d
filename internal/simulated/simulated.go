// Package simulated is a CPU with hardware counters that is not there, for tests: a kernel by script
// answers the calls that counting takes, and another script says what the counters would have counted
// of what the child ran.
package simulated

import (
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/recording"
	"github.com/bbprof/bbprof/internal/timing"
)

// Machine replaces parts of the machine that tests run on. The zero value replaces nothing.
type Machine struct {
	Kernel pmu.Kernel           // nil: Linux
	CPU    *pmu.CPU             // nil: the one that is there
	Script *timing.Script       // nil: the CPU counts
	CPUID  host.CPUID           // nil: the CPU's
	Record *recording.Recording // takes in what the core says; nil: nothing is recorded
}

// NewProfiler is profiler.New on such a machine, a func(context.Context, profiler.Options, Machine)
// (*profiler.Profiler, error). Package profiler sets it: its options have no place for what tests need.
var NewProfiler any

// Skylake is a simulated Skylake: each iteration of a block takes cycles, and each event that a user
// asked for occurs in it as often as occur says.
func Skylake(k pmu.Kernel, cycles func() uint64, occur func(pmu.Event) uint64) Machine {
	return Machine{Kernel: k, CPU: &pmu.CPU{ID: cpu.ID{Vendor: "GenuineIntel", Family: 6, Model: 0x55}}, Script: &timing.Script{
		Block: func(events pmu.Pass, iterations int, r *timing.Readings) {
			const around = 137 // cycles of an image without its copies
			r.Say(around + uint64(iterations)*cycles())
			for i, e := range events {
				if e.Role != pmu.Asked {
					continue
				}
				for j := range r.Counts[i] {
					r.Counts[i][j] = uint64(iterations) * occur(e)
				}
			}
		},
		Chain: timing.Chains(1),
	}}
}
