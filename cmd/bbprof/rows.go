package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// each is what next gives until io.EOF. After an error nothing follows.
func each[T any](next func() (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			v, err := next()
			if errors.Is(err, io.EOF) || !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// cellsByName are the rows of a result, each as the cell of a column by its name, "" where there is no such column.
func cellsByName(in resultfile.Reader) iter.Seq2[func(string) string, error] {
	at := map[string]int{}
	for i, name := range slices.Backward(in.Schema().Names()) { // of two columns with one name the first counts
		at[name] = i
	}
	return func(yield func(func(string) string, error) bool) {
		for cells, err := range each(in.Next) {
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

// jsonLines writes an object on a line for each of some values.
func jsonLines[T any](w io.Writer, values []T) error {
	e := json.NewEncoder(w)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// byCount are what is counted, the most frequent first.
func byCount[K cmp.Ordered](n map[K]int) []K {
	return slices.SortedFunc(maps.Keys(n), func(a, b K) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
}

// frequent is byCount with the counts.
func frequent[K cmp.Ordered](n map[K]int) (list []string) {
	for _, k := range byCount(n) {
		list = append(list, fmt.Sprintf("%v %d", k, n[k]))
	}
	return list
}
