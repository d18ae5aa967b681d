package extract

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
	"unicode"
)

// Archives as GNU ar and llvm-ar write them, in System V's format (ar(5)): each member starts at an even offset
// with a header of 60 bytes: name 16, time 12, owner 6, group 6, mode 8, size 10, "`\n". "/" and "/SYM64/" are
// symbol tables, "//" holds names longer than 15 bytes.
const (
	archiveMagic  = "!<arch>\n"
	thinMagic     = "!<thin>\n"
	memberHeader  = 60
	maxNamesTable = 1 << 26
)

func starts(r io.ReaderAt, n int) string {
	start := make([]byte, n)
	n, _ = r.ReadAt(start, 0)
	return string(start[:n])
}

func isArchive(r io.ReaderAt) bool {
	magic := starts(r, len(archiveMagic))
	return magic == archiveMagic || magic == thinMagic
}

func isELF(r io.ReaderAt) bool { return starts(r, len(elf.ELFMAG)) == elf.ELFMAG }

// archive calls member for each ELF file in an archive.
func archive(name string, r io.ReaderAt, member func(name string, r io.ReaderAt, marks []string) error) error {
	if starts(r, len(thinMagic)) == thinMagic {
		return &InputError{Subject: name, Problem: "a thin archive, which holds names alone", Remedy: "name the object files"}
	}
	var names []byte
	for at := int64(len(archiveMagic)); ; {
		var h [memberHeader]byte
		switch n, err := r.ReadAt(h[:], at); {
		case n == 0 && errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.EOF):
			return truncated(name, at)
		case err != nil:
			return unreadable(name, err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		title := strings.TrimRight(string(h[:16]), " ")
		body := io.NewSectionReader(r, at+memberHeader, n)
		if _, short := body.ReadAt(make([]byte, 1), n-1); err != nil || n < 0 || h[58] != '`' || n > 0 && short != nil {
			return truncated(name, at)
		}
		at += memberHeader + n + n&1
		switch {
		case title == "//":
			names = make([]byte, min(n, maxNamesTable))
			if _, err := body.ReadAt(names, 0); err != nil && !errors.Is(err, io.EOF) {
				return unreadable(name, err)
			}
		case title != "/" && title != "/SYM64/" && isELF(body):
			if err := member(name+"("+memberName(title, names)+")", body, nil); err != nil {
				return err
			}
		}
	}
}

func truncated(name string, at int64) error {
	return &InputError{Subject: name, Problem: "a damaged archive: no whole member at byte " + strconv.FormatInt(at, 10)}
}

// memberName resolves "name/", or "/123", an offset into the table of long names.
func memberName(title string, names []byte) string {
	if number, ok := strings.CutPrefix(title, "/"); ok {
		if at, err := strconv.Atoi(number); err == nil && at >= 0 && at < len(names) {
			long, _, _ := bytes.Cut(names[at:], []byte("\n"))
			title = string(long)
		}
	}
	return printable(path.Base(strings.TrimSuffix(title, "/")))
}

// printable makes a name safe for a one-line cell: damaged files hold names of arbitrary bytes.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
