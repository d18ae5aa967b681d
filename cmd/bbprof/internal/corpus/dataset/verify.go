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
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

type Verification struct {
	Sheet    Sheet
	Problems []string // each names a file; empty: all as sealed
	Busy     int      // rows of a busy core, which are no truth
	Sample   []SampleBlock
}

// verifier holds what was derived from the rows read.
type verifier struct {
	Verification
	root   *os.Root                 // no name leads out of it
	listed map[string]string        // hashes of SHA256SUMS by file
	read   map[string]bool          // parts
	tally  *tally                   // nil before the first part
	hashes map[string]func() string // of the files that the tally writes

	first   string       // part that could be read
	columns []string     // of that
	blocks  []splitBlock // accepted blocks and their splits
	splits  []string
	missing bool // a part is missing
}

// Verify checks everything but the second measurement. It fails only if it cannot read the dataset. The folder may be
// anybody's: only regular files of bounded size in it are read, each once.
func Verify(dir string) (Verification, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Verification{}, fmt.Errorf("it is not a dataset: %w", err)
	}
	defer root.Close()
	v := &verifier{root: root, listed: map[string]string{}, read: map[string]bool{}, hashes: map[string]func() string{}}
	sums, err := v.text(SumsFile)
	if err != nil {
		return v.Verification, fmt.Errorf("it is not a dataset: %w", err)
	}
	v.sums(string(sums))
	v.strangers()
	text, err := v.text(SheetFile)
	if err == nil {
		err = json.Unmarshal(text, &v.Sheet)
	}
	if err != nil || len(v.Sheet.Hosts) == 0 {
		v.problem(SheetFile, "it cannot be read, so nothing can be held against it: %v", err)
	} else {
		v.rows()
	}
	return v.Verification, nil
}

const (
	mostText  = 64 << 20 // bytes of the sums and of the datasheet: those of a million parts
	mostBytes = 32 << 30 // bytes of another file: a million rows of the longest block take less
)

// open opens a regular file of the folder, of at most so many bytes. It does not wait for the writer of a pipe.
func (v *verifier) open(name string, most int64) (*os.File, error) {
	name = filepath.FromSlash(name)
	info, err := v.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file: %v", info.Mode())
	}
	f, err := v.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(info, opened):
		err = errors.New("it changes while it is read")
	case opened.Size() > most:
		err = fmt.Errorf("it has %d bytes, more than the %d of the largest such file", opened.Size(), most)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

func (v *verifier) text(name string) ([]byte, error) {
	f, err := v.open(name, mostText)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostText))
}

func (v *verifier) hash(name string) (string, error) {
	f, err := v.open(name, mostBytes)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hashOf(io.LimitReader(f, mostBytes))
}

func (v *Verification) problem(file, format string, args ...any) {
	v.Problems = append(v.Problems, file+": "+fmt.Sprintf(format, args...))
}

func (v *verifier) sums(text string) {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		sum, name, ok := strings.Cut(line, "  ")
		if !ok || len(sum) != 2*sha256.Size || !filepath.IsLocal(filepath.FromSlash(name)) {
			v.problem(SumsFile, "line %d is not a hash and a file of this directory: %.100q", i+1, line)
			continue
		}
		if v.listed[name] != "" {
			v.problem(SumsFile, "line %d lists %s again", i+1, name)
			continue
		}
		v.listed[name] = sum
		switch got, err := v.hash(name); {
		case errors.Is(err, fs.ErrNotExist):
			v.problem(name, "it is missing")
		case err != nil:
			v.problem(name, "it cannot be read: %v", err)
		case got != sum:
			v.problem(name, "its bytes have changed: SHA-256 is %.16s…, sealed was %.16s…", got, sum)
		}
	}
	for _, name := range []string{SheetFile, ReadmeFile, BHiveFile, CategoriesFile} {
		if v.listed[name] == "" {
			v.problem(SumsFile, "it does not list %s", name)
		}
	}
}

func (v *verifier) strangers() {
	err := fs.WalkDir(v.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && v.listed[name] == "" && name != SumsFile {
			v.problem(name, "it is not part of the sealed dataset")
		}
		return err
	})
	if err != nil {
		v.problem(".", "%v", err)
	}
}

// rows recomputes everything derived from the parts.
func (v *verifier) rows() {
	before := len(v.Problems)
	for _, part := range v.Sheet.Parts {
		v.part(part)
	}
	if v.tally == nil {
		v.problem(SheetFile, "it names no part that can be read")
		return
	}
	if err := v.tally.close(); err != nil {
		v.problem(SheetFile, "%v", err)
	}
	v.Sample = v.tally.sampled(&v.Sheet)
	if !v.missing && len(v.Problems) == before { // otherwise everything derived from the parts would fail too
		v.derived()
		v.split()
	}
}

// part checks a part against the datasheet and adds its rows to what is derived.
func (v *verifier) part(part Part) {
	if sum := v.listed[part.File]; sum != part.SHA256 {
		v.problem(part.File, "%s has %.16s… as its hash, %s has %.16s…", SheetFile, part.SHA256, SumsFile, sum)
	}
	if v.read[part.File] || part.Rows > resultfile.PartRows {
		v.problem(SheetFile, "it lists part %q twice, or with more than %d rows", part.File, resultfile.PartRows)
		return
	}
	v.read[part.File] = true
	foreign, rows := map[string]bool{}, 0
	f, err := v.open(part.File, mostBytes)
	in := (*resultfile.Rows)(nil)
	if err == nil {
		defer f.Close()
		in, err = resultfile.ParquetRows(part.File, f)
	}
	if err == nil {
		in.AsWritten = true
		err = v.begin(part.File, in.Schema)
	}
	for err == nil && rows <= part.Rows {
		var r resultfile.Row
		if r, err = in.Next(); err == nil {
			rows++
			if id := r.Cell("run"); !slices.Contains(v.Sheet.Runs, id) {
				foreign[id] = true
			}
			err = v.add(r)
		}
	}
	if in != nil {
		v.Busy += in.Busy
		for _, run := range in.Runs.All() {
			if here := v.Sheet.Hosts[0].Microarchitecture; run.Host.Microarchitecture != here {
				v.problem(part.File, "it was measured on %s (%s), the dataset on %s", run.Host.Microarchitecture, run.Host.Brand, here)
			}
		}
	}
	switch {
	case errors.Is(err, io.EOF) && rows == part.Rows:
	case errors.Is(err, io.EOF):
		v.problem(part.File, "it has %d rows, the datasheet says %d", rows, part.Rows)
	case err == nil:
		v.problem(part.File, "it has more rows than the %d that the datasheet says", part.Rows)
	case errors.Is(err, fs.ErrNotExist): // reported by sums
		v.missing = true
	default:
		v.problem(part.File, "%s", strings.TrimPrefix(err.Error(), part.File+": "))
	}
	if len(foreign) > 0 {
		v.problem(part.File, "it has rows of a run that is not of this dataset: %s", strings.Join(slices.Sorted(maps.Keys(foreign)), ", "))
	}
}

// begin starts the tally, whose files are hashed and discarded. Further parts must have the columns of the first.
func (v *verifier) begin(part string, s resultfile.Schema) (err error) {
	if v.tally != nil {
		if !slices.Equal(s.Names(), v.columns) {
			return fmt.Errorf("its columns are not those of %s", v.first)
		}
		return nil
	}
	v.first, v.columns = part, s.Names()
	v.tally, err = newTally(s, v.Sheet.WeightColumn, func(name string) io.Writer {
		h := sha256.New()
		v.hashes[name] = func() string { return fmt.Sprintf("%x", h.Sum(nil)) }
		return h
	})
	return err
}

func (v *verifier) add(r resultfile.Row) error {
	if accepted(r) {
		v.blocks = append(v.blocks, splitBlock{strings.Clone(r.Cell(applicationColumn)), nearKey(r.Cell("hex"))})
		v.splits = append(v.splits, strings.Clone(r.Cell(splitColumn)))
	}
	return v.tally.add(r.Cells)
}

// derived checks what follows from the rows against the datasheet and the other files.
func (v *verifier) derived() {
	for _, name := range slices.Sorted(maps.Keys(v.hashes)) {
		if v.hashes[name]() != v.listed[name] {
			v.problem(name, "it does not follow from the parts")
		}
	}
	if v.tally.sum() != v.Sheet.Content {
		v.problem(SheetFile, "content_sha256 does not follow from the parts")
	}
	a, b := reflect.ValueOf(v.tally.counts), reflect.ValueOf(v.Sheet.Counts)
	for i := range a.NumField() {
		if x, y := fmt.Sprint(a.Field(i)), fmt.Sprint(b.Field(i)); x != y {
			v.problem(SheetFile, "counts: %s is %s by the parts, and %s in the datasheet",
				strings.TrimSuffix(a.Type().Field(i).Tag.Get("json"), ",omitempty"), x, y)
		}
	}
}

// split checks that near-duplicates, and applications, are each in one split.
func (v *verifier) split() {
	owner := map[uint64]string{}
	for i, b := range v.blocks {
		split := v.splits[i]
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
