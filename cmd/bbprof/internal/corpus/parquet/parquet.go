// Package parquet reads and writes flat tables as Apache Parquet, one row of cells at a time; a cell is text as in
// CSV. The Thrift structures and the encodings come from github.com/parquet-go/parquet-go. Its reader is not used:
// it allocates what a file announces (v0.32: 2 GB for a file of 103 bytes), decodes runs of booleans wrongly, and
// refuses 32-bit numbers that DuckDB writes. Its writer takes twice the time and up to four times the memory, and
// adds 8 MB to the binary.
//
// A file is a magic number, pages, a footer with their positions, its length and the magic number again. Rows come
// in groups; a group has a chunk of pages for each column.
package parquet

import (
	"fmt"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Magic starts and ends a file.
const Magic = "PAR1"

type Type string

const (
	Text    Type = "text"
	Integer Type = "integer"
	Number  Type = "number"
	Flag    Type = "flag" // true or false
)

// Column is a table's column. All are nullable.
type Column struct {
	Name string
	Type Type
	// EmptyText makes an empty cell an empty text, not null.
	EmptyText bool
	// Decimals of a number that is read; negative: as many as needed.
	Decimals int
}

// element returns the column as the footer's schema describes it.
func (c Column) element() format.SchemaElement {
	e := format.SchemaElement{Name: c.Name, RepetitionType: thrift.New(format.Optional), Type: thrift.New(c.physical())}
	if c.Type == Text {
		e.ConvertedType = thrift.New(deprecated.UTF8)
		e.LogicalType.Value = &format.StringType{}
	}
	return e
}

func (c Column) physical() format.Type {
	switch c.Type {
	case Integer:
		return format.Int64
	case Number:
		return format.Double
	case Flag:
		return format.Boolean
	}
	return format.ByteArray
}

// recovered turns a panic into an error: the library's decoders panic on some damage.
func recovered(err *error) {
	if why := recover(); why != nil {
		*err = fmt.Errorf("damaged Parquet: %v", why)
	}
}
