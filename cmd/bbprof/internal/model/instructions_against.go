package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/tables"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// readNumbers reads a table of instructions: bbprof's, one with its first columns, a text of InstLatx64, or uops.info's
// XML, as FILE#CORE where that has several.
func readNumbers(name string) (t tables.Table, err error) {
	foreign, t, err := tables.ReadForeign(name)
	if !foreign && err == nil {
		columns, rows, failed := modelflags.OpenTable(name)
		if failed != nil {
			return t, failed
		}
		if len(columns) == 0 {
			return t, fmt.Errorf("%s: %w", name, resultfile.ErrEmpty)
		}
		t, err = tables.Read(columns, rows)
	}
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	t.Name = name
	return t, nil
}

// numbersOf returns the table about to be written.
func numbersOf(rows []instructions.Row) (tables.Table, error) {
	columns, _ := instructionCells(new(instructions.Row))
	return tables.Read(columns.Names(), func(yield func([]string, error) bool) {
		for i := range rows {
			if _, cells := instructionCells(&rows[i]); !yield(cells, nil) {
				return
			}
		}
	})
}

// agreements says how far a table agrees with each other one.
func agreements(here tables.Table, others []tables.Table) string {
	var b strings.Builder
	for _, there := range others {
		if len(others) > 1 {
			fmt.Fprintf(&b, "Against %s\n\n", there.Name)
		}
		writeAgreement(&b, there, tables.Compare(here, there))
	}
	return b.String()
}

func writeAgreement(b *strings.Builder, there tables.Table, a tables.Agreement) {
	if a.Scale != 1 {
		fmt.Fprintf(b, "Numbers of %s are multiplied by %.4f, the median ratio of the latencies.\n\n", there.Name, a.Scale)
	}
	t := cli.NewTable("lr", "", "compared", "within 2 %", "within 5 %", "within 10 %")
	row := func(what string, of tables.Tally) {
		share := func(n int) string {
			if of.Compared == 0 {
				return "–"
			}
			return score.Number(float64(n)/float64(of.Compared)).Percent() + " %"
		}
		t.Row(what, strconv.Itoa(of.Compared), share(of.Within2), share(of.Within5), share(of.Within10))
	}
	row("latency", a.Latencies)
	row("throughput", a.Throughputs)
	b.WriteString(t.String())
	if n := a.Throughputs.Varying; n > 0 {
		fmt.Fprintf(b, "\nOf the throughputs that differ by more than 2 %%, %d vary in a table, "+
			"with an interval that meets the other table's: counting these, %s %% agree.\n",
			n, score.Number(float64(a.Throughputs.Within2+n)/float64(a.Throughputs.Compared)).Percent())
	}
	if a.Means > 0 {
		fmt.Fprintf(b, "\nNot compared: %s.\n", words.Plural(a.Means, "mean"))
	}
	for _, kind := range a.Kinds() {
		fmt.Fprintf(b, "\n%s, about %.2f here and %.2f there: %s\n", kind[0].What, kind[0].Here, kind[0].There, words.Plural(len(kind), "form"))
		for _, d := range kind {
			fmt.Fprintf(b, "  %8.2f %8.2f  %s\n", d.Here, d.There, d.Form)
		}
	}
	if len(there.Unmatched) > 0 {
		fmt.Fprintf(b, "\nThese names match no form:\n  %s\n", strings.Join(there.Unmatched, "\n  "))
	}
}
