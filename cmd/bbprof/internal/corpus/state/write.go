package state

import (
	"archive/zip"
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/initial"
)

// Writer writes a file. It needs 36 bytes of memory for each distinct page.
type Writer struct {
	zip *zip.Writer

	visits, pages   []byte // of the current chunk
	nVisits, nPages int    // of the current chunk
	known           map[[sha256.Size]byte]uint32
	index           []Entry
}

func NewWriter(w io.Writer, about About) (*Writer, error) {
	s := &Writer{zip: zip.NewWriter(w), known: map[[sha256.Size]byte]uint32{}}
	text, err := json.Marshal(versionedAbout{version, about})
	if err == nil {
		err = s.put(aboutFile, text)
	}
	return s, err
}

type versionedAbout struct {
	Version int `json:"version"`
	About
}

func (s *Writer) put(name string, text []byte) error {
	w, err := s.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate}) // no timestamp: equal states make equal files
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Add appends a visit, and sets its ID, Pages and Changed.
func (s *Writer) Add(v *Visit) error {
	v.ID, v.Pages, v.Changed = len(s.index)+1, len(v.Before.Pages), len(v.After.Pages)
	for _, c := range []*initial.Captured{&v.Before, &v.After} {
		if len(c.Pages) > maxPages {
			return fmt.Errorf("a visit of block %s touches %d pages; a file takes at most %d", v.Hex, len(c.Pages), maxPages)
		}
		r, err := registersOf(c)
		if err != nil {
			return err
		}
		if s.visits, err = binary.Append(s.visits, binary.LittleEndian, &r); err != nil {
			return err
		}
		s.visits = binary.LittleEndian.AppendUint32(s.visits, uint32(len(c.Pages)))
		for i := range c.Pages {
			s.page(&c.Pages[i])
		}
	}
	s.index = append(s.index, v.Entry)
	if s.nVisits++; s.nVisits < fullVisits && s.nPages < fullPages {
		return nil
	}
	return s.flush()
}

// page appends a reference, and the page if it is new.
func (s *Writer) page(p *initial.Page) {
	hash := sha256.Sum256(p.Data[:])
	n, ok := s.known[hash]
	if !ok {
		n = uint32(len(s.known))
		s.known[hash] = n
		s.pages = append(s.pages, p.Data[:]...)
		s.nPages++
	}
	at := p.Address &^ (pageSize - 1)
	if p.Writable {
		at |= 1
	}
	s.visits = binary.LittleEndian.AppendUint64(s.visits, at)
	s.visits = binary.LittleEndian.AppendUint32(s.visits, n)
}

func (s *Writer) flush() error {
	if s.nVisits == 0 {
		return nil
	}
	err := s.put(fmt.Sprintf(chunkFile, s.nVisits, s.nPages), append(s.visits, s.pages...))
	s.visits, s.pages, s.nVisits, s.nPages = s.visits[:0], s.pages[:0], 0, 0
	return err
}

// Close writes the last chunk and the index. It leaves the underlying writer open.
func (s *Writer) Close() error {
	err := s.flush()
	index, indexErr := json.Marshal(append([]Entry{}, s.index...)) // an array, even of none
	if err = cmp.Or(err, indexErr); err == nil {
		err = s.put(indexFile, index)
	}
	if err == nil {
		err = s.zip.Close()
	}
	return err
}

// File is a Writer of a named file, which appears when closed. Nobody else may read it, because it holds a
// program's memory.
type File struct {
	*Writer
	file *atomicfile.File
	out  *bufio.Writer
}

func Create(name string, about About) (*File, error) {
	file, err := atomicfile.Create(name, "capturing", 0o600)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, out: bufio.NewWriter(file)}
	if f.Writer, err = NewWriter(f.out, about); err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

// Close completes the file and moves it into place.
func (f *File) Close() error {
	if err := cmp.Or(f.Writer.Close(), f.out.Flush()); err != nil {
		f.Abort()
		return err
	}
	return f.file.Commit()
}

func (f *File) Abort() { f.file.Abort() }
