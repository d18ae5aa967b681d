package cli

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
)

func WriteResults(output string, stdout io.Writer, write func(io.Writer) error) error {
	if output == "" || output == "-" {
		out := &Lossless{Writer: stdout}
		return out.instead(write(out))
	}
	return WriteWhole(output, write)
}

// WriteWhole writes a temporary file, compressed if the name says so, and renames it when complete; on failure the old
// file is kept. A symbolic link's target is written.
func WriteWhole(name string, write func(io.Writer) error) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return BadUsage("%s is a directory; name a file", name)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return Usage(err)
		}
		out := &Lossless{Writer: f}
		return errors.Join(out.instead(write(out)), f.Close())
	}
	if name, err = atomicfile.ResolveLink(name); err != nil {
		return Usage(err)
	}
	f, err := atomicfile.Create(name, "writing", 0o666)
	if err != nil {
		return Usage(err)
	}
	out, err := Compressed(f, name)
	if err == nil {
		whole := &Lossless{Writer: out}
		err = whole.instead(write(whole))
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
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

func sameFile(a os.FileInfo, name string) bool {
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// Replaceable reports whether WriteWhole could replace a file, before time is spent on its content.
func Replaceable(name string) error {
	info, err := os.Stat(name)
	switch {
	case name == "" || name == "-":
		return nil
	case err == nil && info.IsDir():
		return errors.New("it is a directory; name a file")
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe can be opened only once
	}
	if name, err = atomicfile.ResolveLink(name); err != nil {
		return err
	}
	f, err := atomicfile.Create(name, "writing", 0o666)
	if err == nil {
		f.Abort()
	}
	return err
}
