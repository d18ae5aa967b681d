package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// OpenLocked opens or creates a file to append to, and locks out other runs. It follows no link.
func OpenLocked(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 { // noFollow refuses one that comes after this
		return nil, fmt.Errorf("%s: it is a symbolic link; remove it, or name another file with -o", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|noFollow, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	default:
		err = Lock(f)
	}
	if err == nil && !InPlace(path, f) { // another run may have renamed its own there before the lock
		err = errors.New("another bbprof moved, removed or replaced it just now; start again")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// InPlace reports whether a path names the open file; ask before reading or removing it by name.
func InPlace(path string, f *os.File) bool {
	here, err1 := f.Stat()
	there, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(here, there)
}
