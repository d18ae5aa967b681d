// Package journal keeps what a command measures on file as soon as it is measured, so that the same command, started
// again, need not measure it again. A command is determined by its flags, its seed and what it measures: started again,
// it asks the same questions, in much the same order, and the journal answers those that it can.
//
// A file has a line that says what made it, then frames: the length and checksum of their bytes, which are a stream of
// encoding/gob, deflated and flushed after each value. Each start of the command begins a new stream, after a frame of no bytes.
// What a kill cuts short is dropped.
package journal

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/internal/host"
)

// A Journal answers by key; of several values of one key, such as those of repetitions, the first comes first. A nil
// Journal has none and keeps none. Its methods may be called from any goroutine.
type Journal struct {
	mu      sync.Mutex
	path    string
	header  []byte
	resume  bool
	file    *os.File // nil until something is kept
	stream  bytes.Buffer
	deflate *flate.Writer
	encoder *gob.Encoder
	answers map[string][]any
	found   int
	kept    int
}

type entry struct {
	Key   string
	Value any
}

// Register makes a type known whose values are kept.
func Register(value any) { gob.Register(value) }

// Core names the core that is measured on, of the first of these CPUs: what two kinds take must not mix.
func Core(cpus ...int) string {
	c := host.Detect(cpus...)
	return fmt.Sprintf("%s (%s, family %#x model %#x)", c.Microarchitecture, strings.TrimSpace(c.Brand), c.Family, c.Model)
}

// magic begins every journal, so that no other file is taken for one.
const magic = "bbprof journal "

// Open continues a journal if resume is set and it is there; otherwise none may be there, and it is created when something is
// kept. by says what makes it, and must be the same. Other runs are locked out, and files that are no journals left alone.
func Open(path, by string, resume bool) (*Journal, error) {
	j := &Journal{path: path, header: []byte(magic + by + "\n"), resume: resume, answers: map[string][]any{}}
	j.deflate, _ = flate.NewWriter(&j.stream, flate.BestSpeed) // the level is valid
	j.encoder = gob.NewEncoder(j.deflate)
	if _, err := os.Lstat(path); err != nil {
		return j, nil // the check of the output names any other fault of the path
	}
	return j, j.open()
}

func (j *Journal) open() (err error) {
	if j.file, err = atomicfile.OpenLocked(j.path); err != nil {
		return err
	}
	if err = j.read(); err == nil {
		err = j.frame(nil)
	}
	if err != nil {
		j.file.Close()
		j.file = nil
		return fmt.Errorf("%s: %w", j.path, err)
	}
	return nil
}

// read reads all answers, and truncates the file after the last whole frame.
func (j *Journal) read() error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(j.header, text): // it is new, or was cut short at once
		if err := j.file.Truncate(0); err != nil {
			return err
		}
		_, err := j.file.Write(j.header)
		return err
	case !bytes.HasPrefix(text, []byte(magic)):
		return errors.New("it is there already, does not begin like a journal and is left alone; name another file with -o")
	case !bytes.HasPrefix(text, j.header):
		made, _, _ := bytes.Cut(text[len(magic):], []byte("\n"))
		return fmt.Errorf("it was left by another run, and what both measured must not mix: %.300s, here %.300s; remove it to start again",
			made, bytes.TrimSpace(j.header[len(magic):]))
	case !j.resume:
		return fmt.Errorf("it is there already, with %d bytes; -resume continues it, removing it starts again", len(text))
	}
	at, whole := len(j.header), true
	for whole {
		var stream bytes.Buffer
		frames := 0
		for {
			var payload []byte
			size := 0
			if payload, size = nextFrame(text[at:]); size == 0 {
				whole = false
				break
			}
			if at += size; len(payload) == 0 {
				break
			}
			stream.Write(payload)
			frames++
		}
		if err := j.decode(&stream, frames); err != nil {
			return errors.New("it is damaged; remove it to start again")
		}
	}
	return j.file.Truncate(int64(at))
}

// decode reads the values of one start.
func (j *Journal) decode(stream io.Reader, values int) error {
	decoder := gob.NewDecoder(flate.NewReader(stream))
	for range values {
		var e entry
		if err := decoder.Decode(&e); err != nil {
			return err
		}
		j.answers[e.Key] = append(j.answers[e.Key], e.Value)
		j.found++
	}
	return nil
}

const frameHeader = 8 // length and CRC-32, little-endian

// nextFrame returns a frame's bytes and its size with its header; size is 0 if it is not whole.
func nextFrame(text []byte) (payload []byte, size int) {
	if len(text) < frameHeader {
		return nil, 0
	}
	n := uint64(binary.LittleEndian.Uint32(text))
	if n > uint64(len(text)-frameHeader) {
		return nil, 0
	}
	payload = text[frameHeader : frameHeader+n]
	if crc32.ChecksumIEEE(payload) != binary.LittleEndian.Uint32(text[4:]) {
		return nil, 0
	}
	return payload, frameHeader + len(payload)
}

func (j *Journal) frame(payload []byte) error {
	text := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	text = binary.LittleEndian.AppendUint32(text, crc32.ChecksumIEEE(payload))
	if _, err := j.file.Write(append(text, payload...)); err != nil {
		return fmt.Errorf("keeping what was measured: %w", err)
	}
	return nil
}

// Take returns the next answer of an earlier start to a question.
func (j *Journal) Take(key string) (value any, ok bool) {
	if j == nil {
		return nil, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	list := j.answers[key]
	if len(list) == 0 {
		return nil, false
	}
	j.answers[key] = list[1:]
	return list[0], true
}

func (j *Journal) Keep(key string, value any) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		if err := j.open(); err != nil {
			return fmt.Errorf("keeping what was measured: %w", err)
		}
	}
	j.stream.Reset()
	if err := errors.Join(j.encoder.Encode(entry{key, value}), j.deflate.Flush()); err != nil {
		return fmt.Errorf("keeping what was measured: %w", err)
	}
	if err := j.frame(j.stream.Bytes()); err != nil {
		return err
	}
	j.kept++
	return nil
}

// Found returns how many answers earlier starts left, and Size how many there are in all.
func (j *Journal) Found() int { return j.found }

func (j *Journal) Size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.found + j.kept
}

// Close keeps the file, and Remove removes it.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

func (j *Journal) Remove() error {
	if j.file == nil {
		return nil
	}
	defer j.file.Close() // once it is gone, or another run might lock it before
	if !atomicfile.InPlace(j.path, j.file) {
		return nil
	}
	return os.Remove(j.path)
}
