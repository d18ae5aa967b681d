package batch

import (
	"fmt"
	"io"
	"os"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
)

// DisplacedError reports that a result's path no longer names the file that this run writes and has locked, or
// that another program changed that file. The run stops: rows must neither get lost nor go to someone else's file.
type DisplacedError struct {
	Path string
	What string // what happened to the file
	Rows string // the file with this run's rows; "" if there is none
}

func (e *DisplacedError) Error() string {
	text := fmt.Sprintf("%s %s", e.Path, e.What)
	if e.Rows != "" && e.Rows != e.Path {
		text += "; the rows of this run are in " + e.Rows
	}
	return text
}

// inPlace fails with a *DisplacedError unless path names the open file, or is empty.
func inPlace(path string, f *os.File) error {
	if path == "" || atomicfile.InPlace(path, f) {
		return nil
	}
	return &DisplacedError{Path: path, What: "was moved, deleted or replaced while this run wrote it"}
}

// unchanged fails with a *DisplacedError if a file's size is not what this run made it.
func unchanged(path string, f *os.File, size int64) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() < size:
		return &DisplacedError{path, fmt.Sprintf("was cut from %d to %d bytes by another program, and the rows after that are lost", size, info.Size()), path}
	case info.Size() > size:
		return &DisplacedError{path, fmt.Sprintf("was written to by another program: it has %d bytes instead of %d", info.Size(), size), path}
	}
	return nil
}

// rescue copies the rows of a moved or deleted file, readable while it is open, to a file beside its former path.
func rescue(path string, f *os.File, size int64) (name string, err error) {
	to, err := atomicfile.CreateBeside(path, "rescued", 0o666)
	if err != nil {
		return "", err
	}
	defer to.Close()
	if _, err := io.Copy(to, io.NewSectionReader(f, 0, size)); err != nil {
		os.Remove(to.Name())
		return "", err
	}
	return to.Name(), to.Sync()
}
