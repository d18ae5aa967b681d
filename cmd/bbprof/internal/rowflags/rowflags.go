// Package rowflags opens the block and result files that commands name.
package rowflags

import (
	"cmp"
	"fmt"
	"io"
	"iter"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// DistinctBlocks returns each block of the files once, for callers to which address and registers do not matter: a
// column set may hold anything.
func DistinctBlocks(files []string, stdin io.Reader, column string, notes io.Writer) (blocks []string, err error) {
	rows, err := DistinctRows(files, RowsOf(files, stdin, column, nil), input.Row.Hex, notes)
	for _, row := range rows {
		blocks = append(blocks, row.Hex())
	}
	return blocks, err
}

// DistinctRows returns the first row of each key among those that hold a block. Other rows are noted.
func DistinctRows(files []string, all iter.Seq2[input.Row, error], key func(input.Row) string, notes io.Writer) (rows []input.Row, err error) {
	seen := map[string]bool{}
	why, without := "", 0
	for row, err := range all {
		if err != nil {
			return nil, err
		}
		if row.Rejection != nil {
			why = cmp.Or(why, ": "+row.Rejection.Error())
			without++
			continue
		}
		if seen[key(row)] {
			continue
		}
		seen[key(row)] = true
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: it holds no block%s", files[0], why)
	}
	if without > 0 {
		fmt.Fprintf(notes, "bbprof: left out: %s without a block, the first%s\n", words.Plural(without, "row"), why)
	}
	return rows, nil
}

// measuredBy lists the columns besides the address that say how to measure a row's block, as in a batch.
var measuredBy = []string{input.SetColumn}

// OpenBlocks opens files of blocks to be measured as their columns say, for commands without -column.
func OpenBlocks(files []string, stdin io.Reader) (*input.Input, error) {
	return input.Open(files, stdin, input.NoFlag, measuredBy)
}

// RowsOf iterates over the rows of block files in order; taken is as in input.Open.
func RowsOf(files []string, stdin io.Reader, column string, taken []string) iter.Seq2[input.Row, error] {
	return func(yield func(input.Row, error) bool) {
		in, err := input.Open(files, stdin, column, taken)
		if err != nil {
			yield(input.Row{}, err)
			return
		}
		defer in.Close()
		resultfile.Each(in.Next)(yield)
	}
}
