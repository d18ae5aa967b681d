package pmu

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// Selected is an event's usual name, and the name by which [PMU.Named] finds it.
type Selected struct{ Name, By string }

// All lists the named events of this CPU, each once: those of the table for this core, the kernel's
// generic events of hardware and caches, and those that the kernel lists for the device. Not all of
// them can be counted. Vendors' own lists have many more.
func (p PMU) All(k Kernel) (all []Selected, err error) {
	rows, err := parseTable(eventTable)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range rows {
		if r.core == p.Core && r.absent == "" && r.shares == "" {
			names = append(names, r.name)
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
		all = append(all, Selected{name, name})
	}
	return all, nil
}

// Software lists the kernel's software events, each by its full name, without those that never count by themselves.
func (p PMU) Software() (all []Selected) {
	names := map[Attr]string{}
	for name, a := range genericNames() {
		if a.Type == TypeSoftware && len(name) > len(names[a]) && name != "dummy" && name != "bpf-output" {
			names[a] = name
		}
	}
	for _, name := range slices.Sorted(maps.Values(names)) {
		all = append(all, Selected{name, name})
	}
	return all
}
