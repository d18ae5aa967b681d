package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

type Table struct {
	sides string // alignment of each column, l or r; the last letter applies to all further columns
	rows  [][]string
	notes map[int]string // unaligned text below a row, from the second column on
}

func NewTable(sides string, header ...string) *Table {
	return &Table{sides: sides, rows: [][]string{header}, notes: map[int]string{}}
}

// Row adds a row. Missing cells at its end are empty.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *Table) Note(text string) { t.notes[len(t.rows)-1] = text }

func (t *Table) String() string {
	var widths []int
	for _, cells := range t.rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var w strings.Builder
	for r, cells := range t.rows {
		var line strings.Builder
		for i, cell := range cells {
			if i > 0 {
				line.WriteString("  ")
			}
			format := "%-*s"
			if t.sides[min(i, len(t.sides)-1)] == 'r' {
				format = "%*s"
			}
			fmt.Fprintf(&line, format, widths[i], cell)
		}
		w.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if note, ok := t.notes[r]; ok {
			w.WriteString(strings.Repeat(" ", widths[0]+2) + note + "\n")
		}
	}
	return w.String()
}

func JSONLines[T any](w io.Writer, values []T) error {
	e := json.NewEncoder(w)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
