package instructions

import "strings"

// Latencies returns a row's chains by pair: "2 to 1" is from the second operand to the first, "address to 1" a load, "2
// to m" a store and a load of it. Of several values the longest counts.
func Latencies(r *Row) map[string]float64 {
	list := map[string]float64{}
	for i := range r.All {
		m := &r.All[i]
		if !m.ok() || m.Kind != Latency && m.Kind != LoadLatency && m.Kind != StoreToLoad {
			continue
		}
		pair, _, _ := strings.Cut(m.Pair, ",")
		if strings.HasSuffix(pair, " of another register") {
			pair = strings.TrimSuffix(pair, " of another register")
			list[pair] = min(list[pair], max(0, m.Cycles())) // renaming eliminates it
			continue
		}
		list[pair] = max(list[pair], m.Cycles())
	}
	return list
}
