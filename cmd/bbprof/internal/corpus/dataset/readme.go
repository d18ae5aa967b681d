package dataset

import (
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/profiler"
)

func (s *Sheet) readme() string {
	var w strings.Builder
	fmt.Fprintf(&w, "# Cycles of basic blocks on %s\n\n", s.Hosts[0].Microarchitecture)
	fmt.Fprintf(&w, "%s, of which %d were measured and the others rejected with a reason, on %s.\n", words.Plural(s.Counts.Rows, "x86-64 basic block"),
		s.Counts.Status[string(profiler.OK)], strings.TrimSpace(s.Hosts[0].Brand))
	fmt.Fprintf(&w, "Times are %s, at steady state, with all data in L1: `cycles`, and the 95 %% interval from "+
		"`ci_low` to `ci_high`. `hex` is the block's bytes.\n", cyclesUnit)
	fmt.Fprintf(&w, "Sealed %s with bbprof %s.\n\n## Files\n\n| file | content |\n|---|---|\n", s.Made, s.Sealed)
	for _, row := range [][2]string{
		{Train + ".csv`, `" + Validation + ".csv`, `" + Test + ".csv", "the measured blocks of each split, with a " +
			"header. `tokens` are the instructions of a block, separated by `;`, each as text, form, what it reads and " +
			"what it writes, separated by vertical bars. Half of `ci_high` − `ci_low` is the uncertainty; where " +
			"`speeds` is above 1, `cycles` is a mean over layouts"},
		{"microarchitecture=…/part=…/rows.parquet", "all rows with all columns, the rejected ones too; unknown is null"},
		{BHiveFile, "`hex,cycles of 100 iterations` of measured blocks, without a header, as in BHive's files"},
		{CategoriesFile, "`hex,category`, without a header"},
		{WeightsFile, "`hex," + s.WeightColumn + "`, without a header"},
		{SheetFile, "hosts, settings, counts, hashes and columns, for programs"},
		{SumsFile, "hashes: `sha256sum -c " + SumsFile + "`; `bbprof dataset -verify .` checks more"},
	} {
		if row[0] != WeightsFile || s.WeightColumn != "" {
			fmt.Fprintf(&w, "| `%s` | %s |\n", row[0], row[1])
		}
	}
	w.WriteString("\n## Split\n\n")
	if s.Applications != nil {
		fmt.Fprintf(&w, "All blocks of an application (column `%s`) are in one split. ", s.ApplicationColumn)
	}
	w.WriteString("Blocks that differ in registers, immediates and displacements alone are in one split, or `left_out`.\n")
	for _, split := range []string{Train, Validation, Test, LeftOut} {
		fmt.Fprintf(&w, "- %s: %s\n", split, words.Plural(s.Counts.Splits[split], "block"))
	}
	if s.Uneven != "" {
		fmt.Fprintf(&w, "\nNote: %s.\n", s.Uneven)
	}
	w.WriteString("\n## Columns\n\n| column | type | unit | meaning |\n|---|---|---|---|\n")
	for _, c := range s.Columns {
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", c.Name, c.Type, c.Unit, c.About)
	}
	return w.String()
}
