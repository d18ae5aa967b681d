package dataset

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/profiler"
)

// Verification is the result of checking a dataset.
type Verification struct {
	Sheet    Sheet
	Problems []string // each names a file; empty: all as sealed
	Sample   []SampleBlock
}

// Verify checks everything but the second measurement. It fails only if it cannot read the dataset.
func Verify(dir string) (v Verification, err error) {
	sums, err := os.ReadFile(filepath.Join(dir, SumsFile))
	if err != nil {
		return v, fmt.Errorf("it is not a dataset: %w", err)
	}
	listed := v.sums(dir, string(sums))
	v.strangers(dir, listed)
	text, err := os.ReadFile(filepath.Join(dir, SheetFile))
	if err == nil {
		err = json.Unmarshal(text, &v.Sheet)
	}
	if err != nil || len(v.Sheet.Hosts) == 0 {
		v.problem(SheetFile, "it cannot be read, so nothing can be held against it: %v", err)
		return v, nil
	}
	v.rows(dir, listed)
	return v, nil
}

func (v *Verification) problem(file, format string, args ...any) {
	v.Problems = append(v.Problems, file+": "+fmt.Sprintf(format, args...))
}

// sums checks the files' hashes and returns them.
func (v *Verification) sums(dir, text string) map[string]string {
	listed := map[string]string{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		sum, name, ok := strings.Cut(line, "  ")
		if !ok || len(sum) != 2*sha256.Size || !filepath.IsLocal(filepath.FromSlash(name)) {
			v.problem(SumsFile, "line %d is not a hash and a file of this directory: %.100q", i+1, line)
			continue
		}
		listed[name] = sum
		switch got, err := hashFile(dir, name); {
		case errors.Is(err, fs.ErrNotExist):
			v.problem(name, "it is missing")
		case err != nil:
			v.problem(name, "it cannot be read: %v", err)
		case got != sum:
			v.problem(name, "its bytes have changed: SHA-256 is %.16s…, sealed was %.16s…", got, sum)
		}
	}
	for _, name := range []string{SheetFile, ReadmeFile, BHiveFile, CategoriesFile} {
		if listed[name] == "" {
			v.problem(SumsFile, "it does not list %s", name)
		}
	}
	return listed
}

// strangers lists files that were not sealed.
func (v *Verification) strangers(dir string, listed map[string]string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); err == nil && listed[name] == "" && name != SumsFile {
			v.problem(name, "it is not part of the sealed dataset")
		}
		return err
	})
	if err != nil {
		v.problem(".", "%v", err)
	}
}

// rows recomputes everything derived from the parts.
func (v *Verification) rows(dir string, listed map[string]string) {
	d := derivation{hashes: map[string]func() string{}}
	before := len(v.Problems)
	for _, part := range v.Sheet.Parts {
		v.part(dir, part, listed[part.File], &d)
	}
	if d.tally == nil {
		v.problem(SheetFile, "it names no part that can be read")
		return
	}
	if err := d.tally.close(); err != nil {
		v.problem(SheetFile, "%v", err)
	}
	v.Sample = d.tally.sampled()
	if d.missing || len(v.Problems) > before { // everything derived from the parts would fail too
		return
	}
	v.derived(d.tally, listed, d.hashes)
	v.split(d.blocks, d.splits)
}

// derivation holds what was derived from the rows read.
type derivation struct {
	tally   *tally                   // nil before the first part
	hashes  map[string]func() string // of the files that the tally writes
	blocks  []splitBlock             // accepted blocks and their splits
	splits  []string
	missing bool // a part is missing

	first   string // first part
	columns []string
}

// part checks a part against the datasheet and adds its rows to d.
func (v *Verification) part(dir string, part Part, sum string, d *derivation) {
	if sum != part.SHA256 {
		v.problem(part.File, "%s has %.16s… as its hash, %s has %.16s…", SheetFile, part.SHA256, SumsFile, sum)
	}
	if !filepath.IsLocal(filepath.FromSlash(part.File)) {
		v.problem(SheetFile, "part %q is not in this directory", part.File)
		return
	}
	foreign, rows := map[string]bool{}, 0
	path := filepath.Join(dir, filepath.FromSlash(part.File))
	in, err := resultfile.OpenRows(path, nil)
	if err == nil {
		defer in.Close()
		err = d.begin(part.File, in.Schema, v.Sheet.WeightColumn)
	}
	for err == nil {
		var r resultfile.Row
		if r, err = in.Next(); err == nil {
			rows++
			if id := r.Cell("run"); !slices.Contains(v.Sheet.Runs, id) {
				foreign[id] = true
			}
			err = d.add(r.Cells)
		}
	}
	if in != nil {
		v.host(part.File, in.Runs)
	}
	switch {
	case errors.Is(err, io.EOF) && rows == part.Rows:
	case errors.Is(err, io.EOF):
		v.problem(part.File, "it has %d rows, the datasheet says %d", rows, part.Rows)
	case errors.Is(err, fs.ErrNotExist): // reported by sums
		d.missing = true
	default:
		v.problem(part.File, "%s", strings.TrimPrefix(err.Error(), path+": "))
	}
	if len(foreign) > 0 {
		v.problem(part.File, "it has rows of a run that is not of this dataset: %s", strings.Join(slices.Sorted(maps.Keys(foreign)), ", "))
	}
}

// begin starts the tally, whose files are hashed and discarded. Further parts must have the columns of the first.
func (d *derivation) begin(part string, s resultfile.Schema, weight string) (err error) {
	if d.tally != nil {
		if !slices.Equal(s.Names(), d.columns) {
			return fmt.Errorf("its columns are not those of %s", d.first)
		}
		return nil
	}
	d.first, d.columns = part, s.Names()
	d.tally, err = newTally(s, weight, func(name string) io.Writer {
		h := sha256.New()
		d.hashes[name] = func() string { return fmt.Sprintf("%x", h.Sum(nil)) }
		return h
	})
	return err
}

func (d *derivation) add(cells []string) error {
	if t := d.tally; cells[t.at("status")] == string(profiler.OK) {
		d.blocks = append(d.blocks, splitBlock{cells[t.at(applicationColumn)], nearKey(cells[t.at("hex")])})
		d.splits = append(d.splits, cells[t.at(splitColumn)])
	}
	return d.tally.add(cells)
}

// host checks a part's CPU by the runs in its metadata.
func (v *Verification) host(file string, runs resultfile.Runs) {
	for _, run := range runs.All() {
		if here := v.Sheet.Hosts[0].Microarchitecture; run.Host.Microarchitecture != here {
			v.problem(file, "it was measured on %s (%s), the dataset on %s", run.Host.Microarchitecture, run.Host.Brand, here)
		}
	}
}

// derived checks what follows from the rows against the datasheet and the other files.
func (v *Verification) derived(t *tally, listed map[string]string, hashes map[string]func() string) {
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		if hashes[name]() != listed[name] {
			v.problem(name, "it does not follow from the parts")
		}
	}
	if t.sum() != v.Sheet.Content {
		v.problem(SheetFile, "content_sha256 does not follow from the parts")
	}
	a, b := reflect.ValueOf(t.counts), reflect.ValueOf(v.Sheet.Counts)
	for i := range a.NumField() {
		if x, y := fmt.Sprint(a.Field(i)), fmt.Sprint(b.Field(i)); x != y {
			v.problem(SheetFile, "counts: %s is %s by the parts, and %s in the datasheet",
				strings.TrimSuffix(a.Type().Field(i).Tag.Get("json"), ",omitempty"), x, y)
		}
	}
}

// split checks that near-duplicates, and applications, are each in one split.
func (v *Verification) split(blocks []splitBlock, splits []string) {
	owner := map[uint64]string{}
	for i, b := range blocks {
		split := splits[i]
		if split == LeftOut {
			continue
		}
		if other, ok := owner[b.key]; ok && other != split {
			v.problem(SheetFile, "the split is not clean: near-duplicates are in %s and in %s", other, split)
			return
		}
		owner[b.key] = split
		if want := v.Sheet.Applications[b.application]; v.Sheet.Applications != nil && want != split {
			v.problem(SheetFile, "blocks of application %s are in %s, and it says %s", b.application, split, want)
			return
		}
	}
}
