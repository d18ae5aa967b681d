package batch

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

type WriteError struct{ error }

func (e *WriteError) Unwrap() error { return e.error }

func asWriteError(err error) error {
	if err == nil {
		return nil
	}
	return &WriteError{err}
}

// syncEvery bounds the rows that a power loss can cost.
const syncEvery = 2 * time.Second

// store is an append-only file with a row per line, addressed by offset.
type store struct {
	file  *os.File
	path  string // "" if unnamed
	lines *resultfile.Lines
	end   int64 // end of the last whole row
	line  []byte

	stopSync func()
	failed   chan error // from syncing
}

// newStore appends rows to a file after end, and the header if end is 0.
func newStore(f *os.File, path string, lines *resultfile.Lines, end int64) (*store, error) {
	s := &store{file: f, path: path, lines: lines, end: end, failed: make(chan error, 1)}
	if header := lines.Header(); end == 0 && len(header) > 0 {
		if err := s.put(header); err != nil {
			return nil, err
		}
	}
	stop := make(chan struct{})
	var syncing sync.WaitGroup
	syncing.Go(func() { s.sync(stop) })
	s.stopSync = sync.OnceFunc(func() {
		close(stop)
		syncing.Wait()
	})
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
			if err := cmp.Or(s.file.Sync(), inPlace(s.path, s.file)); err != nil {
				s.failed <- err
				return
			}
		}
	}
}

func (s *store) failure() error {
	select {
	case err := <-s.failed:
		return err
	default:
		return nil
	}
}

// append writes a row at once, so that it survives this process, and returns its offset.
func (s *store) append(cells []string) (at int64, err error) {
	if err := s.failure(); err != nil {
		return 0, &WriteError{err}
	}
	if s.line, err = s.lines.Append(s.line[:0], cells); err != nil {
		return 0, err
	}
	at = s.end
	return at, s.put(s.line)
}

// put appends to the file. The kernel chooses the position (O_APPEND), so the offset at which the text ends reveals
// changes by another program. The text is then removed, since resuming stops at a gap.
func (s *store) put(text []byte) error {
	n, err := s.file.Write(text)
	at, seekErr := s.file.Seek(0, io.SeekCurrent)
	begin := at - int64(n)
	if err = cmp.Or(err, seekErr); err == nil && begin == s.end {
		s.end = at
		return nil
	}
	if n > 0 {
		s.file.Truncate(begin) // if that fails, the next resume drops it
	}
	return &WriteError{cmp.Or(err, unchanged(s.path, s.file, s.end))}
}

// rowFrom reads the row at an offset. A file that ends within it is an error, never io.EOF.
func rowFrom(r io.ReaderAt, offset int64, lines *resultfile.Lines) ([]string, error) {
	line, err := bufio.NewReader(io.NewSectionReader(r, offset, math.MaxInt64)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("reading the row at byte %d again: %v", offset, err)
	}
	return lines.Parse(string(resultfile.TrimEnd(line)), nil)
}

// flush syncs all rows to disk, and checks that the path names them.
func (s *store) flush() error {
	s.stopSync()
	err := cmp.Or(s.failure(), s.file.Sync(), unchanged(s.path, s.file, s.end), inPlace(s.path, s.file))
	if displaced, ok := errors.AsType[*DisplacedError](err); ok && displaced.Rows == "" {
		displaced.Rows, _ = rescue(s.path, s.file, s.end)
	}
	return asWriteError(err)
}

// hash returns the first eight bytes of the SHA-256, the same on every machine and in every version, because
// shards depend on it.
func hash(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}
