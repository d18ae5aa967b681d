package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

func mergeCommand() *command {
	return &command{
		name:     "merge",
		summary:  "join the results of a corpus's shards, or of runs that measured parts of it",
		synopsis: []string{"merge [flags] FILE...  (results of bbprof batch)"},
		about: `Rows go by their number in the corpus, column row, and come out in that order. What is missing is
reported: shards that no file is of, and numbers that no file has; with -of also to which shards the
missing rows belong, as an option for sbatch that runs these tasks again (docs/corpus.md).

With -o DIR/, which ends in a slash, the rows go into a new directory as Parquet, in folders
microarchitecture=NAME/part=N that DuckDB, pandas and Spark read as columns of one table.
`,
		examples: `bbprof merge -o all.csv part0.csv part1.csv part2.csv part3.csv
bbprof merge -of blocks.csv -o all.parquet part*.csv
bbprof merge -of blocks.csv -o all/ part*.csv
`,
		exits: map[int]string{exitOK: "nothing is missing", exitRejected: "rows or shards are missing; those that are there were joined",
			exitUsage: "bad usage, or files that do not belong together", exitInternal: ""},
		setup: func(f *flags) func(streams) error {
			m := merging{partRows: 1_000_000, out: output{folders: true}}
			f.operands = &m.files
			m.out.addFile(f)
			formatFlag(f, &m.format)
			columnsFlag(f, &m.columns)
			f.number(&m.partRows, 1, "rows", "of -o DIR/: most rows of a part")
			f.list(&m.of, "of", "CORPUS", "the corpus, to find also rows that are missing at the end; once for each of its files")
			f.text(&m.column, "column", "C", "its column of blocks, if bbprof batch was told")
			f.toggle(&m.mixed, "mixed", "join parts of different microarchitectures or settings; column run tells them apart")
			return m.run
		},
	}
}

type merging struct {
	files  []string
	out    output
	format resultfile.Format
	of     []string // the corpus
	column string
	mixed  bool

	columns  []string // to write
	partRows int
}

func (m *merging) run(std streams) error {
	if len(m.files) == 0 {
		return badUsage("no file named; name the parts")
	}
	if slices.Contains(slices.Concat(m.files, m.of), "-") {
		return badUsage("-: merge reads its files more than once, so standard input cannot be one; save it to a file and name that")
	}
	folder := strings.HasSuffix(m.out.file, "/")
	if folder && m.format == "" {
		m.format = resultfile.Parquet
	}
	if folder && m.format != resultfile.Parquet {
		return badUsage("-o %s is a directory, for parts as Parquet; name a file for -format %s", m.out.file, m.format)
	}
	if err := chooseFormat(&m.format, m.out.file, std); err != nil {
		return err
	}
	total, err := countRows(m.of, m.column)
	if err != nil {
		return badUsage("-of: %w", err)
	}
	next, stop := iter.Pull2(rowsOf(m.of, strings.NewReader(""), m.column, nil)) // opened where a row is missing
	defer stop()
	corpus := func() (input.Row, error) {
		row, err, more := next()
		switch {
		case err != nil:
			return row, badUsage("-of: %w", err)
		case !more:
			return row, badUsage("-of: %s: it has fewer rows when it is read again; name files that do not change and are no pipes", strings.Join(m.of, ", "))
		}
		return row, nil
	}
	parts, err := batch.OpenMerge(m.files, m.mixed)
	if err != nil {
		return &usageError{err}
	}
	defer parts.Close()
	signal.Ignore(syscall.SIGPIPE)
	var report batch.MergeReport
	join := func(out resultfile.Writer, err error) error {
		if err != nil {
			return &usageError{err}
		}
		if report, err = parts.Run(corpus, total, out.Write); err != nil {
			return err
		}
		return out.Close()
	}
	if folder {
		err = writeFolder(m.out.file, func(dir string) error { return join(m.partitions(dir, parts)) })
	} else {
		err = writeResults(m.out.file, m.files, std.out, func(w io.Writer) error {
			return join(resultfile.NewSelection(w, m.format, parts.Schema(), m.columns))
		})
	}
	if wrong := (*batch.PartError)(nil); errors.As(err, &wrong) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	io.WriteString(m.out.notes(std), mergeText(report, total > 0))
	io.WriteString(m.out.notes(std), unfinishedText(report.Unfinished))
	if report.Missing > 0 || len(report.Shards) > 0 {
		return errRejected
	}
	return nil
}

// partitions writes each row to the parts of the core that it was measured on.
func (m *merging) partitions(dir string, parts *batch.Merge) (resultfile.Writer, error) {
	cores, run := parts.Cores(), parts.Schema().Index("run")
	return resultfile.NewPartitions(dir, parts.Schema(), m.columns, m.partRows, func(cells []string) string {
		if run < 0 {
			return "unknown"
		}
		return cmp.Or(cores[cells[run]], "unknown")
	})
}

// writeFolder makes a directory beside its place and renames it when it is complete: it is there whole, or not at all.
func writeFolder(name string, write func(dir string) error) error {
	name = filepath.Clean(name)
	if _, err := os.Lstat(name); err == nil {
		return badUsage("-o %s is there already; name another directory", name)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(name), filepath.Base(name)+".writing-")
	if err != nil {
		return badUsage("-o %w", err)
	}
	defer os.RemoveAll(temporary) // nothing, after the rename
	if err := write(temporary); err != nil {
		return err
	}
	return errors.Join(os.Chmod(temporary, 0o755), os.Rename(temporary, name))
}

// unfinishedText names the shards to run again, and the option that has Slurm do it.
func unfinishedText(list []batch.ShardRows) string {
	if len(list) == 0 {
		return ""
	}
	var shards, tasks []string
	for _, s := range list {
		shards = append(shards, fmt.Sprintf("%s (%s)", s.Shard, plural(int(s.Rows), "row")))
		tasks = append(tasks, fmt.Sprint(s.Shard.Index))
	}
	return fmt.Sprintf("bbprof: unfinished shards: %s\nbbprof: Slurm runs these again with sbatch --array=%s and -shard auto/%d\n",
		strings.Join(shards, ", "), strings.Join(tasks, ","), list[0].Shard.Count)
}

// countRows is how many rows a corpus has, 0 of none.
func countRows(files []string, column string) (n int64, err error) {
	if len(files) == 0 {
		return 0, nil
	}
	for _, err := range rowsOf(files, strings.NewReader(""), column, nil) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

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
		io.WriteString(&w, "bbprof: whether rows are missing after the last is unknown; -of CORPUS would tell\n")
	}
	return w.String()
}
