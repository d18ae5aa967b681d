package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

type WriteError struct{ error }

func (e *WriteError) Unwrap() error { return e.error }

// syncEvery bounds the rows that a power loss can cost.
const syncEvery = 2 * time.Second

// store is an append-only file with a row per line, addressed by offset.
type store struct {
	file  *os.File
	path  string // "" if unnamed
	lines *resultfile.Lines
	end   int64 // end of the last whole row
	line  []byte

	stop   chan struct{} // stops the syncing goroutine
	synced sync.WaitGroup
	failed chan error
}

// newStore appends rows to a file after end, and the header if end is 0.
func newStore(f *os.File, path string, lines *resultfile.Lines, end int64) (*store, error) {
	stop := make(chan struct{})
	s := &store{file: f, path: path, lines: lines, end: end, stop: stop, failed: make(chan error, 1)}
	if end == 0 {
		if err := s.put(lines.Header()); err != nil {
			return nil, err
		}
	}
	s.synced.Go(func() { s.sync(stop) })
	return s, nil
}

// sync runs on its own goroutine, since a disk may be slow.
func (s *store) sync(stop <-chan struct{}) {
	every := time.NewTicker(syncEvery)
	defer every.Stop()
	for {
		select {
		case <-stop:
			return
		case <-every.C:
			err := s.file.Sync()
			if err == nil && s.path != "" {
				err = inPlace(s.path, s.file)
			}
			if err != nil {
				s.failed <- err
				return
			}
		}
	}
}

// append writes a row at once, so that it survives this process, and returns its offset.
func (s *store) append(cells []string) (at int64, err error) {
	select {
	case err := <-s.failed:
		return 0, &WriteError{err}
	default:
	}
	if s.line, err = s.lines.Append(s.line[:0], cells); err != nil {
		return 0, err
	}
	at = s.end
	return at, s.put(s.line)
}

func (s *store) put(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if err := unchanged(s.path, s.file, s.end); err != nil {
		return &WriteError{err} // resuming stops at a gap, so write no more
	}
	return s.write(text)
}

// write appends to a file that was found unchanged. The kernel chooses the position (O_APPEND), so the text's
// final offset reveals concurrent changes by another program. The text is then removed.
func (s *store) write(text []byte) error {
	n, err := s.file.Write(text)
	if err != nil {
		s.file.Truncate(s.end) // removes a partial row; if that fails, the next resume does it
		return &WriteError{err}
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return &WriteError{err}
	}
	if begin := at - int64(n); begin != s.end {
		s.file.Truncate(begin)
		return &WriteError{unchanged(s.path, s.file, s.end)}
	}
	s.end = at
	return nil
}

func (s *store) at(offset int64) ([]string, error) {
	text, err := lineAt(s.file, offset)
	if err != nil {
		return nil, err
	}
	return s.lines.Parse(text, nil)
}

// lineAt returns the line at offset, without its end.
func lineAt(r io.ReaderAt, offset int64) (string, error) {
	for size := 1 << 11; ; size *= 2 {
		buffer := make([]byte, size)
		n, err := r.ReadAt(buffer, offset)
		if end := bytes.IndexByte(buffer[:n], '\n'); end >= 0 {
			return string(resultfile.TrimEnd(buffer[:end+1])), nil
		}
		if err != nil {
			return "", fmt.Errorf("reading the row at byte %d again: %w", offset, err)
		}
	}
}

func (s *store) stopSync() {
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
	s.synced.Wait()
}

// flush syncs all rows to disk, and checks that the path names them.
func (s *store) flush() error {
	s.stopSync()
	var err error
	select {
	case err = <-s.failed:
	default:
	}
	if e := s.file.Sync(); err == nil && !errors.Is(e, os.ErrInvalid) {
		err = e
	}
	if err == nil {
		err = unchanged(s.path, s.file, s.end)
	}
	if err == nil && s.path != "" {
		err = inPlace(s.path, s.file)
	}
	var displaced *DisplacedError
	if errors.As(err, &displaced) && displaced.Rows == "" {
		if name, rescueErr := rescue(s.path, s.file, s.end); rescueErr == nil {
			displaced.Rows = name
		}
	}
	if err != nil {
		return &WriteError{err}
	}
	return nil
}

// hash returns the first eight bytes of the SHA-256, the same on every machine and in every version, because
// shards depend on it.
func hash(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}
