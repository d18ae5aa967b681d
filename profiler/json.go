package profiler

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
)

// MarshalJSON writes a result with the names of a corpus's columns as keys. There init and clock are
// names, so registers and calibration have other keys. Addresses and register values are hexadecimal
// text, because most JSON readers have no 64-bit integers. Unknown values, such as the copies of a block
// that never ran, have no key; nor has a counter's why if it equals that of the counter before.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result          // without this method
	type below struct{ plain } // so that other fields with the same key come first
	out := struct {
		below
		*Ran
		WindowsDropped *int              `json:"windows_dropped,omitempty"`
		Init           string            `json:"init"`
		Set            string            `json:"set,omitempty"`
		Memory         string            `json:"memory,omitempty"`
		Registers      map[string]string `json:"registers,omitempty"`
		Clock          string            `json:"clock,omitempty"`
		TicksPerCycle  float64           `json:"ticks_per_cycle,omitzero"`
		Calibration    *ClockReport      `json:"calibration,omitempty"`
		SelfForwarding *int              `json:"self_forwarding_loads,omitempty"`
	}{below: below{plain(r)}, Init: r.Init.Name, Set: r.Init.Set, Memory: r.Init.Memory.String(), Calibration: r.Clock}
	if r.UnrollLong > 0 { // there were images to run
		dropped := r.WindowsSwitched + r.WindowsUnsteady + r.WindowsDrifted
		out.Ran, out.WindowsDropped = &r.Ran, &dropped
	}
	if r.Status == OK {
		out.SelfForwarding = &r.SelfForwarding
	}
	out.Counters = slices.Clone(r.Counters)
	for i := len(out.Counters) - 1; i > 0; i-- { // on most hosts all are equal
		if out.Counters[i].Why == out.Counters[i-1].Why {
			out.Counters[i].Why = ""
		}
	}
	if r.Clock != nil {
		out.Clock, out.TicksPerCycle = r.Clock.Name, r.Clock.TicksPerCycle
	}
	if r.Init.Name != "" {
		out.Registers = map[string]string{
			"fs_base": hexadecimal(r.Init.FSBase), "gs_base": hexadecimal(r.Init.GSBase), "fill": hexadecimal(r.Init.Fill),
			"mxcsr": hexadecimal(uint64(r.Init.MXCSR)),
		}
		if masks := r.Init.Opmasks; len(slices.Compact(masks[:])) == 1 {
			out.Registers["opmask"] = hexadecimal(masks[0])
		}
		for k, mask := range r.Init.Opmasks {
			if _, equal := out.Registers["opmask"]; !equal {
				out.Registers[fmt.Sprintf("k%d", k)] = hexadecimal(mask)
			}
		}
		for _, v := range r.Init.Vectors {
			out.Registers[v.Name()] = v.Value()
		}
		if r.Init.Flags != 0 {
			out.Registers["flags"] = hexadecimal(r.Init.Flags)
		}
		for i, v := range r.Init.GPR {
			out.Registers[asm.Reg(i).String()] = hexadecimal(v)
		}
	}
	return json.Marshal(out)
}

func hexadecimal(v uint64) string { return fmt.Sprintf("%#x", v) }
