package input

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
)

// tableRows reads what is no text as CSV: a header and a line a row.
type tableRows struct {
	next  func() ([]string, error)
	ready bytes.Buffer
	err   error
}

// withParquet reads through r, or, if that begins as Parquet, the rows of the table as CSV. A pipe, which
// has its table's description at its end, is copied to a file without a name first.
func (f *file) withParquet(r io.Reader, opened *os.File) (_ io.Reader, is bool, done func(), err error) {
	in := bufio.NewReaderSize(r, sampleSize)
	if magic, _ := in.Peek(len(parquet.Magic)); string(magic) != parquet.Magic || f.packed {
		return in, false, func() {}, nil
	}
	done = func() {}
	if f.path == "" {
		if opened, err = os.CreateTemp("", "bbprof-*.parquet"); err != nil {
			return nil, false, nil, fmt.Errorf("keeping Parquet from a pipe: %w (TMPDIR names another folder)", err)
		}
		os.Remove(opened.Name())
		done = func() { opened.Close() }
		if _, err := io.Copy(opened, in); err != nil {
			done()
			return nil, false, nil, err
		}
	}
	info, err := opened.Stat()
	if err == nil {
		var table *parquet.Reader
		if table, err = parquet.NewReader(opened, info.Size()); err == nil {
			var names []string
			for _, c := range table.Columns {
				names = append(names, c.Name)
			}
			rows := int64(0)
			t := &tableRows{next: func() ([]string, error) {
				rows++
				f.raw.n = info.Size() * rows / max(table.Rows(), 1) // for progress
				return table.Next()
			}}
			t.put(names)
			return t, true, done, nil
		}
	}
	done()
	return nil, false, nil, err
}

func (t *tableRows) Read(p []byte) (int, error) {
	for t.ready.Len() == 0 {
		if t.err != nil {
			return 0, t.err
		}
		t.more()
	}
	return t.ready.Read(p)
}

func (t *tableRows) more() {
	for t.ready.Len() < sampleSize && t.err == nil {
		var cells []string
		if cells, t.err = t.next(); t.err == nil {
			t.put(cells)
		}
	}
}

// put adds a line. All cells are quoted, so that none makes the line a comment or blank.
func (t *tableRows) put(cells []string) {
	for i, cell := range cells {
		if i > 0 {
			t.ready.WriteByte(',')
		}
		t.ready.WriteString(`"` + strings.ReplaceAll(OneLine(cell), `"`, `""`) + `"`)
	}
	t.ready.WriteByte('\n')
}
