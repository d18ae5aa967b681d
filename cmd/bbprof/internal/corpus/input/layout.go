package input

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
)

// layout describes how to read a file's rows: the separator, the column of blocks, and whether there is a header.
type layout struct {
	comma  byte
	block  int
	header bool
}

// unusual describes a layout that was detected, unless it is the default: first column, comma.
func (l layout) unusual(name, column string) (list []string) {
	switch l.comma {
	case '\t':
		list = append(list, "tabs separate the columns")
	case ';':
		list = append(list, "semicolons separate the columns")
	}
	if (column == "" || column == NoFlag) && l.block > 0 && !strings.EqualFold(name, blockNames[0]) {
		which := ""
		if name != "" {
			which = " (" + name + ")"
		}
		list = append(list, fmt.Sprintf("blocks are taken from column %d%s; %s names another", l.block+1, which, namer(column)))
	}
	return list
}

// separators lists the cell separators, the usual one first.
var separators = []byte{',', '\t', ';'}

// blockNames lists the header names of the column of blocks, in lower case; the first takes precedence.
var blockNames = []string{"hex", "code", "bytes", "block", "basic_block", "asm_hex", "code_hex", "hexcode", "machine_code", "opcodes"}

// findLayout infers the layout from the first line, without its byte-order mark, and the available next lines. It
// takes another separator than the comma, or another column than the first, only if nothing else is possible.
func findLayout(first string, next []string, column string) (l layout, err error) {
	for i, comma := range separators {
		found, ok, why := inColumn(first, next, column, comma)
		switch {
		case ok:
			return found, nil
		case i == 0:
			l, err = found, why
		}
	}
	return l, err
}

// inColumn returns the layout for one separator; ok reports whether it finds blocks.
func inColumn(first string, next []string, column string, comma byte) (l layout, ok bool, err error) {
	l.comma = comma
	cells := trimmed(first, comma)
	if len(cells) > MaxColumns {
		return l, false, fmt.Errorf("line 1 has more than %d columns", MaxColumns)
	}
	if comma != ',' && len(cells) < 2 {
		return l, false, nil
	}
	number, notNumber := strconv.Atoi(column)
	switch {
	case column == "" || column == NoFlag:
		return byContent(cells, next, column, l)
	case notNumber == nil && number < 1:
		return l, false, fmt.Errorf("there is no column %d; the first is 1", number)
	case notNumber == nil && number > len(cells):
		return l, false, fmt.Errorf("there is no column %d; the first line has %d", number, len(cells))
	case notNumber == nil:
		l.block, l.header = number-1, isName(cells[number-1])
		return l, true, nil
	}
	if l.block = indexFold(cells, column); l.block < 0 {
		return l, false, fmt.Errorf("no column is called %q; the first line has %s", column, strings.Join(cells, ", "))
	}
	l.header = true
	return l, true, nil
}

// byContent finds the column if the user names none.
func byContent(first []string, next []string, column string, l layout) (_ layout, ok bool, err error) {
	if l.block = indexFold(first, blockNames[0]); l.block >= 0 {
		l.header = true
		return l, true, nil
	}
	l.block = 0
	var rows [][]string
	for _, line := range next {
		rows = append(rows, trimmed(line, l.comma))
	}
	l.header = !slices.ContainsFunc(first, isBlock) && slices.ContainsFunc(first, isName)
	if !l.header {
		rows = append(rows, first)
	}
	if l.header {
		var named []int
		for i, cell := range first {
			if slices.Contains(blockNames, strings.ToLower(cell)) && (len(rows) == 0 || mostly(rows, i, isBlock)) {
				named = append(named, i)
			}
		}
		if len(named) == 1 {
			l.block = named[0]
			return l, true, nil
		}
	}
	// Numbers may be blocks, such as 90, but only if no other column has blocks.
	var blocks, numbers []int
	for i := range first {
		switch {
		case !mostly(rows, i, isBlock):
		case mostly(rows, i, isDecimal):
			numbers = append(numbers, i)
		default:
			blocks = append(blocks, i)
		}
	}
	if len(blocks) == 0 {
		blocks = numbers
	}
	switch {
	case len(blocks) == 0:
		l.header = isName(first[0])
		return l, false, nil
	case blocks[0] == 0 || len(blocks) == 1:
		l.block = blocks[0]
		return l, true, nil
	}
	return l, false, fmt.Errorf("columns %d and %d both look like blocks; %s names one", blocks[0]+1, blocks[1]+1, namer(column))
}

// NoFlag stands for the column of blocks where the command has no -column.
const NoFlag = "\x00"

// namer is how a user names the column of blocks.
func namer(column string) string {
	if column == NoFlag {
		return "a header with hex"
	}
	return "-column"
}

func trimmed(line string, comma byte) []string {
	cells, _ := Split(line, comma, nil)
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func indexFold(cells []string, name string) int {
	return slices.IndexFunc(cells, func(cell string) bool { return strings.EqualFold(cell, name) })
}

// mostly reports whether more than half of the rows have such a cell.
func mostly(rows [][]string, column int, is func(string) bool) bool {
	n := 0
	for _, cells := range rows {
		if column < len(cells) && is(cells[column]) {
			n++
		}
	}
	return 2*n > len(rows)
}

// isBlock reports whether a cell is a block, even one too long to profile.
func isBlock(cell string) bool {
	_, err := asm.ParseHex(cell, profiler.MaxBlock)
	var bad *asm.HexError
	return err == nil || errors.As(err, &bad) && bad.TooLong
}

func isDecimal(cell string) bool { return strings.Trim(cell, "0123456789") == "" }

// isName reports whether a first cell is a header's and not a (damaged) block: it has a
// letter that is no hexadecimal digit, and no digits.
func isName(s string) bool {
	name := false
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
			name = name || !strings.ContainsRune("abcdefABCDEF", r)
		case r == '_' || r == '-' || r == ' ':
		default:
			return false
		}
	}
	return name
}

// isRow reports whether a line is a row, neither blank nor a comment.
func isRow(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#'
}

// A text may contain mixedLeast control characters, and one in mixedShare of its bytes.
const (
	mixedShare = 20
	mixedLeast = 16
)

// isJSON says what to do with JSON, whose first line would be a header with a column bytes.
const isJSON = "JSON; bbprof convert makes CSV of a result in JSON lines, of other JSON make CSV with the blocks in a column hex"

// foreign names a file's format if its first bytes rule out rows of text, otherwise "".
func foreign(start []byte) string {
	if bytes.HasPrefix(start, []byte("PK\x03\x04")) && bytes.Contains(start[:min(len(start), 64)], []byte("bbprof-states.json")) {
		return "a file of bbprof capture; measure its blocks with bbprof batch -state FILE"
	}
	for _, k := range []struct{ magic, is string }{
		{"\x7fELF", "an ELF file (a program or an object); bbprof extract takes its blocks"},
		{"!<arch>\n", "an archive of objects; bbprof extract takes the blocks of an ELF file"},
		{"PAR1", "Parquet that was compressed once more; decompress it"},
		{"PK\x03\x04", "a ZIP archive, as spreadsheets are; save it as CSV"},
		{"BZh", "compressed with bzip2; gzip and zstd are read"},
		{"\xfd7zXZ", "compressed with xz; gzip and zstd are read"},
		{`{"`, isJSON},
		{"\xff\xfe", "text in UTF-16; save it as UTF-8"},
		{"\xfe\xff", "text in UTF-16; save it as UTF-8"},
	} {
		if bytes.HasPrefix(start, []byte(k.magic)) {
			return k.is
		}
	}
	odd := 0
	for _, b := range start {
		if b < ' ' && b != '\t' && b != '\n' && b != '\r' && b != '\f' || b == 0x7f {
			odd++
		}
	}
	if odd >= mixedLeast && odd*mixedShare > len(start) {
		return "binary data, not text"
	}
	return ""
}

var (
	disassembly = regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t([0-9a-f]{2} )+`) // a line of objdump -d
	statement   = regexp.MustCompile(`;\s*[\n}]`)                          // end of a C statement
)

// seems guesses what a text without blocks is.
func seems(text, column string) string {
	start := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(start, "{") || strings.HasPrefix(start, "["):
		return "it seems to be " + isJSON
	case disassembly.MatchString(text):
		return "it seems to be what a disassembler printed; bbprof extract takes the blocks of the program itself"
	case strings.Contains(text, "#include") || statement.MatchString(text) && strings.Contains(text, "{"):
		return "it seems to be source code; compile it (cc -O2 -c) and take the blocks of the object with bbprof extract"
	case slices.ContainsFunc([]string{".globl", "\t.", ":\n", ", %", "ptr ["}, func(s string) bool { return strings.Contains(text, s) }):
		return "it seems to be assembly; bbprof extract FILE.s takes its blocks"
	}
	return fmt.Sprintf("blocks are hexadecimal, such as 4801c0; %s names another column", namer(column))
}
