package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// join writes the rows of a corpus's parts in order, and reports missing rows.
func (c *convertCmd) join(std cli.Streams) error {
	if slices.Contains(slices.Concat(c.files, c.of), "-") {
		return cli.BadUsage("-: parts are read more than once, so standard input cannot be one; save it to a file and name that")
	}
	var corpus iter.Seq2[input.Row, error]
	if len(c.of) > 0 {
		corpus = rowflags.RowsOf(c.of, strings.NewReader(""), c.column, resultfile.Reserved())
	}
	parts, err := batch.OpenMerge(c.files, c.mixed)
	if err != nil {
		return cli.Usage(err)
	}
	defer parts.Close()
	var report batch.MergeReport
	join := func(out resultfile.Writer, err error) error {
		if err != nil {
			return cli.Usage(err)
		}
		if report, err = parts.Run(corpus, out.Write); err != nil {
			return err
		}
		return out.Close()
	}
	if c.folder() {
		err = writeFolder(c.out.File, func(dir string) error { return join(c.partitions(dir, parts)) })
	} else {
		err = cli.WriteResults(c.out.File, std.Out, func(w io.Writer) error {
			return join(resultfile.NewSelection(w, c.format, parts.Schema(), c.columns))
		})
	}
	if wrong := (*batch.PartError)(nil); errors.As(err, &wrong) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	io.WriteString(c.out.Notes(std), joinText(report, corpus != nil))
	if report.Missing > 0 || len(report.Shards) > 0 {
		return cli.ErrRejected
	}
	return nil
}

// partitions writes each row to the partition of its core.
func (c *convertCmd) partitions(dir string, parts *batch.Merge) (resultfile.Writer, error) {
	cores, run := parts.Cores(), parts.Schema().Index("run")
	return resultfile.NewPartitions(dir, parts.Schema(), c.columns, resultfile.PartRows, func(cells []string) string {
		if run < 0 {
			return "unknown"
		}
		return cmp.Or(cores[cells[run]], "unknown")
	})
}

// writeFolder creates a directory under a temporary name and renames it when complete, so a partial one is never
// visible.
func writeFolder(name string, write func(dir string) error) error {
	name = filepath.Clean(name)
	if _, err := os.Lstat(name); err == nil {
		return cli.BadUsage("-o %s is there already; name another directory", name)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(name), filepath.Base(name)+".writing-")
	if err != nil {
		return cli.BadUsage("-o %w", err)
	}
	defer os.RemoveAll(temporary) // does nothing after the rename
	if err := write(temporary); err != nil {
		return err
	}
	return errors.Join(os.Chmod(temporary, 0o755), os.Rename(temporary, name))
}

func joinText(r batch.MergeReport, whole bool) string {
	var w strings.Builder
	fmt.Fprintf(&w, "bbprof: %s joined\n", words.Plural(int(r.Rows), "row"))
	if r.Repeated > 0 {
		fmt.Fprintf(&w, "bbprof: %s stood in more than one part; the first part's was taken\n", words.Plural(int(r.Repeated), "row"))
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
		fmt.Fprintf(&w, "bbprof: %s missing, the first of them: %s\n", words.Plural(int(r.Missing), "row"), strings.Join(list, ", "))
	}
	if !whole {
		io.WriteString(&w, "bbprof: whether rows are missing after the last is unknown; -of CORPUS would tell\n")
	}
	return w.String()
}
