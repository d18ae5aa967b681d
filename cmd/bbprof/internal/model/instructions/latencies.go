package instructions

import "strings"

// Latencies are the chains of a row, by pair: "2 to 1" is from the second operand to the first, "address to 1" of a load,
// "2 to m" of a store and the load of what it wrote. Of pairs with several values the longest counts.
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
			list[pair] = min(list[pair], max(0, m.Cycles())) // renaming does away with it
			continue
		}
		list[pair] = max(list[pair], m.Cycles())
	}
	return list
}
