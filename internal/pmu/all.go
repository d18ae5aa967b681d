package pmu

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Selected is an event's usual name, and the name by which [PMU.Named] finds it.
type Selected struct{ Name, By string }

// All lists the named events of this CPU, each once: those of the table for this core, the kernel's
// generic events of hardware and caches, and those that the kernel lists for the device. Not all of
// them can be counted. Vendors' own lists have many more; see [VendorList].
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

// vendorEvent is an event in a vendor's list: the fields of Intel's (github.com/intel/perfmon) and of
// tools/perf/pmu-events/arch/x86 in Linux, which are the same and are all text.
type vendorEvent struct {
	EventName, EventCode, UMask, CounterMask, Invert, EdgeDetect, MSRIndex, Unit, Deprecated string
}

// VendorList reads a vendor's list of events in JSON: an array, or an object that has it under
// Events. Left out are events of other units than the core, and those that take a register more than
// the event select.
func VendorList(r io.Reader) (all []Selected, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var list []vendorEvent
	if json.Unmarshal(text, &list) != nil {
		var object struct{ Events []vendorEvent }
		if err := json.Unmarshal(text, &object); err != nil {
			return nil, fmt.Errorf("it is neither an array of events nor an object with Events: %w", err)
		}
		list = object.Events
	}
	for _, e := range list {
		ofCore := e.Unit == "" || strings.HasPrefix(e.Unit, "cpu_")
		if e.EventName == "" || e.EventCode == "" || !ofCore || flag(e.MSRIndex) || flag(e.Deprecated) {
			continue
		}
		by, err := e.terms()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.EventName, err)
		}
		all = append(all, Selected{e.EventName, by})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("it has no event of a core")
	}
	return all, nil
}

// flag reports whether a field is set; the lists write an unset field in several ways.
func flag(s string) bool { return s != "" && s != "0" && s != "0x0" && s != "0x00" && s != "0,0" }

func (e vendorEvent) terms() (string, error) {
	var terms []string
	for _, t := range []struct{ term, value string }{
		{"event", e.EventCode}, {"umask", e.UMask}, {"cmask", e.CounterMask}, {"inv", e.Invert}, {"edge", e.EdgeDetect},
	} {
		if t.term != "event" && !flag(t.value) {
			continue
		}
		n, err := strconv.ParseUint(t.value, 0, 64)
		if err != nil {
			return "", fmt.Errorf("%s is %q", t.term, t.value)
		}
		terms = append(terms, fmt.Sprintf("%s=%#x", t.term, n))
	}
	return "cpu/" + strings.Join(terms, ",") + "/", nil
}
