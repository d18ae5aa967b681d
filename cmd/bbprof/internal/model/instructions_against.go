package model

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/predicting"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// readNumbers reads a table of instructions: bbprof's, one with its first columns, a text of InstLatx64, or uops.info's XML, as
// FILE#CORE where that has several.
func readNumbers(name string) (t instructions.Table, err error) {
	if is, t, err := readUopsInfo(name); is {
		return t, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return t, err
	}
	if instructions.IsInstLat(string(text)) {
		return instructions.ReadInstLat(string(text)), nil
	}
	rows, err := predicting.OpenTable(name)
	if err != nil {
		return t, err
	}
	defer rows.Close()
	if len(rows.Columns()) == 0 {
		return t, fmt.Errorf("%s: %w", name, resultfile.ErrEmpty)
	}
	t, err = instructions.ReadTable(rows.Columns(), func() ([]string, bool, error) {
		cells, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return nil, false, nil
		}
		return cells, err == nil, err
	})
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// readUopsInfo reads a file of uops.info; is reports whether it is one.
func readUopsInfo(name string) (is bool, t instructions.Table, err error) {
	file, core, _ := strings.Cut(name, "#")
	f, err := os.Open(file)
	if err != nil {
		return false, t, nil
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if start, _ := in.Peek(512); !instructions.IsUopsInfo(start) {
		return false, t, nil
	}
	if t, err = instructions.ReadUopsInfo(in, core); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return true, t, err
}

// numbersOf returns the table about to be written.
func numbersOf(rows []instructions.Row) instructions.Table {
	var columns []string
	for _, c := range instructionColumns {
		columns = append(columns, c.Name)
	}
	next := 0
	t, _ := instructions.ReadTable(columns, func() ([]string, bool, error) { // all columns exist
		if next == len(rows) {
			return nil, false, nil
		}
		next++
		return instructionCells(&rows[next-1]), true, nil
	})
	return t
}

// writeAgreements writes how far a table agrees with each other one.
func writeAgreements(w io.Writer, here instructions.Table, names []string, others []instructions.Table) error {
	for i, there := range others {
		if len(others) > 1 {
			if _, err := fmt.Fprintf(w, "Against %s\n\n", names[i]); err != nil {
				return err
			}
		}
		if err := writeAgreement(w, names[i], there, instructions.Compare(here, there)); err != nil {
			return err
		}
	}
	return nil
}

func writeAgreement(w io.Writer, name string, there instructions.Table, a instructions.Agreement) error {
	var b strings.Builder
	if a.Scale != 1 {
		fmt.Fprintf(&b, "Numbers of %s are multiplied by %.4f, the median ratio of the latencies.\n\n", name, a.Scale)
	}
	t := cli.NewTable("lr", "", "compared", "within 2 %", "within 5 %", "within 10 %")
	row := func(what string, of instructions.Tally) {
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
		fmt.Fprintf(&b, "\nOf the throughputs that differ by more than 2 %%, %d vary in a table, with an interval that meets the other table's: counting these, %s %% agree.\n",
			n, score.Number(float64(a.Throughputs.Within2+n)/float64(a.Throughputs.Compared)).Percent())
	}
	if a.Means > 0 {
		fmt.Fprintf(&b, "\nNot compared: %s.\n", words.Plural(a.Means, "mean"))
	}
	for _, kind := range a.Kinds() {
		fmt.Fprintf(&b, "\n%s, about %.2f here and %.2f there: %s\n", kind[0].What, kind[0].Here, kind[0].There, words.Plural(len(kind), "form"))
		for _, d := range kind {
			fmt.Fprintf(&b, "  %8.2f %8.2f  %s\n", d.Here, d.There, d.Form)
		}
	}
	if len(there.Unmatched) > 0 {
		fmt.Fprintf(&b, "\nThese names match no form:\n  %s\n", strings.Join(there.Unmatched, "\n  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
