package pmu

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// All lists the named events of this CPU, each once: those of the table for this core, the kernel's
// generic events of hardware and caches, and those that the kernel lists for the device. Not all of
// them can be counted. Vendors' own lists have many more.
func (p PMU) All(k Kernel) (all []string, err error) {
	table, err := knownEvents()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range table[p.Core] {
		if e.Name != "" {
			names = append(names, e.Name)
		}
	}
	generic := genericNames()
	for _, name := range slices.Sorted(maps.Keys(generic)) {
		if generic[name].Type != TypeSoftware {
			names = append(names, name)
		}
	}
	listed, _ := k.List(path.Join(devices, p.Device.Name, "events")) // a device without the folder lists none
	for _, name := range listed {
		if !strings.Contains(name, ".") { // those are scales and units
			names = append(names, name)
		}
	}
	seen := map[Attr]bool{p.Event(Cycles).Attr: true}
	for _, name := range names {
		e, err := p.Named(k, name)
		if err != nil || seen[e.Attr] { // the kernel may list terms that bbprof does not set
			continue
		}
		seen[e.Attr] = true
		all = append(all, name)
	}
	return all, nil
}

// Software lists the kernel's software events, each by its full name, without those that never count by themselves.
func (p PMU) Software() []string {
	names := map[Attr]string{}
	for name, a := range genericNames() {
		if a.Type == TypeSoftware && len(name) > len(names[a]) && name != "dummy" && name != "bpf-output" {
			names[a] = name
		}
	}
	return slices.Sorted(maps.Values(names))
}
