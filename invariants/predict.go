package invariants

import (
	"encoding/json"
	"slices"
)

// Prediction is predicted from addresses alone for an iteration at steady state, to compare with cycles. Nothing in
// it is counted.
type Prediction struct {
	Loads  float64 `json:"loads"` // per iteration, like all counts here
	Stores float64 `json:"stores"`
	// Splits are accesses that cross a 64-byte line, PageSplits those that cross a page.
	Splits     float64 `json:"splits"`
	PageSplits float64 `json:"page_splits"`
	// Alias4K are loads that overlap a store of the store buffer in the low 12 bits of the address alone.
	Alias4K float64 `json:"alias_4k"`
	// AliasStores is the distance of the nearest such store, in stores, 1 for the last one; 0 if there is none.
	AliasStores int `json:"alias_stores_back"`
	// Forwarded are loads that overlap a store of the store buffer in the whole address, and wait for it.
	Forwarded float64 `json:"forwarded"`
	// Blocked are those of them whose youngest store does not hold all of their bytes: it cannot be forwarded.
	Blocked float64 `json:"blocked"`
	// Forwards lists the pairs of load and store of the last iteration.
	Forwards []Forward `json:"forwards,omitempty"`
	// AliasFrame are accesses to a line of a frame through another page than the previous access to that line.
	AliasFrame float64 `json:"alias_frame"`
	// L1DMisses and L1IMisses are the misses of caches with LRU replacement.
	L1DMisses float64 `json:"l1d_misses"`
	L1IMisses float64 `json:"l1i_misses"`
	// RunL1IMisses are the L1I misses of a whole run of the longer image. They are proportional to its copies only if
	// the shorter image exceeds the cache too.
	RunL1IMisses float64 `json:"run_l1i_misses"`
}

// Forward is a load that waits for a store; instructions are numbered from 0.
type Forward struct {
	Store  int
	Load   int
	Mem    int // which of the load's Mem
	Copies int // iterations from the store's to the load's
	// Partial says that the store does not hold all bytes of the load.
	Partial bool
}

// MarshalJSON counts instructions from 1, as a report does.
func (f Forward) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Store  int `json:"store"`
		Load   int `json:"load"`
		Copies int `json:"iterations"`
		// Partial is left out where a load can be served.
		Partial bool `json:"blocked,omitempty"`
	}{f.Store + 1, f.Load + 1, f.Copies, f.Partial})
}

// Predict makes a prediction from a trace. Values per iteration are means over the second half of the copies: in the
// first half a block may settle.
func Predict(t Trace, core Core) Prediction {
	var p Prediction
	if t.Copies == 0 {
		return p
	}
	from := t.Copies / 2
	per := float64(t.Copies - from)
	recent := stores{room: core.StoreBuffer}
	lastPage := map[frameLine]uint64{}
	for _, a := range t.Accesses {
		count := func(n *float64, is bool) {
			if is && a.Copy >= from {
				*n++
			}
		}
		if a.Read {
			back := recent.feeds(&a)
			if count(&p.Forwarded, back > 0); back > 0 {
				store := recent.back(back)
				partial := a.Addr < store.Addr || a.Addr+uint64(a.Width) > store.Addr+uint64(store.Width)
				if count(&p.Blocked, partial); a.Copy == t.Copies-1 {
					p.Forwards = append(p.Forwards, Forward{store.Inst, a.Inst, a.Mem, a.Copy - store.Copy, partial})
				}
			}
			back = recent.aliases(t, &a)
			count(&p.Alias4K, back > 0)
			if back > 0 && a.Copy >= from && (p.AliasStores == 0 || back < p.AliasStores) {
				p.AliasStores = back
			}
		}
		if a.Write {
			recent.add(a)
		}
		count(&p.Loads, a.Read)
		count(&p.Stores, a.Write)
		count(&p.Splits, splits(a))
		count(&p.PageSplits, a.Width > 0 && a.Addr&^within != (a.Addr+uint64(a.Width)-1)&^within)
		shared := false
		for addr := a.Addr &^ (line - 1); addr < a.Addr+uint64(a.Width); addr += line {
			key := frameLine{t.frame(addr), addr & within / line}
			before, ok := lastPage[key]
			shared = shared || ok && before != addr&^within
			lastPage[key] = addr &^ within
		}
		count(&p.AliasFrame, shared)
	}
	for _, n := range []*float64{&p.Loads, &p.Stores, &p.Splits, &p.PageSplits, &p.Alias4K, &p.Forwarded, &p.Blocked, &p.AliasFrame} {
		*n /= per
	}
	p.L1DMisses = l1dMisses(t, core) / float64(t.Copies)
	return p
}

// frameLine is a line of physical memory.
type frameLine struct {
	frame int
	line  uint64
}

// l1dMisses are the misses of the traced copies in a repeated run.
func l1dMisses(t Trace, core Core) float64 {
	var sets [page / line][]int // frames of the lines of a set, the most recent at the end
	misses := 0
	for run := range 2 {
		for _, a := range t.Accesses {
			for addr := a.Addr &^ (line - 1); addr < a.Addr+uint64(a.Width); addr += line {
				set, frame := &sets[addr&within/line], t.frame(addr)
				if i := slices.Index(*set, frame); i >= 0 {
					*set = slices.Delete(*set, i, i+1)
				} else {
					misses += run // those of the first run fill the cache
					if len(*set) == core.L1DWays {
						*set = slices.Delete(*set, 0, 1)
					}
				}
				*set = append(*set, frame)
			}
		}
	}
	return float64(misses)
}
