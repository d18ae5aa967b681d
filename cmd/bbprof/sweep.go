package main

import (
	"maps"
	"slices"
	"strings"
)

const usageSweep = usageSweepBlock + `
For a whole program instead of a block:

  bbprof sweep -env FROM:TO[:STEP] [flags] -- PROGRAM [ARG...]   (bbprof sweep -env -h)
`

// A sweep varies one factor. Its flag names it, and picks the command that takes all flags.
func sweeps() map[string]func(args []string, std streams) int {
	all := map[string]func([]string, streams) int{"env": sweepEnv}
	for name := range blockFactors() {
		all[name] = sweepBlock
	}
	return all
}

// sweep varies one factor and holds all others: bbprof sweep.
func sweep(args []string, std streams) int {
	own, _ := behindDashes(args)
	asksHelp := func(a string) bool { return strings.Trim(a, "-") == "h" || strings.Trim(a, "-") == "help" }
	var chosen []string
	for _, a := range own {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if _, ok := sweeps()[name]; ok && strings.HasPrefix(a, "-") && !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	switch {
	case len(chosen) == 1 && slices.Equal(chosen, []string{"env"}) && slices.ContainsFunc(own, asksHelp):
		return sweepEnv([]string{"-h"}, std)
	case len(chosen) == 1:
		return sweeps()[chosen[0]](args, std)
	case len(chosen) == 0 && slices.ContainsFunc(own, asksHelp):
		return sweepBlock([]string{"-h"}, std)
	case len(chosen) == 0:
		return usageError(std, "sweep: no factor to vary: give one of -%s (bbprof sweep -h tells more)", strings.Join(slices.Sorted(maps.Keys(sweeps())), ", -"))
	}
	return usageError(std, "sweep: -%s are several factors: vary one at a time", strings.Join(chosen, " and -"))
}
