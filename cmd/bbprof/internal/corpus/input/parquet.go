package input

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
)

// generatedReader is a reader whose text is generated on demand.
type generatedReader struct {
	ready bytes.Buffer
	err   error
	more  func() // adds to ready, or sets err
}

func (m *generatedReader) Read(p []byte) (int, error) {
	for m.ready.Len() == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.more()
	}
	return m.ready.Read(p)
}

// newTable presents rows as CSV: a header and a line per row.
func newTable(names []string, next func() ([]string, error)) *generatedReader {
	t := &generatedReader{}
	t.more = func() {
		for t.ready.Len() < sampleSize && t.err == nil {
			var cells []string
			if cells, t.err = next(); t.err == nil {
				t.put(cells)
			}
		}
	}
	t.put(names)
	return t
}

// parquetText presents a Parquet table as CSV. A pipe is first copied to an unnamed file, because the table's
// description comes last.
func parquetText(f *file, in *bufio.Reader, opened *os.File) (_ io.Reader, err error) {
	if magic, _ := in.Peek(len(parquet.Magic)); string(magic) != parquet.Magic || f.packed {
		return nil, nil
	}
	if f.path == "" {
		if opened, err = parquet.Kept(in); err != nil {
			return nil, err
		}
		f.closers = append(f.closers, opened)
	}
	table, err := parquet.Open(opened)
	if err != nil {
		return nil, err
	}
	rows := int64(0)
	return newTable(table.Names(), func() ([]string, error) {
		rows++
		f.raw.n = table.Size() * rows / max(table.Rows(), 1) // for progress
		return table.Next()
	}), nil
}

// put adds a line. It quotes all cells, so that the line never looks blank or like a comment.
func (t *generatedReader) put(cells []string) {
	for i, cell := range cells {
		if i > 0 {
			t.ready.WriteByte(',')
		}
		t.ready.WriteString(`"` + strings.ReplaceAll(OneLine(cell), `"`, `""`) + `"`)
	}
	t.ready.WriteByte('\n')
}
