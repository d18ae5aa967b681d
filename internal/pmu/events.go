package pmu

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

type Role string

const (
	Cycles       Role = "cycles"         // core cycles, not those of a reference clock
	L1DReadMiss  Role = "l1d_read_miss"  // loads that miss L1D
	L1DWriteMiss Role = "l1d_write_miss" // stores that miss L1D
	L1IMiss      Role = "l1i_miss"       // fetches that miss L1I
	SplitLoad    Role = "split_load"     // loads across a cache line
	SplitStore   Role = "split_store"    // stores across a cache line
	AddressAlias Role = "address_alias"  // loads held back by an older store with equal low address bits
	Asked        Role = "asked"          // named by the user
)

// Core is a kind of core with events of its own: a column of the vendors' lists of events.
type Core string

// Generic stands for a core that the table does not have.
const Generic Core = ""

type Event struct {
	Role Role   `json:"role"`
	Name string `json:"name"` // the vendor's, or the user's
	Attr Attr   `json:"-"`
	// Exact says that the event counts exactly what the role names. Otherwise it is the nearest event
	// and counts other things too: 0 means none, more proves nothing.
	Exact  bool   `json:"exact"`
	Source string `json:"source,omitempty"`
	// Shares names the role whose event counts this role, too, so that no event is opened for it.
	Shares Role `json:"shares,omitempty"`

	// Available says that the kernel can count it; otherwise Why says why not, and Remedy what would help.
	Available bool   `json:"available"`
	Why       string `json:"why,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
	// Doubt says why the counts are not credible; they are reported since the user asked for them.
	Doubt string `json:"-"`
}

//go:embed events.txt
var eventTable string

var knownEvents = sync.OnceValues(func() (map[Core][]Event, error) { return parseTable(eventTable) })

// parseTable returns the events of each core, in the order of their roles. The type of their Attr is the device's.
func parseTable(table string) (map[Core][]Event, error) {
	events := map[Core][]Event{}
	for i, line := range strings.Split(table, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if len(cells) != 6 {
			return nil, fmt.Errorf("events.txt, line %d: %d cells, want 6", i+1, len(cells))
		}
		core, name, quality := Core(cells[0]), cells[2], cells[4]
		e := Event{Role: Role(cells[1]), Source: cells[5], Exact: quality == "exact"}
		var err error
		switch quality {
		case "exact", "nearest":
			e.Name = name
			e.Attr, err = parseCode(cells[3])
		case "shared":
			e.Shares = Role(name)
		case "none":
			e.Why = name
		default:
			err = fmt.Errorf("%q must be exact, nearest, shared or none", quality)
		}
		if err != nil {
			return nil, fmt.Errorf("events.txt, line %d: %w", i+1, err)
		}
		events[core] = append(events[core], e)
	}
	return events, nil
}

// parseCode reads an event's code in the fields of the vendors' lists. The event-select register (Intel SDM vol. 3,
// figure 20-1; AMD APM vol. 2, 13.2.1) has the event in bits 7:0 and, on AMD, 35:32, the unit mask in 15:8, the
// counter mask in 31:24.
func parseCode(s string) (a Attr, err error) {
	var event, umask, cmask uint64
	fields := map[string]*uint64{"event": &event, "umask": &umask, "cmask": &cmask, "config1": &a.Config1}
	for field := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(field, "=")
		if fields[name] == nil {
			return a, fmt.Errorf("no field of an event is called %q", name)
		}
		if *fields[name], err = strconv.ParseUint(value, 0, 64); err != nil {
			return a, err
		}
	}
	a.Config = event&0xff | event>>8<<32 | umask<<8 | cmask<<24
	return a, nil
}

// eventsOf returns the table's events for a core, one for each role; for an unknown core the kernel's
// generic events, whose meaning varies between cores.
func eventsOf(core Core, d Device) ([]Event, error) {
	if core == Generic {
		return genericEvents(d), nil
	}
	table, err := knownEvents()
	events := append([]Event{cyclesEvent(d)}, table[core]...)
	for i := range events[1:] {
		e := &events[1+i]
		e.Attr.Type = d.Type
		if e.Shares != "" {
			other := events[slices.IndexFunc(events, func(o Event) bool { return o.Role == e.Shares })]
			e.Name, e.Exact = other.Name, other.Exact
		}
	}
	return events, err
}

// Generic numbers (enum perf_hw_id and perf_hw_cache_id, linux/perf_event.h).
const (
	hwCycles   = 0
	hwBranches = 4

	cacheL1D, cacheL1I = 0, 1
	opRead, opWrite    = 0, 1
	resultMiss         = 1
)

// generic numbers of a hybrid CPU carry the device's type in their upper half
// (PERF_PMU_TYPE_SHIFT, linux/perf_event.h; Linux 5.13).
func (d Device) generic(kind uint32, config uint64) Attr {
	if d.Hybrid {
		config |= uint64(d.Type) << 32
	}
	return Attr{Type: kind, Config: config}
}

func cyclesEvent(d Device) Event {
	return Event{Role: Cycles, Name: "cpu-cycles", Exact: true, Attr: d.generic(TypeHardware, hwCycles),
		Source: "PERF_COUNT_HW_CPU_CYCLES, linux/perf_event.h: unhalted core cycles on Intel (CPU_CLK_UNHALTED.THREAD) and AMD (PMCx076)"}
}

func genericEvents(d Device) []Event {
	const source = "PERF_TYPE_HW_CACHE, linux/perf_event.h"
	cache := func(role Role, name string, cache, op uint64) Event {
		return Event{Role: role, Name: name, Source: source, Attr: d.generic(TypeHWCache, cache|op<<8|resultMiss<<16)}
	}
	events := []Event{
		cyclesEvent(d),
		cache(L1DReadMiss, "L1-dcache-load-misses", cacheL1D, opRead),
		cache(L1DWriteMiss, "L1-dcache-store-misses", cacheL1D, opWrite),
		cache(L1IMiss, "L1-icache-load-misses", cacheL1I, opRead),
	}
	for _, role := range []Role{SplitLoad, SplitStore, AddressAlias} {
		events = append(events, Event{Role: role, Why: "the kernel has no generic event for it, and bbprof does not know this core's own"})
	}
	return events
}

// MarshalJSON omits settings that could not be read.
func (p PMU) MarshalJSON() ([]byte, error) {
	type plain PMU // without this method
	return json.Marshal(struct {
		plain
		Paranoid *int `json:"perf_event_paranoid,omitempty"`
		RDPMC    *int `json:"rdpmc_setting,omitempty"`
	}{plain(p), known(p.Paranoid), known(p.RDPMC)})
}

func known(level int) *int {
	if level == UnknownLevel {
		return nil
	}
	return &level
}
