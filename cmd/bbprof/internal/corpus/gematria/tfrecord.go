// Package gematria writes and reads the files of Gematria (github.com/google/gematria): a sequence of records in
// TensorFlow's framing, each a Protocol Buffers message.
package gematria

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A record is its length in 8 bytes, a checksum of the length in 4, the data, and a checksum of the data
// (tensorflow/core/lib/io/record_writer.h).
const (
	HeadSize = 12 // what StartsRecord needs
	tailSize = 4
)

// maxRecord bounds the records read. A block of 64 KiB with an annotation per byte is smaller.
const maxRecord = 16 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is masked as in TensorFlow, so that a checksum of data that contains checksums stays strong
// (tensorflow/core/lib/hash/crc32c.h).
func checksum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

func AppendRecord(to, data []byte) []byte {
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	to = binary.LittleEndian.AppendUint32(append(to, head...), checksum(head))
	return binary.LittleEndian.AppendUint32(append(to, data...), checksum(data))
}

// StartsRecord reports whether a file with this start holds records. Other data of eight or more bytes pass the
// checksum once in four thousand million.
func StartsRecord(start []byte) bool {
	return len(start) >= HeadSize && binary.LittleEndian.Uint32(start[8:]) == checksum(start[:8])
}

type Records struct {
	in io.Reader
	n  int
}

func NewRecords(r io.Reader) *Records { return &Records{in: r} }

// Next returns the data of the next record, and io.EOF after the last.
func (r *Records) Next() ([]byte, error) {
	var head [HeadSize]byte
	if _, err := io.ReadFull(r.in, head[:]); errors.Is(err, io.EOF) {
		return nil, io.EOF
	} else if err != nil {
		return nil, r.damaged("it ends within the record's length")
	}
	r.n++
	length := binary.LittleEndian.Uint64(head[:8])
	switch {
	case !StartsRecord(head[:]):
		return nil, r.damaged("the checksum of its length is wrong")
	case length > maxRecord:
		return nil, r.damaged(fmt.Sprintf("it has %d bytes, more than %d", length, maxRecord))
	}
	data := make([]byte, length+tailSize)
	if _, err := io.ReadFull(r.in, data); err != nil {
		return nil, r.damaged("the file ends within it")
	}
	data, tail := data[:length], data[length:]
	if binary.LittleEndian.Uint32(tail) != checksum(data) {
		return nil, r.damaged("the checksum of its data is wrong")
	}
	return data, nil
}

func (r *Records) damaged(what string) error {
	return fmt.Errorf("record %d of the TFRecord file is damaged: %s", max(r.n, 1), what)
}
