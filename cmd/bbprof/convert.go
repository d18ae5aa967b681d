package main

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

func convertCommand() *command {
	return &command{
		name:     "convert",
		summary:  "put results into another format; join those of a corpus's shards",
		synopsis: []string{"convert [flags] FILE...  (- is standard input)"},
		about: `It reads CSV, JSON lines and Parquet, compressed or not, and recognises a format by the contents of
a file. Nothing is lost between these three. The other formats hold accepted blocks alone:
` + foreignText() + `
Several files are parts of one corpus, such as its shards: rows come out by their number in the
corpus, and what is missing is reported. With -o DIR/ they go into a directory of Parquet files.
`,
		notes: `docs/reference.md says which tools read each format.
`,
		examples: `bbprof convert -o results.parquet results.csv
bbprof convert -format bhive results.csv > throughputs.csv
bbprof convert -o blocks.tfrecord results.csv
bbprof convert -of blocks.csv -o all.parquet part*.csv
bbprof convert -of blocks.csv -o all/ part*.csv
`,
		exits: map[int]string{exitOK: "done, and nothing is missing", exitRejected: "rows or shards are missing; those that are there were joined",
			exitUsage: "bad usage, a file that is not a result, or parts that do not belong together", exitInternal: ""},
		setup: func(f *flags) func(streams) error {
			c := converting{partRows: 1_000_000, out: output{folders: true}}
			f.operands = &c.files
			c.out.addFile(f)
			formatFlag(f, &c.format)
			columnsFlag(f, &c.columns)
			f.toggle(&c.mixed, "mixed", "join parts of different microarchitectures or settings; column run tells them apart")
			f.list(&c.of, "of", "CORPUS", "the corpus, to find also rows that are missing at the end; once for each of its files")
			f.text(&c.column, "column", "C", "its column of blocks, if bbprof batch was told")
			f.number(&c.partRows, 1, "rows", "of -o DIR/: most rows of a part")
			return c.run
		},
	}
}

type converting struct {
	files   []string
	out     output
	format  resultfile.Format
	columns []string // to write

	// Of several files, the parts of a corpus:
	mixed    bool
	of       []string // the corpus
	column   string
	partRows int
}

// folder reports whether the result is a directory.
func (c *converting) folder() bool { return strings.HasSuffix(c.out.file, "/") }

func columnsFlag(f *flags, columns *[]string) {
	f.declare(flagDecl{name: "columns", arg: "LIST", help: "only these columns, in this order, such as hex,cycles,row; or all but these, such as -mode,-run_header (default: all)",
		set: func(s string) error {
			*columns = strings.Split(s, ",")
			return nil
		}})
}

func (c *converting) run(std streams) error {
	if len(c.files) == 0 {
		return badUsage("no file named; name one or more, or - for standard input")
	}
	if c.folder() && c.format == "" {
		c.format = resultfile.Parquet
	}
	if c.folder() && c.format != resultfile.Parquet {
		return badUsage("-o %s is a directory, for parts as Parquet; name a file for -format %s", c.out.file, c.format)
	}
	if err := chooseFormat(&c.format, c.out.file, std); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE)
	if len(c.files) > 1 || len(c.of) > 0 || c.folder() {
		return c.join(std)
	}
	return writeResults(c.out.file, c.files, std.out, func(w io.Writer) error { return c.convert(w, std.in) })
}

func foreignText() string {
	var w strings.Builder
	for _, line := range resultfile.Foreign() {
		name, about, _ := strings.Cut(line, ", ")
		fmt.Fprintf(&w, "  %-14s  %s\n", name, about)
	}
	return w.String()
}

// convert writes the rows of one file, in their order.
func (c *converting) convert(w io.Writer, stdin io.Reader) error {
	name := c.files[0]
	in, closer, err := openResult(name, stdin)
	if err != nil {
		return usage(err)
	}
	defer closer.Close()
	if err := isResult(in.Schema()); err != nil {
		return usage(fmt.Errorf("%s: %w", name, err))
	}
	out, err := resultfile.NewSelection(w, c.format, in.Schema(), c.columns)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", name, err))
	}
	for cells, err := range resultfile.Each(in.Next) {
		if err != nil {
			return usage(fmt.Errorf("%s: %w", name, err))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	return out.Close()
}

// isResult fails for the columns of something else, such as a corpus or the bhive format.
func isResult(s resultfile.Schema) error {
	switch {
	case s == nil:
		return errors.New("it does not have one whole line, so it is not a result")
	case s.Index("hex") < 0 || s.Index("status") < 0:
		return fmt.Errorf("it has no columns hex and status, so it is not a result of bbprof batch; it has %.100s", strings.Join(s.Names(), ", "))
	}
	return nil
}
