package batch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// Merge joins result files of one corpus, such as its shards, row by row.
type Merge struct {
	parts []*part
	first *part // first part with a row: the others are compared with it
}

type part struct {
	name string
	file *os.File
	rows *orderedRows
	runs resultfile.Runs

	// The next row; its number is noRow after the last.
	row   int64
	cells []string
}

const noRow = math.MaxInt64

type MergeReport struct {
	Rows     int64
	Repeated int64      // rows in several parts; the first part counts
	Gaps     [][2]int64 // first and last row of gaps; not all are listed
	Missing  int64      // rows in all gaps
	Shards   []string   // without a part; not all are listed
	Absent   int64      // number of such shards
}

// OpenMerge reads each file once. An error names the file that cannot be joined and says why; mixed allows
// different microarchitectures and settings.
func OpenMerge(names []string, mixed bool) (*Merge, error) {
	m := &Merge{}
	for _, name := range names {
		p, err := openPart(name)
		if err == nil {
			m.parts = append(m.parts, p)
			err = m.admit(p, mixed)
		}
		if err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

func openPart(name string) (*part, error) {
	p := &part{name: name}
	size, err := p.openLines()
	if err != nil {
		return nil, err
	}
	some := false
	p.rows, err = openOrdered(p.file, size, func(in *resultfile.LineReader, cells []string) error {
		some = true
		return p.runs.Add(in.Schema(), cells)
	})
	if err == nil && some && p.runs.None() { // the shard of a small corpus may be empty
		err = errors.New("no row names its run (columns run and run_header), so this is not a result of batch")
	}
	if err == nil {
		err = p.advance()
	}
	if err != nil {
		p.file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// openLines opens a result for access to rows by offset. Parquet, compressed files and pipes are first copied as
// CSV to an unnamed file.
func (p *part) openLines() (size int64, err error) {
	if info, err := os.Stat(p.name); err == nil && info.Mode().IsRegular() {
		if p.file, err = os.Open(p.name); err != nil || resultfile.IsLines(p.file) {
			return info.Size(), err
		}
		p.file.Close()
	}
	in, err := resultfile.OpenRows(p.name, nil)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if p.file, err = atomicfile.Temporary("a copy of a part that cannot be read twice"); err != nil {
		return 0, err
	}
	out, err := resultfile.NewWriter(p.file, resultfile.CSV, in.Schema)
	if err == nil {
		err = in.Copy(out)
	}
	p.runs = in.Runs
	if err == nil {
		size, err = p.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		p.file.Close()
	}
	return size, err
}

func (p *part) advance() (err error) {
	p.row, p.cells, err = p.rows.next()
	if errors.Is(err, io.EOF) {
		p.row, err = noRow, nil
	}
	return err
}

// admit checks a part against the previous ones.
func (m *Merge) admit(p *part, mixed bool) error {
	if a, b := m.Schema().Names(), p.rows.schema().Names(); !slices.Equal(a, b) {
		return fmt.Errorf("%s: its columns are not those of %s: %s, there %s", p.name, m.parts[0].name, strings.Join(b, ","), strings.Join(a, ","))
	}
	if mixed {
		return nil
	}
	if m.first == nil && !p.runs.None() {
		m.first = p
	}
	if m.first == nil {
		return nil
	}
	if why := m.first.runs.Mixes(&p.runs); why != "" {
		return fmt.Errorf("%s: it was measured under other conditions than %s: %s; -mixed joins them anyway", p.name, m.first.name, why)
	}
	return nil
}

func (m *Merge) Schema() resultfile.Schema { return m.parts[0].rows.schema() }

// Cores maps the values of column run to microarchitectures.
func (m *Merge) Cores() map[string]string {
	cores := map[string]string{}
	for _, p := range m.parts {
		for _, run := range p.runs.All() {
			cores[run.ID()] = string(run.Host.Microarchitecture)
		}
	}
	return cores
}

const (
	shownShards = 10
	shownGaps   = 10
)

// Run passes all rows to put, ordered by number. They must be of the corpus, which is nil if unknown.
func (m *Merge) Run(corpus iter.Seq2[input.Row, error], put func(cells []string) error) (report MergeReport, err error) {
	var whole *original
	if corpus != nil {
		next, stop := iter.Pull2(corpus)
		defer stop()
		whole = &original{next: next}
	}
	hex := m.Schema().Index("hex")
	last, lastHex := int64(0), "" // of the row that was put last
	for {
		p := slices.MinFunc(m.parts, func(a, b *part) int { return cmp.Compare(a.row, b.row) })
		if whole != nil {
			if err := whole.has(p, hex); err != nil {
				return report, err
			}
		}
		switch {
		case p.row == noRow:
			if whole != nil {
				report.gap(last, whole.rows+1)
			}
			if whole == nil || report.Missing > 0 { // otherwise they are empty
				report.Shards, report.Absent = m.absent()
			}
			return report, nil
		case p.row > last:
			report.gap(last, p.row)
			report.Rows++
			last = p.row
			if hex >= 0 {
				lastHex = p.cells[hex]
			}
			if err := put(p.cells); err != nil {
				return report, err
			}
		case hex >= 0 && p.cells[hex] != lastHex:
			return report, &PartError{fmt.Errorf("%s: its row %d is %.100s, and another part's is %.100s: they are not parts of one corpus",
				p.name, p.row, p.cells[hex], lastHex)}
		default:
			report.Repeated++
		}
		if err := p.advance(); err != nil {
			return report, fmt.Errorf("%s: %w", p.name, err)
		}
	}
}

// gap counts the rows between two.
func (r *MergeReport) gap(after, before int64) {
	if missing := before - after - 1; missing > 0 {
		r.Missing += missing
		if len(r.Gaps) < shownGaps {
			r.Gaps = append(r.Gaps, [2]int64{after + 1, before - 1})
		}
	}
}

// original is the corpus that parts were measured from, as far as it is read.
type original struct {
	next func() (input.Row, error, bool)
	rows int64
	last input.Row
}

// has checks that a part's row is the corpus's row of that number, or reads the corpus to its end if the part has none left.
func (o *original) has(p *part, hex int) error {
	for o.rows < p.row {
		row, err, ok := o.next()
		switch {
		case err != nil:
			return &PartError{fmt.Errorf("-of: %w", err)}
		case ok:
			o.last = row
			o.rows++
			continue
		case p.row == noRow:
			return nil
		}
		return &PartError{fmt.Errorf("%s: it has row %d, and the corpus has %d rows: it is a result of another corpus", p.name, p.row, o.rows)}
	}
	if hex >= 0 && p.cells[hex] != o.last.Hex() {
		return &PartError{fmt.Errorf("%s: its row %d is %.100s, and the corpus's (%s, line %d) is %.100s: it is a result of another corpus, or of "+
			"another column (-column)", p.name, p.row, p.cells[hex], o.last.File, o.last.Line, o.last.Hex())}
	}
	return nil
}

// PartError reports a part that does not belong with the others.
type PartError struct{ error }

// absent lists shards without a part, for each number of shards that a part names, and counts them; none if a part
// covers the whole corpus.
func (m *Merge) absent() (some []string, n int64) {
	have := map[int]map[int]bool{} // by number of shards
	for _, p := range m.parts {
		for _, run := range p.runs.All() {
			s, err := ParseShard(run.Shard)
			if err != nil {
				return nil, 0
			}
			if have[s.Count] == nil {
				have[s.Count] = map[int]bool{}
			}
			have[s.Count][s.Index] = true
		}
	}
	for _, count := range slices.Sorted(maps.Keys(have)) {
		n += int64(count - len(have[count]))
		for i := 0; i < count && len(some) < shownShards; i++ {
			if !have[count][i] {
				some = append(some, Shard{i, count}.String())
			}
		}
	}
	return some, n
}

func (m *Merge) Close() {
	for _, p := range m.parts {
		p.file.Close()
	}
}
