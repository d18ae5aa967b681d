package resultfile

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Each is what next gives until io.EOF. After an error nothing follows.
func Each[T any](next func() (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			v, err := next()
			if errors.Is(err, io.EOF) || !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Cells are the rows of a result, each as the cell of a column by its name, "" where there is no such column. The
// name "" is of none, though a column may have no name.
func Cells(in Reader) iter.Seq2[func(string) string, error] {
	at := map[string]int{}
	for i, name := range slices.Backward(in.Schema().Names()) { // of two columns with one name the first counts
		at[name] = i
	}
	delete(at, "")
	return func(yield func(func(string) string, error) bool) {
		for cells, err := range Each(in.Next) {
			cell := func(name string) string {
				if i, ok := at[name]; ok {
					return cells[i]
				}
				return ""
			}
			if !yield(cell, err) {
				return
			}
		}
	}
}

// ErrEmpty is of a file without so much as a line of columns.
var ErrEmpty = errors.New("it is empty, or ends within its first line")

// Require fails where a column is missing. The name "" is of none.
func (s Schema) Require(columns ...string) error {
	if s == nil {
		return ErrEmpty
	}
	for _, name := range columns {
		if name != "" && s.Index(name) < 0 {
			return fmt.Errorf("it has no column %s; it has %.300s", name, strings.Join(s.Names(), ", "))
		}
	}
	return nil
}

// Weight reads a cell of weights, such as how often a block runs; 0 if it is empty.
func Weight(cell string) (float64, error) {
	if cell == "" {
		return 0, nil
	}
	weight, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	if err != nil || !(weight >= 0) || math.IsInf(weight, 0) {
		return 0, fmt.Errorf("invalid weight %q: want a number from 0 on", cell)
	}
	return weight, nil
}
