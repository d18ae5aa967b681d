package pmu

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/internal/cpu"
)

// SplitNames splits a list of events at its commas, those between slashes excepted.
func SplitNames(list string) (names []string) {
	inside, start := false, 0
	for i, c := range list {
		switch {
		case c == '/':
			inside = !inside
		case c == ',' && !inside:
			names = append(names, strings.TrimSpace(list[start:i]))
			start = i + 1
		}
	}
	return append(names, strings.TrimSpace(list[start:]))
}

// Named finds an event by a user's name for it, as perf(1) does: the vendor's name if it is in
// the table for this core, the kernel's generic name, rNNNN for a raw code in hexadecimal, or
// DEVICE/TERM=VALUE,.../ with the terms that the device's format files define.
func (p PMU) Named(k Kernel, name string) (Event, error) {
	e := Event{Role: Asked, Name: name, Exact: true}
	digits, r := strings.CutPrefix(name, "r")
	code, err := strconv.ParseUint(digits, 16, 64)
	switch {
	case strings.Contains(name, "/"):
		e.Attr, err = p.terms(k, name)
	case r && err == nil:
		e.Attr = Attr{Type: p.Device.Type, Config: code}
	default:
		e.Attr, err = p.lookUp(k, name)
	}
	if err != nil {
		return e, fmt.Errorf("event %q: %w", name, err)
	}
	return e, nil
}

// lookUp finds a name in the table, among the kernel's generic ones and below the device's events.
func (p PMU) lookUp(k Kernel, name string) (Attr, error) {
	table, err := knownEvents()
	if err != nil {
		return Attr{}, err
	}
	for _, e := range table[p.Core] {
		if e.Name != "" && strings.EqualFold(e.Name, name) {
			e.Attr.Type = p.Device.Type
			return e.Attr, nil
		}
	}
	if a, ok := genericNames()[name]; ok {
		if a.Type != TypeSoftware {
			a = p.Device.generic(a.Type, a.Config)
		}
		return a, nil
	}
	if b, err := k.ReadFile(path.Join(devices, p.Device.Name, "events", name)); err == nil && !strings.Contains(name, "..") {
		return p.terms(k, p.Device.Name+"/"+strings.TrimSpace(string(b))+"/")
	}
	return Attr{}, fmt.Errorf("neither the kernel nor the table for this core knows it; write a raw code as rNNNN or %s/event=0x..,umask=0x../", p.Device.Name)
}

func (p PMU) terms(k Kernel, text string) (a Attr, err error) {
	name, rest, _ := strings.Cut(text, "/")
	list, ok := strings.CutSuffix(rest, "/")
	if !ok || name == "" || list == "" || strings.Contains(name, "..") {
		return a, fmt.Errorf("write DEVICE/TERM=VALUE,.../")
	}
	if name == p.Device.Name || name == "cpu" {
		a.Type, name = p.Device.Type, p.Device.Name
	} else {
		kind := level(k, path.Join(devices, name, "type"))
		if kind < 0 {
			return a, fmt.Errorf("there is no device %q below %s", name, devices)
		}
		a.Type = uint32(kind)
	}
	for _, term := range strings.Split(list, ",") {
		field, number, given := strings.Cut(strings.TrimSpace(term), "=")
		value := uint64(1)
		if given {
			if value, err = strconv.ParseUint(number, 0, 64); err != nil {
				return a, fmt.Errorf("%q is not a number", number)
			}
		}
		if err := p.setTerm(k, name, &a, field, value); err != nil {
			return a, err
		}
	}
	return a, nil
}

// setTerm puts a value where the device's format file of that name says, such as config:0-7,32-35.
func (p PMU) setTerm(k Kernel, device string, a *Attr, field string, value uint64) error {
	format := field + ":0-63" // config and config1 as a whole
	if field != "config" && field != "config1" {
		b, err := k.ReadFile(path.Join(devices, device, "format", path.Base(field)))
		if err != nil {
			return fmt.Errorf("%s has no term %q", device, field)
		}
		format = strings.TrimSpace(string(b))
	}
	word, ranges, _ := strings.Cut(format, ":")
	to := map[string]*uint64{"config": &a.Config, "config1": &a.Config1}[word]
	if to == nil {
		return fmt.Errorf("the term %q stands in %s, which bbprof does not set", field, word)
	}
	bits, err := cpu.ParseList(ranges)
	if err != nil || slices.Max(bits) > 63 {
		return fmt.Errorf("the format of %q is %q", field, format)
	}
	rest := value
	for _, bit := range bits {
		*to |= rest & 1 << bit
		rest >>= 1
	}
	if rest != 0 {
		return fmt.Errorf("%#x is too large for the term %q, %s", value, field, format)
	}
	return nil
}
