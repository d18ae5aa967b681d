package bounds

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
)

// conclude names what bounds the block. A chain binds if cutting it saves time, a class if it has no room although
// slots are free, the front end if no slot is free.
func (a *Answer) conclude() {
	cycles := a.Base.Cycles
	var says []string
	add := func(k Kind, text string) {
		if !slices.Contains(a.Bounds, k) {
			a.Bounds = append(a.Bounds, k)
		}
		says = append(says, text)
	}
	var binding []string
	for i := range a.Chains {
		if c := &a.Chains[i]; c.Binds {
			binding = append(binding, c.Text)
			add(c.kind(), fmt.Sprintf("a carried chain of %.1f cycles: %s", cycles, c.Text))
		}
	}
	if len(binding) > 2 {
		says = []string{fmt.Sprintf("%d carried chains of %.1f cycles, such as %s", len(binding), cycles, binding[0])}
	}
	addFull := func(share float64) bool {
		full := a.full(share)
		if len(full) > 0 {
			add(Class, "the units for "+words.List(full, "and"))
		}
		return len(full) > 0
	}
	addFrontEnd := func(share float64) {
		if front, known := a.freeSlots(); known && front.Share < share {
			add(FrontEnd, fmt.Sprintf("the front end at %.2f instructions a cycle", a.FrontEnd.Slots))
		}
	}
	addFull(saturated)
	addFrontEnd(saturated)
	// as long as the time: cutting one alone saves nothing because another bound remains
	hidden, kind := a.hidden(cycles), Chain
	if len(hidden) == 1 && len(a.Bounds) == 0 {
		hidden = nil
	}
	for _, c := range hidden {
		c.AsLong, kind = true, c.kind()
	}
	switch len(hidden) {
	case 0:
	case 1:
		add(kind, "a carried chain of as many cycles: "+hidden[0].Text)
	default:
		add(kind, fmt.Sprintf("%d carried chains of as many cycles, such as %s", len(hidden), hidden[0].Text))
	}
	if b := a.Base.Branch; b != nil && b.As == profiler.Taken && cycles <= 1+stat.EffectShare {
		add(Branches, "one taken branch a cycle")
	}
	if len(a.Bounds) == 0 && !addFull(nearly) {
		addFrontEnd(nearly)
	}
	if len(a.Bounds) == 0 {
		a.Bounds = []Kind{None}
		says = []string{"no chain, class of units or front end that bbprof can tell"}
	}
	a.Bound = a.Bounds[0]
	a.Sentence = "bound by " + strings.Join(says, "; and by ") + a.free()
}

func (a *Answer) hidden(cycles float64) (list []*ChainReport) {
	for i := range a.Chains {
		if c := &a.Chains[i]; !c.Binds && c.Documented > 0 && math.Abs(c.Documented-cycles) <= stat.EffectShare*cycles {
			list = append(list, c)
		}
	}
	return list
}

func (c *ChainReport) kind() Kind {
	if c.Memory {
		return Memory
	}
	return Chain
}

// nearly is the share below which a class counts as full if nothing else bounds the block: no scheduler fills all units
// all the time.
const nearly = 0.12

// mostSlope is more cycles than an access keeps a unit for: a probe that costs more breaks what the block's own accesses forward, such as a store
// to a word that the core renames (18 on Golden Cove).
const mostSlope = 10

// full returns the classes with less than share free. Without free slots no work is free; a class that is also full
// then makes time grow faster than slots do.
func (a *Answer) full(share float64) (names []string) {
	front, frontKnown := a.freeSlots()
	for _, s := range a.Slack {
		switch {
		case s.Untested != "" || isFrontEnd(s.Class) || s.Share >= share:
		case frontKnown && front.Share < share && s.Slope <= 1.5*front.Slope:
		case (s.Class == loadAgain || s.Class == storeAgain) && s.Slope > mostSlope:
		case s.Class == loadAgain && !slices.Contains(names, "load"):
			names = append(names, "loads of one word")
		case s.Class == storeAgain && !slices.Contains(names, "store"):
			names = append(names, "stores to one word")
		case s.Class != loadAgain && s.Class != storeAgain:
			names = append(names, s.Class)
		}
	}
	return names
}

func isFrontEnd(class string) bool {
	return slices.ContainsFunc(frontEnd, func(p probe) bool { return p.name == class })
}

// freeSlots returns the slots' slack: the least room that a probe of slots found, and the highest cost.
func (a *Answer) freeSlots() (least Slack, known bool) {
	for _, p := range slots {
		s := a.slackOf(p.name)
		switch {
		case s == nil:
		case !known:
			least, known = *s, true
		default:
			least.Share, least.FreeLow, least.Slope = min(least.Share, s.Share), min(least.FreeLow, s.FreeLow), max(least.Slope, s.Slope)
		}
	}
	return least, known
}

func (a *Answer) slackOf(class string) *Slack {
	for i := range a.Slack {
		if a.Slack[i].Class == class && a.Slack[i].Untested == "" {
			return &a.Slack[i]
		}
	}
	return nil
}

func (a *Answer) free() string {
	var parts []string
	if s, known := a.freeSlots(); known {
		parts = append(parts, fmt.Sprintf("%.0f %% of all slots", 100*s.Share))
	}
	for _, class := range []string{"integer", "load", "store", "vector add"} {
		if s := a.slackOf(class); s != nil {
			parts = append(parts, fmt.Sprintf("%.0f %% of %s slots", 100*s.Share, class))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; free are " + strings.Join(parts, ", ")
}
