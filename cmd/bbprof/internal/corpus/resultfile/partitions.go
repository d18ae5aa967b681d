package resultfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PartRows is the most rows of a part that bbprof writes.
const PartRows = 1_000_000

// PartName returns the path of part n of a core's rows in a directory of partitions: each folder is named
// column=value, as DuckDB, pandas and Spark expect.
func PartName(core string, n int) string {
	return fmt.Sprintf("microarchitecture=%s/part=%d/rows.parquet", folder(core), n)
}

// folder makes a core's name safe in a path: a slash in it could lead out of the directory.
func folder(core string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("+._", r) {
			return r
		}
		return '-'
	}, core)
}

// Partitions writes rows as Parquet into a directory, in parts of a limited number of rows, so that neither memory
// nor a file's footer grows with the rows.
type Partitions struct {
	dir    string
	schema Schema
	names  []string // of the written columns, for NewSelection
	most   int      // maximum rows per part
	core   func(cells []string) string
	open   map[string]*partition // by folder
}

// partition is the unfinished part of a core.
type partition struct {
	n, rows int
	file    *os.File
	out     Writer
}

// NewPartitions writes the columns that Select chooses into an existing directory. core returns a row's
// microarchitecture.
func NewPartitions(dir string, s Schema, names []string, most int, core func(cells []string) string) (*Partitions, error) {
	_, _, err := s.Select(names)
	return &Partitions{dir: dir, schema: s, names: names, most: most, core: core, open: map[string]*partition{}}, err
}

func (p *Partitions) Write(cells []string) error {
	core := folder(p.core(cells)) // two cores may share a folder
	part := p.open[core]
	if part == nil {
		part = &partition{}
		p.open[core] = part
	}
	if part.out == nil {
		path := filepath.Join(p.dir, filepath.FromSlash(PartName(core, part.n)))
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			part.file, err = os.Create(path)
		}
		if err == nil {
			part.out, err = NewSelection(part.file, Parquet, p.schema, p.names)
		}
		if err != nil {
			return err
		}
	}
	if err := part.out.Write(cells); err != nil {
		return err
	}
	if part.rows++; part.rows == p.most {
		return part.close()
	}
	return nil
}

func (p *Partitions) Flush() error { return nil }

func (p *partition) close() error {
	if p.out == nil {
		return nil
	}
	err := errors.Join(p.out.Close(), p.file.Sync(), p.file.Close())
	p.n, p.rows, p.out = p.n+1, 0, nil
	return err
}

func (p *Partitions) Close() (err error) {
	for _, part := range p.open {
		err = errors.Join(err, part.close())
	}
	return err
}
