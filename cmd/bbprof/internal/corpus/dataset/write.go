package dataset

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/profiler"
)

// Options select the contents of a dataset.
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
	for _, name := range o.Inputs {
		err := s.each(name, func(in resultfile.Schema, cells []string) error {
			if header := cells[in.Index("run_header")]; header != "" {
				if err := s.sheet.note(header, &first); err != nil {
					return err
				}
			}
			if id := cells[in.Index("run")]; !slices.Contains(s.sheet.Runs, id) {
				s.sheet.Runs = append(s.sheet.Runs, id)
			}
			block := cells[in.Index("hex")] + " " + cells[in.Index("set")]
			s.keep = append(s.keep, !seen[block])
			if seen[block] {
				s.sheet.Repeated++
			} else if cells[in.Index("status")] == string(profiler.OK) {
				s.blocks = append(s.blocks, s.splitBlock(in, cells))
			}
			seen[block] = true
			s.inspect(in, cells)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if first == nil {
		return nil, errors.New("no row states the conditions of its measurement (column run_header), which a dataset needs")
	}
	if len(s.blocks) == 0 {
		return nil, errors.New("no block was accepted, so there is nothing to seal")
	}
	return s, s.enough()
}

// inspect records the cells of carried columns.
func (s *Source) inspect(in resultfile.Schema, cells []string) {
	for i, c := range in {
		if !c.Carried() {
			continue
		}
		if s.shapes[c.Name] == nil {
			s.shapes[c.Name] = &shape{values: map[string]bool{}}
		}
		s.shapes[c.Name].add(cells[i])
	}
}

// enough fails if there are fewer applications than splits.
func (s *Source) enough() error {
	if s.Application == "" || assign(s.blocks) != nil {
		return nil
	}
	var values, others []string
	for _, b := range s.blocks {
		if v := fmt.Sprintf("%.80q", b.application); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	for _, c := range s.schema {
		if of := s.shapes[c.Name]; of != nil && c.Name != s.Application && len(of.values) >= len(shares) {
			others = append(others, c.Name)
		}
	}
	slices.Sort(values)
	why := fmt.Sprintf("column %s holds %s alone, and a split by application needs %d values", s.Application, strings.Join(values, " and "), len(shares))
	if len(others) > 0 {
		why += "; columns that have as many: " + strings.Join(others, ", ")
	}
	return errors.New(why + "; without -application the split goes by near-duplicates")
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
	for _, x := range []struct {
		list *[]string
		text string
	}{{&sheet.Kernels, run.Kernel}, {&sheet.Versions, run.Version}, {&sheet.Clocks, run.Clock}, {&sheet.Selftests, run.Selftest}, {&sheet.AtEnd, run.AtEnd}} {
		if x.text != "" && !slices.Contains(*x.list, x.text) {
			*x.list = append(*x.list, x.text)
		}
	}
	return nil
}

func (s *Source) splitBlock(in resultfile.Schema, cells []string) splitBlock {
	p := splitBlock{key: nearKey(cells[in.Index("hex")])}
	if s.Application != "" {
		p.application = cells[in.Index(s.Application)]
	}
	return p
}

// each yields all rows of a result, whose columns must be those of the first.
func (s *Source) each(name string, row func(resultfile.Schema, []string) error) error {
	in, err := resultfile.OpenRows(name, nil, "hex", "status", "set", "run", "run_header", s.Application, s.Weight)
	if err != nil {
		return err
	}
	defer in.Close()
	schema := in.Schema
	if schema.Index(splitColumn) >= 0 || s.Application != applicationColumn && schema.Index(applicationColumn) >= 0 {
		return in.Error(fmt.Errorf("it has a column %s or %s already, which a dataset adds; leave it out with bbprof convert -columns, or name it with -application", splitColumn, applicationColumn))
	}
	if s.schema == nil {
		s.schema = schema
	}
	if !slices.Equal(s.schema.Names(), schema.Names()) {
		return in.Error(fmt.Errorf("its columns are not those of %s", s.Inputs[0]))
	}
	for r, err := range in.All() {
		if err == nil && s.Weight != "" {
			_, err = r.Weight(s.Weight)
		}
		if err != nil {
			return err
		}
		if err := row(schema, r.Cells); err != nil {
			return in.Error(err)
		}
	}
	return nil
}

// Write makes the dataset in an existing empty directory. remeasure measures the sample once more; it returns nil if
// this host is of another kind.
func (s *Source) Write(dir string, remeasure func(*Sheet, []SampleBlock) (*Agreement, error)) (_ *Sheet, err error) {
	w := &builder{Source: s, dir: dir, files: map[string]*sealedFile{}, split: newSplitter(s.blocks)}
	s.sheet.Applications = w.split.applications
	if err := w.rows(); err != nil {
		return nil, err
	}
	sheet := &s.sheet
	sheet.Content, sheet.Counts = w.tally.sum(), w.tally.counts
	sheet.Uneven = sheet.Counts.uneven()
	slices.SortFunc(w.tally.sample, byHash)
	if sheet.Sample, err = remeasure(sheet, w.tally.sample[:min(len(w.tally.sample), mostSampled)]); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(sheet, "", "  ")
	if err != nil {
		return nil, err
	}
	if _, err := w.open(SheetFile).Write(append(text, '\n')); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w.open(ReadmeFile), sheet.readme()); err != nil {
		return nil, err
	}
	return sheet, w.seal()
}

func byHash(a, b SampleBlock) int { return strings.Compare(hashText(a.Hex), hashText(b.Hex)) }

type builder struct {
	*Source
	dir   string
	files map[string]*sealedFile
	split splitter
	tally *tally
	err   error // from opening a file
}

type sealedFile struct {
	file *os.File
	*bufio.Writer
	sum func() string
}

func (w *builder) open(name string) io.Writer {
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	var f *os.File
	if err == nil {
		f, err = os.Create(path)
	}
	if err != nil {
		w.err = errors.Join(w.err, err)
		return io.Discard
	}
	out, h := newHashed(f)
	w.files[name] = &sealedFile{f, out, func() string { return fmt.Sprintf("%x", h.Sum(nil)) }}
	return out
}

// close completes a file and returns its hash.
func (w *builder) close(name string) (string, error) {
	f := w.files[name]
	if f == nil {
		return "", w.err
	}
	err := errors.Join(f.Flush(), f.file.Sync(), f.file.Close())
	return f.sum(), err
}

func (w *builder) rows() (err error) {
	names := append(w.schema.Names(), splitColumn)
	if w.Application != applicationColumn {
		names = append(names, applicationColumn)
	}
	types := map[string]resultfile.Type{applicationColumn: resultfile.Text, splitColumn: resultfile.Text}
	for name, shape := range w.shapes {
		if types[name] = shape.typed(); name == w.Application {
			types[name] = resultfile.Text // the splits have names
		}
	}
	schema := resultfile.SchemaOf(names).Typed(types)
	w.sheet.Columns = explained(schema)
	if w.tally, err = newTally(schema, w.Weight, w.open); err != nil {
		return err
	}
	var (
		out  resultfile.Writer
		part *Part
		i    int
	)
	endPart := func() error {
		if out == nil {
			return nil
		}
		err := out.Close()
		out = nil
		sum, closeErr := w.close(part.File)
		part.SHA256 = sum
		w.sheet.Parts = append(w.sheet.Parts, *part)
		return errors.Join(err, closeErr)
	}
	for _, name := range w.Inputs {
		err := w.each(name, func(in resultfile.Schema, cells []string) error {
			if i++; !w.keep[i-1] {
				return nil
			}
			p := w.splitBlock(in, cells)
			split := ""
			if cells[in.Index("status")] == string(profiler.OK) {
				split = w.split.of(p)
			}
			row := append(slices.Clone(cells), split)
			for i := range cells {
				if schema[i].Carried() && schema[i].Type == resultfile.Number {
					row[i], _ = canonical(cells[i])
				}
			}
			if w.Application != applicationColumn {
				row = append(row, p.application)
			}
			if out == nil {
				part = &Part{File: resultfile.PartName(string(w.sheet.Hosts[0].Microarchitecture), len(w.sheet.Parts))}
				if out, err = resultfile.NewWriter(w.open(part.File), resultfile.Parquet, schema); err != nil {
					return err
				}
			}
			if err := errors.Join(w.err, out.Write(row), w.tally.add(row)); err != nil {
				return err
			}
			if part.Rows++; part.Rows == w.PartRows {
				return endPart()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(endPart(), w.tally.close())
}

// seal finally writes the hashes of all files.
func (w *builder) seal() error {
	var sums strings.Builder
	names := make([]string, 0, len(w.files))
	for name := range w.files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := w.files[name]
		if !slices.ContainsFunc(w.sheet.Parts, func(p Part) bool { return p.File == name }) {
			if _, err := w.close(name); err != nil {
				return err
			}
		}
		fmt.Fprintf(&sums, "%s  %s\n", f.sum(), name)
	}
	return os.WriteFile(filepath.Join(w.dir, SumsFile), []byte(sums.String()), 0o666)
}
