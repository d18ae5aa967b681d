package state

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/initial"
)

// Writer writes a file. Its memory grows by 36 bytes for each page with contents of its own.
type Writer struct {
	w        io.Writer
	compress *zstd.Encoder

	visits  []byte // of the chunk that is being filled
	pages   []byte
	counts  header // of it
	totals  header
	known   map[[sha256.Size]byte]uint32
	index   bytes.Buffer
	rows    *csv.Writer
	entries int
}

// NewWriter begins a file.
func NewWriter(w io.Writer, about About) (*Writer, error) {
	compress, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return nil, err
	}
	s := &Writer{w: w, compress: compress, known: map[[sha256.Size]byte]uint32{}}
	s.rows = csv.NewWriter(&s.index)
	if _, err := io.WriteString(w, Magic); err != nil {
		return nil, err
	}
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	if err := s.chunk(header{Kind: kindAbout}, text); err != nil {
		return nil, err
	}
	return s, s.rows.Write(columns)
}

var columns = []string{"hex", "state", "file", "function", "address", "offset", "visit", "visits", "pages", "changed"}

// cells is a row of the index; name is what stands before the number in the column state.
func (e *Entry) cells(name string) []string {
	return []string{e.Hex, name + strconv.Itoa(e.ID), e.File, e.Function, fmt.Sprintf("%#x", e.Address), fmt.Sprintf("%#x", e.Offset),
		strconv.FormatUint(e.Visit, 10), strconv.FormatUint(e.Visits, 10), strconv.Itoa(e.Pages), strconv.Itoa(e.Changed)}
}

// Add appends a visit, whose ID, Pages and Changed it sets.
func (s *Writer) Add(v *Visit) error {
	s.entries++
	v.ID, v.Pages, v.Changed = s.entries, len(v.Before.Pages), len(v.After.Pages)
	for _, c := range []*initial.Captured{&v.Before, &v.After} {
		if len(c.Pages) > MaxPages {
			return fmt.Errorf("a visit of block %s touches %d pages; a file takes at most %d", v.Hex, len(c.Pages), MaxPages)
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
	s.counts.Visits++
	if err := s.rows.Write(v.cells("")); err != nil {
		return err
	}
	if s.counts.Visits < fullVisits && s.counts.Pages < fullPages {
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
		s.counts.Pages++
	}
	at := p.Address &^ (pageSize - 1)
	if p.Writable {
		at |= 1
	}
	s.visits = binary.LittleEndian.AppendUint64(s.visits, at)
	s.visits = binary.LittleEndian.AppendUint32(s.visits, n)
}

func (s *Writer) flush() error {
	if s.counts.Visits == 0 {
		return nil
	}
	s.counts.Kind = kindVisits
	s.totals.Visits += s.counts.Visits
	s.totals.Pages += s.counts.Pages
	err := s.chunk(s.counts, append(s.visits, s.pages...))
	s.visits, s.pages, s.counts = s.visits[:0], s.pages[:0], header{}
	return err
}

func (s *Writer) chunk(h header, raw []byte) error {
	stored := s.compress.EncodeAll(raw, nil)
	h.Stored, h.Raw = uint32(len(stored)), uint32(len(raw))
	head, err := h.sealed(stored)
	if err != nil {
		return err
	}
	if _, err := s.w.Write(head); err != nil {
		return err
	}
	_, err = s.w.Write(stored)
	return err
}

// sealed is the header's bytes, with the sum.
func (h header) sealed(stored []byte) ([]byte, error) {
	head, err := binary.Append(nil, binary.LittleEndian, &h)
	if err != nil {
		return nil, err
	}
	const sum = headerSize - 4
	binary.LittleEndian.PutUint32(head[sum:], checksum(head[:sum], stored))
	return head, nil
}

// checksum is CRC-32C (Castagnoli, RFC 3720, appendix B.4).
func checksum(parts ...[]byte) (sum uint32) {
	table := crc32.MakeTable(crc32.Castagnoli)
	for _, p := range parts {
		sum = crc32.Update(sum, table, p)
	}
	return sum
}

// Close writes what is left, and the index. It does not close what it writes to.
func (s *Writer) Close() error {
	if err := s.flush(); err != nil {
		return err
	}
	s.rows.Flush()
	for s.index.Len() > 0 {
		if err := s.chunk(header{Kind: kindIndex}, s.index.Next(fullIndex)); err != nil {
			return err
		}
	}
	s.totals.Kind = kindEnd
	return s.chunk(s.totals, nil)
}

// File is a Writer of a file with a name, which is there once it is closed. Nobody else may read it:
// it holds the memory of a program.
type File struct {
	*Writer
	file *atomicfile.File
	out  *bufio.Writer
}

// Create begins a file.
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

// Close completes the file and puts it into its place.
func (f *File) Close() error {
	if err := cmp.Or(f.Writer.Close(), f.out.Flush()); err != nil {
		f.Abort()
		return err
	}
	return f.file.Commit()
}

// Abort removes what was written.
func (f *File) Abort() { f.file.Abort() }
