package main

import (
	"fmt"
	"io"
	"iter"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// distinctBlocks are the blocks of some files, each once.
func distinctBlocks(files []string, stdin io.Reader, column string) (blocks []string, err error) {
	rows, err := distinctRows(files, stdin, column, input.Row.Hex)
	for _, row := range rows {
		blocks = append(blocks, row.Hex())
	}
	return blocks, err
}

// distinctRows are the rows of some files that hold a block, the first of each key.
func distinctRows(files []string, stdin io.Reader, column string, key func(input.Row) string) (rows []input.Row, err error) {
	seen := map[string]bool{}
	for row, err := range rowsOf(files, stdin, column) {
		if err != nil {
			return nil, err
		}
		if row.Rejection != nil || seen[key(row)] {
			continue
		}
		seen[key(row)] = true
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: it holds no block", files[0])
	}
	return rows, nil
}

// openBlocks opens files of blocks, of which the columns address and set hold as they do in a batch.
func openBlocks(files []string, stdin io.Reader, column string) (*input.Input, error) {
	return input.Open(files, stdin, column, []string{input.SetColumn})
}

// rowsOf are the rows of some files of blocks, in their order.
func rowsOf(files []string, stdin io.Reader, column string) iter.Seq2[input.Row, error] {
	return func(yield func(input.Row, error) bool) {
		in, err := openBlocks(files, stdin, column)
		if err != nil {
			yield(input.Row{}, err)
			return
		}
		defer in.Close()
		resultfile.Each(in.Next)(yield)
	}
}
