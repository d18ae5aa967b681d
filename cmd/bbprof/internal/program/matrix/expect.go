package matrix

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
)

type Row struct {
	Build
	Function     string `json:"function"`
	Growth       Order  `json:"growth"`
	Size         int    `json:"size"` // the largest
	Instructions uint64 `json:"instructions"`
}

type Outcome string

const (
	AsExpected Outcome = "as expected"
	Better     Outcome = "better"
	Lost       Outcome = "lost" // grows faster, or has more instructions at the same size
	New        Outcome = "new"  // no expectation
)

var header = []string{"compiler", "level", "function", "growth", "size", "instructions"}

func Expectation(function string, sizes []int, cells []Cell) (rows []Row) {
	last := len(sizes) - 1
	for _, c := range cells {
		rows = append(rows, Row{c.Build, function, c.Growth, sizes[last], c.Instructions[last]})
	}
	return rows
}

// Merge replaces rows about the same function and build, and adds the others.
func Merge(old, rows []Row) []Row {
	merged := slices.Clone(old)
	for _, r := range rows {
		if i := index(merged, r.Function, r.Build); i >= 0 {
			merged[i] = r
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

func index(rows []Row, function string, b Build) int {
	return slices.IndexFunc(rows, func(r Row) bool { return r.Function == function && r.Build == b })
}

// Compare compares cells with an expectation, and counts the lost ones. A count may exceed the expected one by the
// factor ratio.
func Compare(function string, sizes []int, cells []Cell, rows []Row, ratio float64) (lost int) {
	last := len(sizes) - 1
	for i := range cells {
		c := &cells[i]
		at := index(rows, function, c.Build)
		if at < 0 {
			c.Outcome = New
			continue
		}
		c.Expected = &rows[at]
		e, n := rows[at], float64(c.Instructions[last])
		same := e.Size == sizes[last]
		switch {
		case c.Growth.faster(e.Growth), same && n > ratio*float64(e.Instructions):
			c.Outcome = Lost
			lost++
		case e.Growth.faster(c.Growth), same && n*ratio < float64(e.Instructions):
			c.Outcome = Better
		default:
			c.Outcome = AsExpected
		}
	}
	return lost
}

func Read(in io.Reader) ([]Row, error) {
	r := csv.NewReader(in)
	r.FieldsPerRecord = len(header)
	records, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || !slices.Equal(records[0], header) {
		return nil, fmt.Errorf("line 1: the columns have to be %v", header)
	}
	var rows []Row
	for i, f := range records[1:] {
		size, err1 := strconv.Atoi(f[4])
		n, err2 := strconv.ParseUint(f[5], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("row %d: %q and %q have to be whole numbers", i+1, f[4], f[5])
		}
		if rank(Order(f[3])) < 0 {
			return nil, fmt.Errorf("row %d: %q is not an order of growth; it is one of constant, log n, n, n log n, n^2, other", i+1, f[3])
		}
		rows = append(rows, Row{Build{f[0], f[1]}, f[2], Order(f[3]), size, n})
	}
	return rows, nil
}

func Write(out io.Writer, rows []Row) error {
	w := csv.NewWriter(out)
	w.Write(header) // errors are kept for Error
	for _, r := range rows {
		w.Write([]string{r.Compiler, r.Level, r.Function, string(r.Growth), strconv.Itoa(r.Size), strconv.FormatUint(r.Instructions, 10)})
	}
	w.Flush()
	return w.Error()
}
