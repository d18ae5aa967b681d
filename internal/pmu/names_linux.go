package pmu

import (
	"fmt"

	"github.com/elastic/go-perf"
)

// genericNames are the kernel's generic events by perf(1)'s names.
func genericNames() map[string]Attr {
	names := map[string]Attr{}
	for _, c := range append(perf.AllHardwareCounters(), perf.AllSoftwareCounters()...) {
		names[fmt.Sprint(c)] = attrOf(c)
	}
	// perf(1)'s other names, which the library keeps to itself.
	for alias, name := range map[string]string{"cycles": "cpu-cycles", "branches": "branch-instructions", "faults": "page-faults",
		"cs": "context-switches", "migrations": "cpu-migrations"} {
		names[alias] = names[name]
	}
	caches := map[string]perf.Cache{"L1-dcache": perf.L1D, "L1-icache": perf.L1I, "LLC": perf.LL,
		"dTLB": perf.DTLB, "iTLB": perf.ITLB, "branch": perf.BPU, "node": perf.NODE}
	ops := map[string]perf.CacheOp{"load": perf.Read, "store": perf.Write, "prefetch": perf.Prefetch}
	for cache, c := range caches {
		for op, o := range ops {
			plural := op + "s"
			if o == perf.Prefetch {
				plural = op + "es"
			}
			names[cache+"-"+plural] = attrOf(perf.HardwareCacheCounter{Cache: c, Op: o, Result: perf.Access})
			names[cache+"-"+op+"-misses"] = attrOf(perf.HardwareCacheCounter{Cache: c, Op: o, Result: perf.Miss})
		}
	}
	return names
}

// attrOf asks the library for an event's attributes.
func attrOf(c perf.Configurator) Attr {
	var a perf.Attr
	if c.Configure(&a) != nil { // those of numbers alone cannot fail
		return Attr{}
	}
	return Attr{Type: uint32(a.Type), Config: a.Config, Config1: a.Config1}
}
