package corpus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// destination is where a batch's rows go.
type destination struct {
	*batchFlags
	journal  string // file that collects rows: the result itself, if it can be appended to
	special  bool   // the result is a pipe or a device
	complete bool   // exists already, with no journal to resume
}

// resolve replaces a symbolic link given to -o by its target, and reports it.
func (b *batchFlags) resolve(stderr io.Writer) error {
	if info, err := os.Stat(b.out.File); err == nil && !info.Mode().IsRegular() {
		return nil // /dev/stdout is such a link
	}
	to, err := atomicfile.ResolveLink(b.out.File)
	if err == nil && to != b.out.File {
		fmt.Fprintf(stderr, "bbprof: -o %s is a symbolic link; the results go to %s\n", b.out.File, to)
		b.out.File = to
	}
	return err
}

func (b *batchFlags) destination() (d destination, err error) {
	d = destination{batchFlags: b, journal: b.out.File}
	if d.out.File == "" {
		return d, nil
	}
	info, statErr := os.Stat(d.out.File)
	switch {
	case statErr == nil && info.IsDir():
		return d, fmt.Errorf("-o %s is a directory; name a file", d.out.File)
	case statErr == nil && !info.Mode().IsRegular():
		d.special = true
		if b.resume {
			return d, fmt.Errorf("-o %s is not a file that a run could continue", d.out.File)
		}
		return d, nil
	}
	there := statErr == nil && info.Size() > 0
	if !d.direct() {
		d.journal += ".journal"
		_, err := os.Lstat(d.journal)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the name may be too long
			return d, fmt.Errorf("-o %s: rows are gathered in a file beside it: %w", d.out.File, err)
		}
		d.complete = b.resume && there && err != nil
	}
	if there && !b.resume && !b.overwrite {
		return d, fmt.Errorf("-o %s: it is there already, with %d bytes; -resume continues it, -overwrite replaces it", d.out.File, info.Size())
	}
	return d, nil
}

// direct reports whether rows go straight into the result, because its format can be appended to.
func (d destination) direct() bool { return d.format.Appends() && len(d.columns) == 0 }

func (d destination) gathered() resultfile.Format {
	if d.direct() {
		return d.format
	}
	return resultfile.CSV
}

func (d destination) resumed(schema resultfile.Schema, run resultfile.Run, stderr io.Writer) (*batch.Output, error) {
	out, torn, err := batch.Resume(d.journal, d.gathered(), schema, run)
	if err != nil {
		return nil, err
	}
	if n := int(out.Earlier()); n > 0 {
		fmt.Fprintf(stderr, "bbprof: continuing %s, which has %s\n", d.journal, words.Plural(n, "row"))
	}
	if torn > 0 {
		fmt.Fprintf(stderr, "bbprof: dropped %d bytes of a row that was not written in full\n", torn)
	}
	return out, nil
}

func (d destination) create(schema resultfile.Schema, stdout io.Writer) (*batch.Output, error) {
	switch {
	case d.out.File == "":
		return batch.Pipe(stdout, d.format, schema, d.columns, d.unordered)
	case d.special:
		f, err := os.OpenFile(d.out.File, os.O_WRONLY, 0) // closed when the process ends
		if err != nil {
			return nil, err
		}
		return batch.Pipe(f, d.format, schema, d.columns, d.unordered)
	}
	return batch.Create(d.journal, d.gathered(), schema, d.overwrite)
}

// finish sorts the rows and converts them to a format that cannot be appended to.
func (d destination) finish(out *batch.Output) error {
	if !d.unordered {
		if err := out.Sort(); err != nil {
			return err
		}
	}
	if d.journal == d.out.File || d.out.File == "" || d.special {
		return nil
	}
	if err := out.InPlace(); err != nil {
		return err
	}
	rows := convertCmd{files: []string{d.journal}, format: d.format, columns: d.columns}
	if err := cli.WriteWhole(d.out.File, func(w io.Writer) error { return rows.convert(w, os.Stdin) }); err != nil {
		// Not wrapped: bad usage of convert is not the user's.
		return fmt.Errorf("the results are in %s, but %s could not be made of them: %v", d.journal, d.out.File, err)
	}
	if err := out.InPlace(); err != nil {
		return nil // the journal now belongs to another run
	}
	return os.Remove(d.journal)
}
