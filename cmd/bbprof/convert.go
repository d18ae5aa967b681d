package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

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

// chooseFormat takes the format from the output's name unless -format is given, and refuses to write
// binary data to a terminal.
func chooseFormat(format *resultfile.Format, output string, std streams) error {
	if output == "-" {
		output = ""
	}
	if *format == "" {
		known := false
		if *format, known = resultfile.FormatOf(output); !known {
			return badUsage("-o %s: no format has that ending; use .csv, .jsonl, .parquet, .bhive or .tfrecord, or name one with -format", output)
		}
		if *format == resultfile.JSON && strings.Contains(strings.ToLower(filepath.Base(output)), ".json") && !strings.Contains(strings.ToLower(output), ".jsonl") {
			fmt.Fprintf(std.err, "bbprof: %s gets JSON lines, an object a line\n", output)
		}
	}
	if _, ok := terminal(std.out); ok && output == "" && format.Binary() {
		return badUsage("format %s is binary, and standard output is a terminal; name a file with -o", *format)
	}
	return nil
}

func foreignText() string {
	var w strings.Builder
	for _, line := range resultfile.Foreign() {
		name, about, _ := strings.Cut(line, ", ")
		fmt.Fprintf(&w, "  %-14s  %s\n", name, about)
	}
	return w.String()
}

func formatFlag(f *flags, format *resultfile.Format) {
	choice(f, format, resultfile.Formats(), "format", "F", "csv, with a header; jsonl, an object a line; parquet; or accepted blocks alone, for other tools "+
		"(docs/reference.md): bhive, gematria, gematria-state, gematria-json, ithemal, osaca, anica (default: as FILE is called, or csv)")
}

// writeResults writes to standard output, or to the file that -o names.
func writeResults(output string, from []string, stdout io.Writer, write func(io.Writer) error) error {
	if output == "" || output == "-" {
		out := &lossless{Writer: stdout}
		return out.instead(write(out))
	}
	return writeWhole(output, from, write)
}

// writeWhole writes a file beside the one of that name, compressed if the name says so, and
// renames it when it is complete: what was there is kept if that fails. It may not be one of
// the files that are read. Of a symbolic link the target is written.
func writeWhole(name string, from []string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(name); err == nil {
		if info.IsDir() {
			return badUsage("%s is a directory; name a file", name)
		}
		if !info.Mode().IsRegular() {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return &usageError{err}
			}
			out := &lossless{Writer: f}
			return errors.Join(out.instead(write(out)), f.Close())
		}
		if slices.ContainsFunc(from, func(other string) bool { return sameFile(info, other) }) {
			return badUsage("%s is the input itself; name another file", name)
		}
	}
	if name, err = resultfile.ResolveLink(name); err != nil {
		return &usageError{err}
	}
	f, err := resultfile.CreateBeside(name, "writing", 0o666)
	if err != nil {
		return &usageError{err}
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	out, err := compressed(f, name)
	if err != nil {
		return err
	}
	whole := &lossless{Writer: out}
	if err := whole.instead(write(whole)); err != nil {
		return err
	}
	if err := errors.Join(out.Close(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func compressed(w io.Writer, name string) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewWriter(w), nil
	case strings.HasSuffix(name, ".zst"):
		return zstd.NewWriter(w)
	}
	return plainCloser{w}, nil
}

type plainCloser struct{ io.Writer }

func (plainCloser) Close() error { return nil }

// convert writes the rows of one file, in their order.
func (c *converting) convert(w io.Writer, stdin io.Reader) error {
	name := c.files[0]
	in, closer, err := openResult(name, stdin)
	if err != nil {
		return &usageError{err}
	}
	defer closer.Close()
	if err := isResult(in.Schema()); err != nil {
		return &usageError{fmt.Errorf("%s: %w", name, err)}
	}
	out, err := resultfile.NewSelection(w, c.format, in.Schema(), c.columns)
	if err != nil {
		return &usageError{fmt.Errorf("%s: %w", name, err)}
	}
	for cells, err := range resultfile.Each(in.Next) {
		if err != nil {
			return &usageError{fmt.Errorf("%s: %w", name, err)}
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

// openResult opens a result file, or standard input, which is - . An error names it.
func openResult(name string, stdin io.Reader) (resultfile.Reader, io.Closer, error) {
	if name != "-" {
		return resultfile.OpenFile(name)
	}
	in, closer, err := resultfile.OpenStream(stdin)
	if err != nil {
		err = fmt.Errorf("-: %w", err)
	}
	return in, closer, err
}
