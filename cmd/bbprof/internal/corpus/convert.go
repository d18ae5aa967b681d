package corpus

import (
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
)

func convertCommand() *cli.Command {
	return &cli.Command{
		Name:     "convert",
		Summary:  "put results into another format; join those of a corpus's shards",
		Synopsis: []string{"convert [flags] FILE...  (- is standard input)"},
		About: `It reads CSV, JSON lines and Parquet, compressed or not, and recognises a format by the contents of
a file. Nothing is lost between these three. The other formats hold accepted blocks alone:
` + resultfile.Foreign() + `
Several files are parts of one corpus, such as its shards: rows come out by their number in the
corpus, and what is missing is reported. With -o DIR/ they go into a directory of Parquet files.
`,
		Notes: `docs/reference.md says which tools read each format.
`,
		Examples: `bbprof convert -o results.parquet results.csv
bbprof convert -format bhive results.csv > throughputs.csv
bbprof convert -format exegesis -o snippets/ results.csv
bbprof convert -o blocks.tfrecord results.csv
bbprof convert -of blocks.csv -o all.parquet part*.csv
bbprof convert -of blocks.csv -o all/ part*.csv
`,
		Exits: map[int]string{cli.ExitOK: "done, and nothing is missing", cli.ExitRejected: "rows or shards are missing; those that are there were joined",
			cli.ExitUsage: "bad usage, a file that is not a result, or parts that do not belong together", cli.ExitInternal: ""},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			c := convertCmd{out: cli.Output{Folders: true}}
			f.Operands = &c.files
			c.out.AddFile(f)
			rowflags.FormatFlag(f, &c.format)
			columnsFlag(f, &c.columns)
			f.Toggle(&c.mixed, "mixed", "join parts of different microarchitectures or settings; column run tells them apart")
			f.List(&c.of, "of", "CORPUS", "the corpus, to compare each row's block with, and to find also rows that are missing at the end; once for each of its files")
			f.Text(&c.column, "column", "C", "its column of blocks, if bbprof batch was told")
			return c.run
		},
	}
}

type convertCmd struct {
	files   []string
	out     cli.Output
	format  resultfile.Format
	columns []string // to write

	// For several files, the parts of a corpus:
	mixed  bool
	of     []string // the corpus
	column string
}

// folder reports whether the result is a directory.
func (c *convertCmd) folder() bool { return strings.HasSuffix(c.out.File, "/") }

func columnsFlag(f *cli.Flags, columns *[]string) {
	f.Declare(cli.Flag{Name: "columns", Arg: "LIST", Help: "only these columns, in this order, such as hex,cycles,row; " +
		"or all but these, such as -mode,-run_header (default: all)",
		Set: func(s string) error {
			*columns = strings.Split(s, ",")
			return nil
		}})
}

func (c *convertCmd) run(std cli.Streams) error {
	if len(c.files) == 0 {
		return cli.BadUsage("no file named; name one or more, or - for standard input")
	}
	if c.folder() && c.format == "" {
		c.format = resultfile.Parquet
	}
	if c.folder() && c.format == resultfile.Exegesis {
		return c.snippets(std)
	}
	if c.folder() && c.format != resultfile.Parquet {
		return cli.BadUsage("-o %s is a directory, for parts as Parquet; name a file for -format %s", c.out.File, c.format)
	}
	if err := rowflags.ChooseFormat(&c.format, c.out.File, std); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE)
	if len(c.files) > 1 || len(c.of) > 0 || c.folder() {
		return c.join(std)
	}
	return cli.WriteResults(c.out.File, std.Out, func(w io.Writer) error { return c.convert(w, std.In) })
}

// convert writes the rows of one file in their order.
func (c *convertCmd) convert(w io.Writer, stdin io.Reader) error {
	in, err := resultfile.OpenRows(c.files[0], stdin, "hex", "status")
	if err != nil {
		return cli.Usage(err)
	}
	defer in.Close()
	out, err := resultfile.NewSelection(w, c.format, in.Schema, c.columns)
	if err != nil {
		return cli.Usage(in.Error(err))
	}
	if err := in.Copy(out); err != nil {
		return cli.Usage(err) // a write error is the caller's to report
	}
	return nil
}
