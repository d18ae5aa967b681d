package resultfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PartName is where part n of the rows of a core stands in a directory of partitions: each folder is called by a column
// and its value, as DuckDB, pandas and Spark read them.
func PartName(core string, n int) string {
	return fmt.Sprintf("microarchitecture=%s/part=%d/rows.parquet", folder(core), n)
}

// folder is a core as part of a folder's name: a result may name one with a slash, which would lead out of the directory.
func folder(core string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("+._", r) {
			return r
		}
		return '-'
	}, core)
}

// Partitions writes rows into a directory as Parquet, with parts of a limited number of rows, so that neither memory nor
// a file's footer grows with the rows.
type Partitions struct {
	dir    string
	schema Schema
	at     []int // the columns that are written
	most   int   // rows of a part
	core   func(cells []string) string
	open   map[string]*partition // by folder
}

// partition is the part of a core that is being written.
type partition struct {
	n, rows int
	file    *os.File
	out     Writer
}

// NewPartitions writes the columns of some names, or all, into a directory that is there. core is the microarchitecture of
// a row.
func NewPartitions(dir string, s Schema, names []string, most int, core func(cells []string) string) (*Partitions, error) {
	if len(names) == 0 {
		names = s.Names()
	}
	chosen, at, err := s.Select(names)
	return &Partitions{dir: dir, schema: chosen, at: at, most: most, core: core, open: map[string]*partition{}}, err
}

func (p *Partitions) Write(cells []string) error {
	core := folder(p.core(cells)) // two may have one
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
			part.out, err = NewWriter(part.file, Parquet, p.schema)
		}
		if err != nil {
			return err
		}
	}
	if err := part.out.Write(Arrange(cells, p.at, nil)); err != nil {
		return err
	}
	if part.rows++; part.rows == p.most {
		return part.close()
	}
	return nil
}

func (p *partition) close() error {
	if p.out == nil {
		return nil
	}
	err := errors.Join(p.out.Close(), p.file.Sync(), p.file.Close())
	p.n, p.rows, p.out = p.n+1, 0, nil
	return err
}

// Close finishes the parts that are being written.
func (p *Partitions) Close() (err error) {
	for _, part := range p.open {
		err = errors.Join(err, part.close())
	}
	return err
}
