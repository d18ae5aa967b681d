package cli

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
)

// WriteResults writes to standard output, or to the file that -o names.
func WriteResults(output string, from []string, stdout io.Writer, write func(io.Writer) error) error {
	if output == "" || output == "-" {
		out := &Lossless{Writer: stdout}
		return out.instead(write(out))
	}
	return WriteWhole(output, from, write)
}

// WriteWhole writes a file beside the one of that name, compressed if the name says so, and
// renames it when it is complete: what was there is kept if that fails. It may not be one of
// the files that are read. Of a symbolic link the target is written.
func WriteWhole(name string, from []string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(name); err == nil {
		if info.IsDir() {
			return BadUsage("%s is a directory; name a file", name)
		}
		if !info.Mode().IsRegular() {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return Usage(err)
			}
			out := &Lossless{Writer: f}
			return errors.Join(out.instead(write(out)), f.Close())
		}
		if slices.ContainsFunc(from, func(other string) bool { return SameFile(info, other) }) {
			return BadUsage("%s is the input itself; name another file", name)
		}
	}
	if name, err = atomicfile.ResolveLink(name); err != nil {
		return Usage(err)
	}
	f, err := atomicfile.CreateBeside(name, "writing", 0o666)
	if err != nil {
		return Usage(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	out, err := Compressed(f, name)
	if err != nil {
		return err
	}
	whole := &Lossless{Writer: out}
	if err := whole.instead(write(whole)); err != nil {
		return err
	}
	if err := errors.Join(out.Close(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func Compressed(w io.Writer, name string) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewWriter(w), nil
	case strings.HasSuffix(name, ".zst"):
		return zstd.NewWriter(w)
	}
	return plainCloser{w}, nil
}

type plainCloser struct{ io.Writer }

func (plainCloser) Close() error { return nil }

func SameFile(a os.FileInfo, name string) bool {
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// Replaceable tries whether WriteWhole can put something in the place of a file.
func Replaceable(name string) error {
	info, err := os.Stat(name)
	switch {
	case name == "" || name == "-":
		return nil
	case err == nil && info.IsDir():
		return errors.New("it is a directory; name a file")
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe is opened once
	}
	if name, err = atomicfile.ResolveLink(name); err != nil {
		return err
	}
	f, err := atomicfile.CreateBeside(name, "writing", 0o666)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Writable tries whether a file can be written, before time is spent on what will be in it.
func Writable(name string) error {
	if _, err := atomicfile.ResolveLink(name); err != nil {
		return err // else the link would be removed, and not what it leads to
	}
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if missing != nil {
		os.Remove(name)
	}
	return f.Close()
}
