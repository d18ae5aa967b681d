//go:build !linux

package pmu

// genericNames has none where there is no perf_event_open.
func genericNames() map[string]Attr { return nil }
