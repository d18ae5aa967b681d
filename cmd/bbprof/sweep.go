package main

import (
	"maps"
	"slices"
	"strings"
)

// A sweep varies one factor. Its flag names it, and picks the command that takes all flags.
func sweeps() map[string]func(args []string, std streams) int {
	return map[string]func([]string, streams) int{"env": sweepEnv}
}

// sweep varies one factor and holds all others: bbprof sweep.
func sweep(args []string, std streams) int {
	own, _ := behindDashes(args)
	var chosen []string
	for _, a := range own {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if _, ok := sweeps()[name]; ok && strings.HasPrefix(a, "-") && !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	switch len(chosen) {
	case 1:
		return sweeps()[chosen[0]](args, std)
	case 0:
		if slices.ContainsFunc(own, func(a string) bool { return strings.Trim(a, "-") == "h" || strings.Trim(a, "-") == "help" }) {
			return sweepEnv(args, std) // prints the help
		}
		return usageError(std, "sweep: no factor to vary: give -%s (bbprof sweep -h tells more)", strings.Join(slices.Sorted(maps.Keys(sweeps())), " or -"))
	}
	return usageError(std, "sweep: -%s are several factors: vary one at a time", strings.Join(chosen, " and -"))
}
