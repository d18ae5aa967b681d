package pmu

import "encoding/json"

// MarshalJSON leaves out the settings that could not be read.
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
