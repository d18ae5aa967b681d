package state

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/bbprof/bbprof/initial"
)

// Reader reads a file. Its methods may be called by several goroutines at a time.
type Reader struct {
	name   string
	from   io.ReaderAt
	close  func() error
	about  About
	index  []Entry
	chunks []chunk // of visits

	mu         sync.Mutex
	decompress *zstd.Decoder
	recent     []*unpacked // the latest used last
}

// chunk is where one of visits stands, and what it holds.
type chunk struct {
	header
	offset     int64
	firstVisit int // index of its first one among all
	firstPage  int
}

// unpacked is a chunk of visits in memory.
type unpacked struct {
	chunk  int
	visits []visit
	pages  []byte
}

type visit struct{ before, after half }

type half struct {
	registers
	pages []reference
}

// cached is how many chunks are kept, of 0.6 MB where visits touch few pages.
const cached = 16

// Open opens a file and reads its index. An error about its contents is an *Error.
func Open(name string) (*Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &Error{Subject: name, Problem: "it cannot be read", Remedy: wholeFile(name), Err: errors.Unwrap(err)}
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &Error{Subject: name, Problem: "it is a directory", Remedy: "name a file"}
	case !info.Mode().IsRegular():
		err = &Error{Subject: name, Problem: "not a regular file", Remedy: "copy it to one: states are read out of order"}
	}
	var r *Reader
	if err == nil {
		r, err = NewReader(name, f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	r.close = f.Close
	return r, nil
}

// wholeFile is what to do about the name of one state where its file is wanted, "" of any other name.
func wholeFile(name string) string {
	at := max(0, strings.LastIndexByte(name, '#'))
	if _, err := os.Stat(name[:at]); err != nil {
		return ""
	}
	return fmt.Sprintf("name the whole file, %s; bbprof -state %s measures this one state", name[:at], name)
}

// NewReader reads the index of a file of that size; errors call it name.
func NewReader(name string, from io.ReaderAt, size int64) (*Reader, error) {
	decompress, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(maxRaw)), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	r := &Reader{name: name, from: from, close: func() error { return nil }, decompress: decompress}
	return r, r.scan(size)
}

func (r *Reader) Close() error {
	r.decompress.Close()
	return r.close()
}

func (r *Reader) About() About { return r.about }

// Index lists all visits, in the order of the file.
func (r *Reader) Index() []Entry { return r.index }

// At is the visit with a number.
func (r *Reader) At(id int) (Visit, error) {
	if id < 1 || id > len(r.index) {
		return Visit{}, &Error{Subject: r.name, Problem: fmt.Sprintf("no state %d: it holds %d", id, len(r.index)), Remedy: "bbprof capture -index lists them"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].firstVisit+int(r.chunks[i].Visits) >= id })
	u, err := r.unpack(n)
	if err != nil {
		return Visit{}, err
	}
	stored := u.visits[id-1-r.chunks[n].firstVisit]
	v := Visit{Entry: r.index[id-1]}
	if v.Before, err = r.restore(&stored.before); err == nil {
		v.After, err = r.restore(&stored.after)
	}
	return v, err
}

func (r *Reader) restore(h *half) (initial.Captured, error) {
	c := h.captured()
	for _, ref := range h.pages {
		n := sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].firstPage+int(r.chunks[i].Pages) > int(ref.Page) })
		if n == len(r.chunks) {
			return c, r.damaged(fmt.Errorf("a visit names page %d, which is not there", ref.Page))
		}
		u, err := r.unpack(n)
		if err != nil {
			return c, err
		}
		at := (int(ref.Page) - r.chunks[n].firstPage) * pageSize
		p := initial.Page{Address: ref.Address &^ (pageSize - 1), Writable: ref.Address&1 != 0}
		copy(p.Data[:], u.pages[at:])
		c.Pages = append(c.Pages, p)
	}
	return c, nil
}

func (r *Reader) damaged(err error) error {
	return &Error{Subject: r.name, Problem: "it is damaged", Remedy: "capture again", Err: err}
}

func (r *Reader) scan(size int64) error {
	first := make([]byte, len(Magic))
	if n, err := r.from.ReadAt(first, 0); n < len(first) && err != io.EOF {
		return &Error{Subject: r.name, Problem: "it cannot be read", Err: err}
	}
	const unversioned = len(Magic) - 2
	if string(first) != Magic {
		if string(first[:unversioned]) == Magic[:unversioned] {
			return &Error{Subject: r.name, Problem: fmt.Sprintf("it is of version %q, which this bbprof does not know", first[unversioned:unversioned+1]), Remedy: "use the bbprof that wrote it, or a newer one"}
		}
		return &Error{Subject: r.name, Problem: "not a file of captured states", Remedy: "bbprof capture writes such files"}
	}
	s := scanner{Reader: r, at: int64(len(Magic)), size: size}
	for !s.ended {
		if err := s.next(); err != nil {
			return err
		}
	}
	return s.finish()
}

type scanner struct {
	*Reader
	at, size      int64
	ended         bool
	visits, pages int
	rows          bytes.Buffer
}

func (s *scanner) next() error {
	var head [headerSize]byte
	if n, err := s.from.ReadAt(head[:], s.at); n < headerSize {
		if err != io.EOF {
			return &Error{Subject: s.name, Problem: "it cannot be read", Err: err}
		}
		return &Error{Subject: s.name, Problem: fmt.Sprintf("it is cut off after %d visits, without an index", s.visits), Remedy: "capture again, or copy it again"}
	}
	var h header
	if _, err := binary.Decode(head[:], binary.LittleEndian, &h); err != nil {
		return err
	}
	c := chunk{h, s.at, s.visits, s.pages}
	if int64(h.Stored) > s.size-s.at-headerSize {
		return &Error{Subject: s.name, Problem: fmt.Sprintf("it is cut off, or damaged, after %d visits", s.visits), Remedy: "capture again, or copy it again"}
	}
	s.at += headerSize + int64(h.Stored)
	if h.Kind == kindVisits {
		if h.Visits == 0 || h.Visits > fullVisits || h.Pages > fullPages+2*MaxPages || s.pages > math.MaxUint32-int(h.Pages) {
			return s.damaged(fmt.Errorf("a chunk has %d visits and %d pages", h.Visits, h.Pages))
		}
		s.chunks = append(s.chunks, c)
		s.visits += int(h.Visits)
		s.pages += int(h.Pages)
		return nil
	}
	if h.Kind == kindIndex && int64(s.rows.Len())+int64(h.Raw) > fullIndex+indexShare*s.size {
		return s.damaged(errors.New("its index is far too large for what it holds"))
	}
	raw, err := s.load(c)
	if err != nil {
		return err
	}
	switch h.Kind {
	case kindAbout:
		if err := json.Unmarshal(raw, &s.about); err != nil {
			return s.damaged(err)
		}
	case kindIndex:
		s.rows.Write(raw)
	case kindEnd:
		if int(h.Visits) != s.visits || int(h.Pages) != s.pages {
			return s.damaged(fmt.Errorf("it has %d visits and %d pages, and says that it has %d and %d", s.visits, s.pages, h.Visits, h.Pages))
		}
		s.ended = true
	default:
		return s.damaged(fmt.Errorf("a chunk of kind %d", h.Kind))
	}
	return nil
}

// indexShare bounds the index of a file by the file's size, whatever it decompresses to: a visit takes
// some hundred bytes, and its row as many.
const indexShare = 16

func (s *scanner) finish() error {
	rows := csv.NewReader(&s.rows)
	rows.FieldsPerRecord, rows.ReuseRecord = len(columns), true
	names := map[string]string{} // the same block, file and function are in many rows
	for n := -1; ; n++ {
		cells, err := rows.Read()
		switch {
		case err == io.EOF && n != s.visits:
			return s.damaged(fmt.Errorf("its index has %d rows for %d visits", max(n, 0), s.visits))
		case err == io.EOF:
			return nil
		case err != nil:
			return s.damaged(err)
		case n < 0:
			if !slices.Equal(cells, columns) {
				return s.damaged(errors.New("its index has other columns"))
			}
			continue
		}
		e, err := entry(cells, names)
		if err == nil && e.ID != n+1 {
			err = fmt.Errorf("row %d of its index is of state %d", n+1, e.ID)
		}
		if err != nil {
			return s.damaged(err)
		}
		s.index = append(s.index, e)
	}
}

// entry is a row of the index; names holds one copy of each text.
func entry(cells []string, names map[string]string) (e Entry, err error) {
	for i, to := range map[int]*string{0: &e.Hex, 2: &e.File, 3: &e.Function} {
		if _, ok := names[cells[i]]; !ok {
			own := string([]byte(cells[i]))
			names[own] = own
		}
		*to = names[cells[i]]
	}
	var id, pages, changed uint64
	for i, to := range map[int]*uint64{1: &id, 4: &e.Address, 5: &e.Offset, 6: &e.Visit, 7: &e.Visits, 8: &pages, 9: &changed} {
		if *to, err = strconv.ParseUint(cells[i], 0, 64); err != nil {
			return e, err
		}
	}
	e.ID, e.Pages, e.Changed = int(id), int(pages), int(changed)
	return e, nil
}

func (r *Reader) load(c chunk) ([]byte, error) {
	if c.Raw > uint32(maxRaw) || c.Stored > uint32(maxRaw)+maxRawExcess {
		return nil, r.damaged(fmt.Errorf("a chunk at byte %d says that it has %d bytes", c.offset, c.Raw))
	}
	whole := make([]byte, headerSize+int(c.Stored))
	if _, err := r.from.ReadAt(whole, c.offset); err != nil {
		return nil, &Error{Subject: r.name, Problem: "it cannot be read", Err: err}
	}
	const sum = headerSize - 4
	if checksum(whole[:sum], whole[headerSize:]) != c.Sum {
		return nil, r.damaged(fmt.Errorf("the checksum of the chunk at byte %d is wrong", c.offset))
	}
	raw, err := r.decompress.DecodeAll(whole[headerSize:], make([]byte, 0, c.Raw))
	if err != nil {
		return nil, r.damaged(err)
	}
	if len(raw) != int(c.Raw) {
		return nil, r.damaged(fmt.Errorf("the chunk at byte %d decompresses to %d bytes, not %d", c.offset, len(raw), c.Raw))
	}
	return raw, nil
}

// maxRawExcess is by how much zstd may lengthen what it cannot compress: a header and 3 bytes for each
// block of 128 KiB (RFC 8878, 3.1.1).
const maxRawExcess = 1 << 10

// unpack gives a chunk, from memory if it was used lately.
func (r *Reader) unpack(n int) (*unpacked, error) {
	if i := slices.IndexFunc(r.recent, func(u *unpacked) bool { return u.chunk == n }); i >= 0 {
		u := r.recent[i]
		r.recent = append(slices.Delete(r.recent, i, i+1), u)
		return u, nil
	}
	raw, err := r.load(r.chunks[n])
	if err != nil {
		return nil, err
	}
	u, err := parse(raw, int(r.chunks[n].Visits), int(r.chunks[n].Pages))
	if err != nil {
		return nil, r.damaged(err)
	}
	u.chunk = n
	if len(r.recent) == cached {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	r.recent = append(r.recent, u)
	return u, nil
}

func parse(raw []byte, visits, pages int) (*unpacked, error) {
	u := &unpacked{visits: make([]visit, visits)}
	for i := range u.visits {
		for _, h := range []*half{&u.visits[i].before, &u.visits[i].after} {
			n, err := binary.Decode(raw, binary.LittleEndian, &h.registers)
			if err != nil || len(raw) < n+4 {
				return nil, errors.New("a visit is cut off")
			}
			count := int(binary.LittleEndian.Uint32(raw[n:]))
			raw = raw[n+4:]
			if count > MaxPages || len(raw) < count*referenceSize {
				return nil, fmt.Errorf("a visit says that it has %d pages", count)
			}
			h.pages = make([]reference, count)
			if n, err = binary.Decode(raw, binary.LittleEndian, h.pages); err != nil {
				return nil, err
			}
			raw = raw[n:]
		}
	}
	if len(raw) != pages*pageSize {
		return nil, fmt.Errorf("a chunk has %d bytes of pages, not %d", len(raw), pages*pageSize)
	}
	u.pages = raw
	return u, nil
}

// WriteIndex writes the index as CSV: a corpus of the blocks, in which the column state says where
// each state is.
func (r *Reader) WriteIndex(w io.Writer) error {
	rows := csv.NewWriter(w)
	if err := rows.Write(columns); err != nil {
		return err
	}
	for i := range r.index {
		if err := rows.Write(r.index[i].cells(r.name + "#")); err != nil {
			return err
		}
	}
	rows.Flush()
	return rows.Error()
}
