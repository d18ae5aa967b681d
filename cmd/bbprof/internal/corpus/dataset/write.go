package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/profiler"
)

type Options struct {
	Inputs      []string
	Application string // column that names it, or ""
	Weight      string // column of weights, or ""
	PartRows    int    // maximum rows per part
	Version     string
	Made        string
}

// Source holds the results, which are read twice: to plan and to write.
type Source struct {
	Options
	schema resultfile.Schema
	sheet  Sheet
	keep   []bool            // per row; false if an earlier row has its block
	shapes map[string]*shape // of carried columns
	blocks []splitBlock
}

// Read reads all results, which must share a microarchitecture and settings.
func (o Options) Read() (*Source, error) {
	s := &Source{Options: o, shapes: map[string]*shape{}}
	s.sheet = Sheet{Made: o.Made, Sealed: o.Version, Inputs: o.Inputs, ApplicationColumn: o.Application, WeightColumn: o.Weight}
	seen := map[string]bool{}
	var first *resultfile.Run
	err := s.each(func(r resultfile.Row) error {
		if header := r.Cell("run_header"); header != "" {
			if err := s.sheet.note(header, &first); err != nil {
				return err
			}
		}
		if id := r.Cell("run"); !slices.Contains(s.sheet.Runs, id) {
			s.sheet.Runs = append(s.sheet.Runs, strings.Clone(id))
		}
		block := r.Cell("hex") + " " + r.Cell("set")
		if s.sheet.captured() {
			block += " " + r.Cell("state")
		}
		s.keep = append(s.keep, !seen[block])
		if seen[block] {
			s.sheet.Repeated++
		} else if accepted(r) {
			s.blocks = append(s.blocks, s.splitBlock(r))
		}
		seen[block] = true
		for i, c := range s.schema {
			if c.Carried() {
				s.shapes[c.Name].add(r.Cells[i])
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case first == nil:
		return nil, errors.New("no row states the conditions of its measurement (column run_header), which a dataset needs")
	case len(s.blocks) == 0:
		return nil, errors.New("no block was accepted, so there is nothing to seal")
	}
	return s, s.enough()
}

func accepted(r resultfile.Row) bool { return r.Cell("status") == string(profiler.OK) }

// enough fails if there are fewer applications than splits.
func (s *Source) enough() error {
	if s.Application == "" || assign(s.blocks) != nil {
		return nil
	}
	values := map[string]bool{}
	for _, b := range s.blocks {
		values[fmt.Sprintf("%.80q", b.application)] = true
	}
	return fmt.Errorf("column %s holds %s alone, and a split by application needs %d values; without -application the split goes by near-duplicates",
		s.Application, strings.Join(slices.Sorted(maps.Keys(values)), " and "), len(splits))
}

// note records the conditions of a run, and refuses those incompatible with the first's.
func (sheet *Sheet) note(header string, first **resultfile.Run) error {
	run, err := resultfile.ParseRun(header)
	if err != nil {
		return err
	}
	if *first == nil {
		*first, sheet.Settings = &run, run.Settings
	}
	if unlike := run.Difference(**first).Unlike; unlike != nil {
		return fmt.Errorf("it was measured under other conditions than the results before it: %s; make separate datasets", strings.Join(unlike, "; "))
	}
	if !slices.Contains(sheet.Hosts, run.Host) {
		sheet.Hosts = append(sheet.Hosts, run.Host)
	}
	controls := ""
	if run.Controls != nil {
		controls = run.Controls.String()
	}
	for _, x := range []struct {
		list *[]string
		text string
	}{{&sheet.Kernels, run.Kernel}, {&sheet.Versions, run.Version}, {&sheet.Clocks, run.Clock}, {&sheet.Selftests, run.Selftest}, {&sheet.Controls, controls}} {
		if x.text != "" && !slices.Contains(*x.list, x.text) {
			*x.list = append(*x.list, x.text)
		}
	}
	return nil
}

func (s *Source) splitBlock(r resultfile.Row) splitBlock {
	return splitBlock{strings.Clone(r.Cell(s.Application)), nearKey(r.Cell("hex"))}
}

// each passes on all rows of the results, whose columns must be those of the first.
func (s *Source) each(row func(resultfile.Row) error) error {
	for _, name := range s.Inputs {
		if err := s.eachOf(name, row); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) eachOf(name string, row func(resultfile.Row) error) error {
	in, err := resultfile.OpenRows(name, nil, "hex", "status", "set", "run", "run_header", s.Application, s.Weight)
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Schema.Index(splitColumn) >= 0 || s.Application != applicationColumn && in.Schema.Index(applicationColumn) >= 0 {
		return in.Error(fmt.Errorf("it has a column %s or %s already, which a dataset adds; leave it out with bbprof "+
			"convert -columns, or name it with -application", splitColumn, applicationColumn))
	}
	if err := in.Schema.Distinct(); err != nil {
		return in.Error(err)
	}
	if s.schema == nil {
		s.schema = in.Schema
		for _, c := range s.schema {
			s.shapes[c.Name] = &shape{}
		}
	}
	if !slices.Equal(s.schema.Names(), in.Schema.Names()) {
		return in.Error(fmt.Errorf("its columns are not those of %s", s.Inputs[0]))
	}
	for r, err := range in.All() {
		if err == nil && s.Weight != "" {
			_, err = r.Weight(s.Weight)
		}
		if err != nil {
			return err
		}
		if err := row(r); err != nil {
			return in.Error(err)
		}
	}
	return nil
}

// Write makes the dataset in an existing empty directory. remeasure measures the sample once more; it returns nil if
// this host is of another kind.
func (s *Source) Write(dir string, remeasure func(*Sheet, []SampleBlock) (*Agreement, error)) (_ *Sheet, err error) {
	b := &builder{Source: s, dir: dir, split: newSplitter(s.blocks)}
	s.sheet.Applications = b.split.applications
	if err := b.rows(); err != nil {
		return nil, err
	}
	sheet := &s.sheet
	sheet.Content, sheet.Counts = b.tally.sum(), b.tally.counts
	sheet.Uneven = sheet.Counts.uneven()
	if sheet.Sample, err = remeasure(sheet, b.tally.sampled(sheet)); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(sheet, "", "  ")
	if err != nil {
		return nil, err
	}
	_, err1 := b.open(SheetFile).Write(append(text, '\n'))
	_, err2 := io.WriteString(b.open(ReadmeFile), sheet.readme())
	return sheet, errors.Join(err1, err2, b.seal())
}

type builder struct {
	*Source
	dir   string
	files []*os.File
	split splitter
	tally *tally
	err   error // of opening a file
}

// open creates a file, which seal completes.
func (b *builder) open(name string) io.Writer {
	f, err := os.Create(filepath.Join(b.dir, name))
	if err != nil {
		b.err = errors.Join(b.err, err)
		return io.Discard
	}
	b.files = append(b.files, f)
	return f
}

func (b *builder) rows() (err error) {
	names := append(b.schema.Names(), splitColumn)
	if b.Application != applicationColumn {
		names = append(names, applicationColumn)
	}
	types := map[string]resultfile.Type{}
	for name, shape := range b.shapes {
		types[name] = shape.typed()
	}
	for _, name := range []string{applicationColumn, splitColumn, b.Application} {
		types[name] = resultfile.Text
	}
	schema := resultfile.SchemaOf(names).Typed(types)
	b.sheet.Columns = explained(schema)
	if b.tally, err = newTally(schema, b.Weight, b.open); err != nil {
		return err
	}
	core := string(b.sheet.Hosts[0].Microarchitecture)
	parts, err := resultfile.NewPartitions(b.dir, schema, nil, b.PartRows, func([]string) string { return core })
	if err != nil {
		return err
	}
	read := 0
	err = b.each(func(r resultfile.Row) error {
		if read++; !b.keep[read-1] {
			return nil
		}
		p := b.splitBlock(r)
		split := ""
		if accepted(r) {
			split = b.split.of(p)
		}
		row := append(slices.Clone(r.Cells), split)
		for i := range r.Cells {
			if schema[i].Carried() && schema[i].Type == resultfile.Number {
				row[i], _ = canonical(row[i])
			}
		}
		if b.Application != applicationColumn {
			row = append(row, p.application)
		}
		return cmp.Or(b.err, parts.Write(row), b.tally.add(row))
	})
	if err := cmp.Or(err, errors.Join(parts.Close(), b.tally.close())); err != nil {
		return err
	}
	for left := b.tally.counts.Rows; left > 0; left -= b.PartRows {
		part := Part{File: resultfile.PartName(core, len(b.sheet.Parts)), Rows: min(left, b.PartRows)}
		if part.SHA256, err = hashFile(b.dir, part.File); err != nil {
			return err
		}
		b.sheet.Parts = append(b.sheet.Parts, part)
	}
	return nil
}

// seal completes all files and writes their hashes.
func (b *builder) seal() error {
	for _, f := range b.files {
		b.err = errors.Join(b.err, f.Sync(), f.Close())
	}
	if b.err != nil {
		return b.err
	}
	sums := map[string]string{}
	for _, part := range b.sheet.Parts {
		sums[part.File] = part.SHA256
	}
	for _, f := range b.files {
		name := filepath.Base(f.Name())
		var err error
		if sums[name], err = hashFile(b.dir, name); err != nil {
			return err
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	return os.WriteFile(filepath.Join(b.dir, SumsFile), []byte(text.String()), 0o666)
}

func hashFile(dir, name string) (string, error) {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hashOf(f)
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
