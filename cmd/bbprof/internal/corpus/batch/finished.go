package batch

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// Finished checks a complete result, which has no journal any more, against the run that would resume it.
// unchecked lists what it cannot check, because the format or the chosen columns omit it; busy counts rows of a busy core.
func Finished(path string, format resultfile.Format, schema resultfile.Schema, in *input.Input, shard Shard,
	here resultfile.Run) (busy int, unchecked []string, err error) {
	if !format.Whole() {
		return 0, []string{fmt.Sprintf("CPU, settings and input were not checked: format %s does not hold them", format)}, nil
	}
	r, err := resultfile.OpenRows(path, nil)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	done := marks{}
	for row, err := range r.All() {
		if err != nil {
			return 0, nil, err
		}
		if n := number(row.Cell("row")); n > 0 {
			done[n] = newMark(row.Cell("hex"), -1)
		}
	}
	if err := cmp.Or(sameRuns(&r.Runs, here), sameColumns(r.Schema, schema)); err != nil {
		return 0, nil, r.Error(err)
	}
	if r.Runs.None() {
		unchecked = append(unchecked, "CPU and settings were not checked: no row names its run (columns run and run_header)")
	}
	if r.Schema.Require("row", "hex") != nil {
		return r.Busy, append(unchecked, "the input was not checked: it lacks column row or hex"), nil
	}
	var last inputRow
	(&filter{in: in, done: done, shard: shard}).all(func(f inputRow) bool { last = f; return false })
	switch {
	case last.err == nil:
		return 0, nil, r.Error(&MismatchError{fmt.Errorf("%s, line %d: the result is complete and has no row %d", last.row.File, last.row.Line, last.row.Number)})
	case errors.Is(last.err, io.EOF):
		return r.Busy, unchecked, nil
	}
	return 0, nil, r.Error(last.err)
}
