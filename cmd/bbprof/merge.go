package main

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// mergeResults joins results of one corpus: bbprof merge.
func mergeResults(args []string, std streams) int {
	var (
		f      = newFlags("bbprof merge")
		output = f.String("o", "", "")
		mixed  = f.Bool("mixed", false, "")
		of     []string
		column = f.String("column", "", "")
		format resultfile.Format
	)
	f.Func("of", "", func(s string) error { of = append(of, s); return nil })
	formatFlag(f, &format)
	files, code, done := parse(f, args, usageMerge, std)
	if done {
		return code
	}
	if len(files) == 0 {
		return usageError(std, "merge: no file named; name the parts")
	}
	if err := chooseFormat(&format, *output, std); err != nil {
		return usageError(std, "merge: %v", err)
	}
	total, err := countRows(of, *column)
	if err != nil {
		return usageError(std, "merge: -of: %v", err)
	}
	m, err := batch.OpenMerge(files, *mixed)
	if err != nil {
		return usageError(std, "merge: %v", err)
	}
	defer m.Close()
	signal.Ignore(syscall.SIGPIPE)
	var report batch.MergeReport
	write := func(w io.Writer) error {
		out, err := resultfile.NewWriter(w, format, m.Schema())
		if err != nil {
			return err
		}
		if report, err = m.Run(total, out.Write); err != nil {
			return err
		}
		return out.Close()
	}
	err = writeResults(*output, files, std.out, write)
	var (
		bad   *inputError
		wrong *batch.PartError
	)
	switch {
	case errors.As(err, &bad), errors.As(err, &wrong):
		return usageError(std, "merge: %v", err)
	case err != nil:
		return failure(std, fmt.Errorf("merge: %w", err))
	}
	io.WriteString(std.err, mergeText(report, total > 0))
	if report.Missing > 0 || len(report.Shards) > 0 {
		return exitRejected
	}
	return exitOK
}

// countRows is how many rows a corpus has, 0 of none.
func countRows(files []string, column string) (n int64, err error) {
	if len(files) == 0 {
		return 0, nil
	}
	in, err := input.Open(files, strings.NewReader(""), column, nil)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	for {
		_, err := in.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		n++
	}
}

// mergeText says what was joined and what is not there.
func mergeText(r batch.MergeReport, whole bool) string {
	var w strings.Builder
	fmt.Fprintf(&w, "bbprof: %s joined\n", plural(int(r.Rows), "row"))
	if r.Repeated > 0 {
		fmt.Fprintf(&w, "bbprof: %s stood in more than one part; the first part's was taken\n", plural(int(r.Repeated), "row"))
	}
	if len(r.Shards) > 0 {
		more := ""
		if n := r.Absent - int64(len(r.Shards)); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(&w, "bbprof: no part is of shard %s%s\n", strings.Join(r.Shards, ", "), more)
	}
	if r.Missing > 0 {
		var list []string
		for _, g := range r.Gaps {
			if g[0] == g[1] {
				list = append(list, fmt.Sprint(g[0]))
			} else {
				list = append(list, fmt.Sprintf("%d to %d", g[0], g[1]))
			}
		}
		fmt.Fprintf(&w, "bbprof: %s missing, the first of them: %s\n", plural(int(r.Missing), "row"), strings.Join(list, ", "))
	}
	if !whole {
		io.WriteString(&w, "bbprof: whether rows are missing behind the last, -of CORPUS would tell\n")
	}
	return w.String()
}
