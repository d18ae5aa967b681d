// Package atomicfile writes a result to a temporary file before it replaces another, locks a file that several
// runs may append to, and keeps data without a name.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// maxBase limits how much of a file's name a companion repeats: file systems allow names of 255 bytes, and the
// companion adds some.
const maxBase = 200

// CreateBeside creates a file with an unused name in the directory of path. It follows no link, which in a shared
// directory could lead a privileged run to another user's file.
func CreateBeside(path, purpose string, mode fs.FileMode) (*os.File, error) {
	dir, base := filepath.Split(path)
	for range 100 {
		name := fmt.Sprintf("%s.%s-%08x", base[:min(len(base), maxBase)], purpose, rand.Uint32())
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		switch why := (*fs.PathError)(nil); {
		case errors.As(err, &why) && errors.Is(err, fs.ErrNotExist) && !isDir(dir): // otherwise a directory that allows no new files, such as /proc
			return nil, fmt.Errorf("%s: there is no directory %s", path, filepath.Clean(dir))
		case errors.As(err, &why) && !errors.Is(err, fs.ErrExist):
			return nil, fmt.Errorf("%s: %w", path, why.Err)
		case err == nil:
			return f, nil
		}
	}
	return nil, fmt.Errorf("%s: no free name for a file beside it", path)
}

// A File is written beside its destination, which it replaces when complete.
type File struct {
	*os.File
	path string
}

func Create(path, purpose string, mode fs.FileMode) (*File, error) {
	f, err := CreateBeside(path, purpose, mode)
	return &File{f, path}, err
}

func (f *File) Commit() error {
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		f.Abort()
	}
	return err
}

// Abort removes the file. After Commit it does nothing.
func (f *File) Abort() {
	f.Close()
	os.Remove(f.Name())
}

// ResolveLink returns the file that a result's name refers to: a symbolic link's target is written, renamed and locked
// under its own name. A dangling link is refused, because another user may have set it.
func ResolveLink(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil // opening it will report the error
	}
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("%s is a symbolic link that leads to no file; remove it, or name another file", path)
	}
	return to, nil
}

func isDir(name string) bool {
	info, err := os.Stat(filepath.Clean(name))
	return err == nil && info.IsDir()
}

// Temporary returns an unnamed file that lives while it is open; in memory if there is no folder for it, as in a
// container with bbprof alone.
func Temporary(purpose string) (*os.File, error) {
	f, err := os.CreateTemp("", "bbprof-*")
	if err != nil {
		if f, err := inMemory("bbprof"); err == nil {
			return f, nil
		}
		return nil, fmt.Errorf("keeping %s: %w (TMPDIR names another folder)", purpose, err)
	}
	return f, os.Remove(f.Name())
}
