package input

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
)

// made is text that is made as it is read.
type made struct {
	ready bytes.Buffer
	err   error
	more  func() // adds to ready, or sets err
}

func (m *made) Read(p []byte) (int, error) {
	for m.ready.Len() == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.more()
	}
	return m.ready.Read(p)
}

// newTable is what is no text as CSV: a header and a line a row.
func newTable(names []string, next func() ([]string, error)) io.Reader {
	t := &made{}
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

// parquetText is the rows of a table of Parquet as CSV. A pipe, which has its table's description at its end, is copied
// to a file without a name first.
func parquetText(f *file, in *bufio.Reader, opened *os.File) (_ io.Reader, done func(), err error) {
	if magic, _ := in.Peek(len(parquet.Magic)); string(magic) != parquet.Magic || f.packed {
		return nil, nil, nil
	}
	done = func() {}
	if f.path == "" {
		if opened, err = parquet.Kept(in); err != nil {
			return nil, nil, err
		}
		done = func() { opened.Close() }
	}
	table, err := parquet.Open(opened)
	if err != nil {
		done()
		return nil, nil, err
	}
	rows := int64(0)
	return newTable(table.Names(), func() ([]string, error) {
		rows++
		f.raw.n = table.Size() * rows / max(table.Rows(), 1) // for progress
		return table.Next()
	}), done, nil
}

// put adds a line. All cells are quoted, so that none makes the line a comment or blank.
func (t *made) put(cells []string) {
	for i, cell := range cells {
		if i > 0 {
			t.ready.WriteByte(',')
		}
		t.ready.WriteString(`"` + strings.ReplaceAll(OneLine(cell), `"`, `""`) + `"`)
	}
	t.ready.WriteByte('\n')
}
