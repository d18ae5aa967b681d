package score

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

type Grouping struct {
	Name   string
	Groups []Group
}

// groupings divides blocks by the properties that figures are given by.
func groupings(blocks []Block) (all []Grouping) {
	for _, g := range []struct {
		name  string
		of    func(*Block) string
		scale []step
	}{
		{"category", func(b *Block) string { return b.Category }, nil},
		{"bound", func(b *Block) string { return b.Bound }, nil},
		{"length", func(b *Block) string { return bin(float64(b.Instructions), lengths) }, lengths},
		{"cycles", func(b *Block) string { return bin(b.Cycles, cycles) }, cycles},
		{"application", func(b *Block) string { return b.Application }, nil},
	} {
		all = append(all, Grouping{g.name, split(blocks, g.of, g.scale)})
	}
	return all
}

// A step is one range of a scale; it ends below a limit.
type step struct {
	below float64
	name  string
}

const most = 1e300

var (
	lengths = []step{{2, "1 instruction"}, {4, "2–3"}, {7, "4–6"}, {11, "7–10"}, {21, "11–20"}, {most, "21 and more"}}
	cycles  = []step{{0.5, "below 0.5"}, {1, "0.5–1"}, {2, "1–2"}, {4, "2–4"}, {8, "4–8"}, {16, "8–16"}, {most, "16 and more"}}
)

func bin(v float64, scale []step) string {
	i := slices.IndexFunc(scale, func(s step) bool { return v < s.below })
	return scale[max(i, 0)].name
}

// maxGroups limits the groups of a property; the smallest are merged.
const maxGroups = 30

const others = "(others)"

type Group struct {
	Name   string
	Blocks []int
}

// split groups blocks: scales in their order, other properties by size.
func split(blocks []Block, of func(*Block) string, scale []step) (groups []Group) {
	by := map[string][]int{}
	for i := range blocks {
		if name := of(&blocks[i]); name != "" {
			by[name] = append(by[name], i)
		}
	}
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		at := func(name string) int { return slices.IndexFunc(scale, func(s step) bool { return s.name == name }) }
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(len(by[b]), len(by[a])), strings.Compare(a, b))
	})
	if len(names) > maxGroups {
		for _, name := range names[maxGroups-1:] {
			by[others] = append(by[others], by[name]...)
		}
		names = append(names[:maxGroups-1], others)
	}
	for _, name := range names {
		groups = append(groups, Group{name, by[name]})
	}
	return groups
}
