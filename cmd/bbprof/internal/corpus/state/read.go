package state

import (
	"archive/zip"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
)

// Reader reads a file. Its methods may be called concurrently.
type Reader struct {
	name          string
	close         func() error
	about         About
	index         []Entry
	chunks        []chunk
	visits, pages int // in all chunks

	mu     sync.Mutex
	recent map[int]*chunkData // by number of the chunk
}

// chunk describes a chunk of visits: its position and its numbers of visits and new pages.
type chunk struct {
	file                  *zip.File
	visits, pages         int
	firstVisit, firstPage int // global indices of its first ones
}

type chunkData struct {
	visits []visit
	pages  []byte
}

type visit struct{ before, after half }

type half struct {
	registers
	pages []reference
}

// cached is how many chunks are kept, of 0.6 MB each if visits touch few pages.
const cached = 16

// Open opens a file and reads its index. An error in its contents is a *words.Error.
func Open(name string) (*Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &words.Error{Subject: name, Problem: "it cannot be read", Remedy: wholeFile(name), Err: errors.Unwrap(err)}
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &words.Error{Subject: name, Problem: "it is a directory", Remedy: "name a file"}
	case !info.Mode().IsRegular():
		err = &words.Error{Subject: name, Problem: "not a regular file", Remedy: "copy it to one: states are read out of order"}
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

// wholeFile advises what to do with the name of one state instead of its file, "" for any other name.
func wholeFile(name string) string {
	at := max(0, strings.LastIndexByte(name, '#'))
	if _, err := os.Stat(name[:at]); err != nil {
		return ""
	}
	return fmt.Sprintf("name the whole file, %s; bbprof -state %s measures this one state", name[:at], name)
}

// NewReader reads the index of a file of the given size; errors call it name.
func NewReader(name string, from io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{name: name, close: func() error { return nil }, recent: map[int]*chunkData{}}
	var start [2]byte
	from.ReadAt(start[:], 0)
	archive, err := zip.NewReader(from, size)
	switch {
	case string(start[:]) != "PK", err == nil && (len(archive.File) == 0 || archive.File[0].Name != aboutFile):
		return nil, &words.Error{Subject: name, Problem: "not a file of captured states", Remedy: "bbprof capture writes such files"}
	case err != nil:
		return nil, &words.Error{Subject: name, Problem: "it is cut off, or damaged", Remedy: "capture again, or copy it again", Err: err}
	}
	return r, r.open(archive.File, size)
}

func (r *Reader) open(files []*zip.File, size int64) error {
	text, err := r.load(files[0], maxAbout)
	if err != nil {
		return err
	}
	var about versionedAbout
	if err := json.Unmarshal(text, &about); err != nil {
		return r.damaged(err)
	}
	if about.Version != version {
		return &words.Error{Subject: r.name, Problem: fmt.Sprintf("it is of version %d, which this bbprof does not know",
			about.Version), Remedy: "use the bbprof that wrote it, or a newer one"}
	}
	r.about = about.About
	last := len(files) - 1
	if files[last].Name != indexFile {
		return r.damaged(errors.New("it has no index"))
	}
	for _, f := range files[1:last] {
		c := chunk{file: f, firstVisit: r.visits, firstPage: r.pages}
		fmt.Sscanf(f.Name, chunkFile, &c.visits, &c.pages)
		if f.Name != fmt.Sprintf(chunkFile, c.visits, c.pages) || c.visits < 1 || c.visits > fullVisits || c.pages < 0 ||
			c.pages > fullPages+2*maxPages || r.pages > math.MaxUint32-c.pages {
			return r.damaged(fmt.Errorf("%.40q is not a chunk of visits", f.Name))
		}
		r.chunks = append(r.chunks, c)
		r.visits += c.visits
		r.pages += c.pages
	}
	rows, err := r.load(files[last], maxAbout+indexShare*uint64(size))
	if err != nil {
		return err
	}
	return r.readIndex(rows)
}

// maxAbout bounds aboutFile; indexShare bounds the index relative to the file's size, even compressed: a visit
// takes some hundred bytes, and its row about the same.
const (
	maxAbout   = 1 << 20
	indexShare = 16
)

func (r *Reader) Close() error { return r.close() }

func (r *Reader) About() About { return r.about }

// Index lists all visits in file order.
func (r *Reader) Index() []Entry { return r.index }

func (r *Reader) At(id int) (Visit, error) {
	if id < 1 || id > len(r.index) {
		return Visit{}, &words.Error{Subject: r.name, Problem: fmt.Sprintf("no state %d: it holds %d", id, len(r.index)), Remedy: "bbprof capture -index lists them"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].firstVisit+r.chunks[i].visits >= id })
	u, err := r.unpack(n)
	if err != nil {
		return Visit{}, err
	}
	stored := u.visits[id-1-r.chunks[n].firstVisit]
	v := Visit{Entry: r.index[id-1]}
	if v.Before, err = r.restore(&stored.before); err == nil {
		v.After, err = r.restore(&stored.after)
	}
	v.Before.Header = v.Entry.Entry
	return v, err
}

func (r *Reader) restore(h *half) (initial.Captured, error) {
	c := h.captured()
	for _, ref := range h.pages {
		n := sort.Search(len(r.chunks), func(i int) bool { return r.chunks[i].firstPage+r.chunks[i].pages > int(ref.Page) })
		if n == len(r.chunks) {
			return c, r.damaged(fmt.Errorf("a visit refers to page %d, which is missing", ref.Page))
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
	return &words.Error{Subject: r.name, Problem: "it is damaged", Remedy: "capture again", Err: err}
}

func (r *Reader) readIndex(text []byte) error {
	if err := json.Unmarshal(text, &r.index); err != nil {
		return r.damaged(err)
	}
	if len(r.index) != r.visits {
		return r.damaged(fmt.Errorf("its index has %d rows for %d visits", len(r.index), r.visits))
	}
	for n, e := range r.index {
		if e.ID != n+1 {
			return r.damaged(fmt.Errorf("row %d of its index is of state %d", n+1, e.ID))
		}
	}
	return nil
}

// load reads a file of the archive, of at most most bytes.
func (r *Reader) load(f *zip.File, most uint64) ([]byte, error) {
	if f.UncompressedSize64 > most {
		return nil, r.damaged(fmt.Errorf("%.40q says that it has %d bytes", f.Name, f.UncompressedSize64))
	}
	var text []byte
	in, err := f.Open()
	if err == nil {
		defer in.Close()
		text, err = io.ReadAll(io.LimitReader(in, int64(most)+1)) // reading to the end verifies the checksum
	}
	if err == nil && uint64(len(text)) != f.UncompressedSize64 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, r.damaged(fmt.Errorf("%.40q: %w", f.Name, err))
	}
	return text, nil
}

// unpack returns a chunk, and keeps it for a while.
func (r *Reader) unpack(n int) (*chunkData, error) {
	if u := r.recent[n]; u != nil {
		return u, nil
	}
	raw, err := r.load(r.chunks[n].file, uint64(maxRaw))
	if err != nil {
		return nil, err
	}
	u, err := parse(raw, r.chunks[n].visits, r.chunks[n].pages)
	if err != nil {
		return nil, r.damaged(err)
	}
	if len(r.recent) == cached {
		clear(r.recent)
	}
	r.recent[n] = u
	return u, nil
}

func parse(raw []byte, visits, pages int) (*chunkData, error) {
	u := &chunkData{visits: make([]visit, visits)}
	for i := range u.visits {
		for _, h := range []*half{&u.visits[i].before, &u.visits[i].after} {
			n, err := binary.Decode(raw, binary.LittleEndian, &h.registers)
			if err != nil || len(raw) < n+4 {
				return nil, errors.New("a visit is cut off")
			}
			count := int(binary.LittleEndian.Uint32(raw[n:]))
			raw = raw[n+4:]
			if count > maxPages || len(raw) < count*referenceSize {
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

// WriteIndex writes the index as CSV: a corpus of the blocks, whose column state names each state.
func (r *Reader) WriteIndex(w io.Writer) error {
	rows := csv.NewWriter(w)
	rows.Write([]string{"hex", "state", "file", "function", "address", "offset", "visit", "visits", "pages", "changed", "entry", "skipped"}) // errors persist
	for _, e := range r.index {
		entry, skipped := "", ""
		if e.Entry != nil {
			entry, skipped = strconv.Itoa(*e.Entry), fmt.Sprint(e.Skipped)
		}
		rows.Write([]string{e.Hex, fmt.Sprintf("%s#%d", r.name, e.ID), e.File, e.Function, fmt.Sprintf("%#x", e.Address), fmt.Sprintf("%#x", e.Offset),
			fmt.Sprint(e.Visit), fmt.Sprint(e.Visits), fmt.Sprint(e.Pages), fmt.Sprint(e.Changed), entry, skipped})
	}
	rows.Flush()
	return rows.Error()
}
