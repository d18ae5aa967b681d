package profiler

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
)

// MarshalJSON writes a result with the keys of a corpus's columns where there is one: init and clock are
// names there, so registers and calibration have keys of their own. Addresses and register values are
// hexadecimal text, because 64 bits do not fit the numbers of most readers of JSON.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result // without this method
	out := struct {
		plain
		Init           string            `json:"init"`
		Set            string            `json:"set,omitempty"`
		Registers      map[string]string `json:"registers,omitempty"`
		Clock          string            `json:"clock,omitempty"`
		TicksPerCycle  float64           `json:"ticks_per_cycle,omitzero"`
		Calibration    *ClockReport      `json:"calibration,omitempty"`
		WindowsDropped int               `json:"windows_dropped"`
	}{plain: plain(r), Init: r.Init.Name, Set: r.Init.Set, Calibration: r.Clock, WindowsDropped: r.WindowsSwitched + r.WindowsUnsteady + r.WindowsDrifted}
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
