package resultfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

type Format string

const (
	CSV           Format = "csv"
	JSON          Format = "jsonl"
	Parquet       Format = "parquet"
	BHive         Format = "bhive"
	Gematria      Format = "gematria"
	GematriaState Format = "gematria-state"
	Ithemal       Format = "ithemal"
	OSACA         Format = "osaca"
	AnICA         Format = "anica"
	Exegesis      Format = "exegesis"
)

// formats lists the file name suffixes, without .gz and .zst, a description for the user, and for formats of
// other tools how to write them.
var formats = []struct {
	Format
	endings []string
	about   string
	export  *exportFormat
}{
	{CSV, []string{"", ".", ".csv", ".txt"}, "a header, then a line a row", nil},
	{JSON, []string{".jsonl", ".ndjson", ".json"}, "an object a line", nil},
	{Parquet, []string{".parquet", ".pq"}, "a table with types", nil},
	{BHive, []string{".bhive"}, "hex and cycles per 100 iterations, no header", &exportFormat{block: bhive}},
	{Gematria, []string{".tfrecord"}, "BasicBlockWithThroughputProto as TFRecord", &exportFormat{block: gematriaThroughput}},
	{GematriaState, nil, "BlockWithExecutionAnnotations as TFRecord; needs column mapping", &exportFormat{block: gematriaState, needs: stateColumns}},
	{Ithemal, nil, "hex alone, for predict.py --raw-stdin", &exportFormat{block: ithemal}},
	{OSACA, nil, "assembly with its marks, and each block's lines", &exportFormat{block: osaca, start: osacaStart}},
	{AnICA, nil, "a series for its MeasurementDB", &exportFormat{block: anica, needs: []string{runHeader}, start: anicaStart, between: ",\n", end: "\n]}\n"}},
	{Exegesis, nil, "a snippet for llvm-exegesis, or -o DIR/ with one a file; needs column mapping", &exportFormat{block: exegesis, needs: stateColumns}},
}

// export returns how to write another tool's format, nil for bbprof's own.
func (f Format) export() *exportFormat {
	for _, known := range formats {
		if known.Format == f {
			return known.export
		}
	}
	return nil
}

func Formats() (all []Format) {
	for _, f := range formats {
		all = append(all, f.Format)
	}
	return all
}

// Foreign describes the formats of other tools, one a line.
func Foreign() (text string) {
	for _, f := range formats {
		if f.export != nil {
			text += fmt.Sprintf("  %-14s  %s\n", f.Format, f.about)
		}
	}
	return text
}

// FormatOf infers the format from a file's name without .gz and .zst. A name without a suffix means CSV; known is
// false for an unknown suffix.
func FormatOf(name string) (f Format, known bool) {
	name = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".gz"), ".zst")
	for _, f := range formats {
		if slices.Contains(f.endings, filepath.Ext(name)) {
			return f.Format, true
		}
	}
	return CSV, false
}

// Whole reports whether the format holds all rows with all columns.
func (f Format) Whole() bool { return f.export() == nil }

// Binary reports whether the format is not text.
func (f Format) Binary() bool { return f == Parquet || f == Gematria || f == GematriaState }

// NeedsMapping reports whether it needs the column of WithMapping.
func (f Format) NeedsMapping() bool {
	return !f.Whole() && slices.Contains(f.export().needs, "mapping")
}

// Appends reports whether a file of the format is valid after each row, so that a run can resume into it: a line
// per row, and every row.
func (f Format) Appends() bool { return f == CSV || f == JSON }

type Writer interface {
	Write(cells []string) error
	Flush() error // passes on the rows so far, as far as the format allows
	Close() error // flushes, but leaves the underlying file open
}

func NewWriter(w io.Writer, f Format, s Schema) (Writer, error) { return NewSelection(w, f, s, nil) }

// NewSelection is NewWriter for the columns that Select chooses.
func NewSelection(w io.Writer, f Format, s Schema, names []string) (Writer, error) {
	chosen, at, err := s.Select(names)
	if err != nil {
		return nil, err
	}
	if f == Parquet {
		return newParquetWriter(w, chosen, at, s.Index(runHeader))
	}
	lines, err := NewLines(f, chosen)
	if err != nil {
		return nil, err
	}
	out := &lineWriter{lines: lines, at: at, Writer: bufio.NewWriterSize(w, 1<<16)}
	out.Writer.Write(lines.Header()) // an error persists until Flush
	return out, nil
}

// Select returns the named columns in order, and their indices in s. If all names start with a minus sign, or there
// are none, it returns all columns but these.
func (s Schema) Select(names []string) (chosen Schema, at []int, err error) {
	minus := func(name string) bool { return strings.HasPrefix(name, "-") }
	except := len(names) == 0 || minus(names[0])
	left := map[int]bool{}
	for _, name := range names {
		if minus(name) != except {
			return nil, nil, errors.New("some names have a minus sign and some have none; name the columns to write, " +
				"or with a minus sign each those to leave out")
		}
		i := s.Index(strings.TrimPrefix(name, "-"))
		switch {
		case i < 0:
			return nil, nil, fmt.Errorf("it has no column %s; there are %s", strings.TrimPrefix(name, "-"), strings.Join(s.Names(), ", "))
		case except:
			left[i] = true
		default:
			chosen, at = append(chosen, s[i]), append(at, i)
		}
	}
	for i := range s {
		if except && !left[i] {
			chosen, at = append(chosen, s[i]), append(at, i)
		}
	}
	if len(names) > 0 {
		err = chosen.Distinct()
	}
	return chosen, at, err
}

type lineWriter struct {
	lines *Lines
	at    []int // of the written columns
	*bufio.Writer
	cells []string
	line  []byte
}

func (w *lineWriter) Write(cells []string) (err error) {
	w.cells = arrange(cells, w.at, w.cells)
	if w.line, err = w.lines.Append(w.line[:0], w.cells); err == nil {
		_, err = w.Writer.Write(w.line)
	}
	return err
}

func (w *lineWriter) Close() error {
	w.Writer.Write(w.lines.footer())
	return w.Flush()
}
