package extract

import (
	"bytes"
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

func isArchive(r io.ReaderAt) bool {
	var magic [len(archiveMagic)]byte
	_, err := r.ReadAt(magic[:], 0)
	return err == nil && (string(magic[:]) == archiveMagic || string(magic[:]) == thinMagic)
}

// archive calls member for each ELF file in an archive.
func archive(name string, r io.ReaderAt, size int64, member func(name string, r io.ReaderAt) error) error {
	var magic [len(thinMagic)]byte
	if _, err := r.ReadAt(magic[:], 0); err == nil && string(magic[:]) == thinMagic {
		return &InputError{Subject: name, Problem: "a thin archive, which holds names alone", Remedy: "name the object files"}
	}
	var names []byte
	for at := int64(len(archiveMagic)); at < size; {
		var h [memberHeader]byte
		if _, err := r.ReadAt(h[:], at); err != nil {
			if errors.Is(err, io.EOF) {
				return truncated(name, at)
			}
			return &InputError{Subject: name, Problem: plain(err)}
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		at += memberHeader
		if err != nil || n < 0 || h[58] != '`' || n > size-at {
			return truncated(name, at-memberHeader)
		}
		title := strings.TrimRight(string(h[:16]), " ")
		body := io.NewSectionReader(r, at, n)
		at += n + n&1
		switch {
		case title == "/", title == "/SYM64/":
		case title == "//":
			if n > maxNamesTable {
				return truncated(name, at)
			}
			names = make([]byte, n)
			if _, err := body.ReadAt(names, 0); err != nil && !errors.Is(err, io.EOF) {
				return &InputError{Subject: name, Problem: plain(err)}
			}
		default:
			if !isELF(body) {
				continue
			}
			if err := member(name+"("+memberName(title, names)+")", body); err != nil {
				return err
			}
		}
	}
	return nil
}

func truncated(name string, at int64) error {
	return &InputError{Subject: name, Problem: "a damaged archive: no whole member at byte " + strconv.FormatInt(at, 10)}
}

func isELF(r io.ReaderAt) bool {
	var magic [4]byte
	_, err := r.ReadAt(magic[:], 0)
	return err == nil && string(magic[:]) == "\x7fELF"
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
