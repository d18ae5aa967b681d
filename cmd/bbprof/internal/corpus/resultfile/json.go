package resultfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
)

// appendJSON appends an object with all columns in order. Unknown values are null; carried cells are strings, even
// if empty.
func (l *Lines) appendJSON(line []byte, cells []string) ([]byte, error) {
	for i, c := range l.schema {
		line = append(line, l.names[i]...)
		cell := cells[i]
		switch {
		case cell == "" && c.of != nil:
			line = append(line, "null"...)
		case c.Type == Text:
			line = appendString(line, cell)
		case !c.fits(cell):
			return nil, c.mistyped(cell)
		default:
			line = append(line, cell...)
		}
	}
	return append(line, '}', '\n'), nil
}

func appendString(line []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			e.Encode(s) // encoding a string into memory cannot fail
			return append(line, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		}
	}
	line = append(line, '"')
	line = append(line, s...)
	return append(line, '"')
}

func (l *Lines) parseJSON(line string, cells []string) ([]string, error) {
	if l.at == nil {
		l.at = make(map[string]int, len(l.schema))
		for i, c := range l.schema {
			l.at[c.Name] = i
		}
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	from := len(cells)
	cells = slices.Grow(cells, len(l.schema))[:from+len(l.schema)]
	seen := make([]bool, len(l.schema))
	for n := 0; d.More(); n++ {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		i, known := l.at[fmt.Sprint(name)]
		if !known || seen[i] {
			return nil, fmt.Errorf("%.40q is a column that the first row lacks, or a duplicate", name)
		}
		seen[i] = true
		value, err := d.Token()
		if err != nil {
			return nil, err
		}
		if cells[from+i], err = l.schema[i].ofJSON(value); err != nil {
			return nil, err
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return nil, fmt.Errorf("%s is missing", l.schema[i].Name)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("there is text after the object")
	}
	return cells, nil
}

func (c Column) ofJSON(value json.Token) (cell string, err error) {
	switch v := value.(type) {
	case nil:
	case string:
		cell = v
	case json.Number:
		cell = v.String()
	case bool:
		cell = strconv.FormatBool(v)
	default:
		return "", fmt.Errorf("%s is not a text, number or flag", c.Name)
	}
	if !c.fits(cell) {
		return "", c.mistyped(cell)
	}
	return input.OneLine(cell), nil
}

// peekNames returns the names in the first object, in order, and leaves the line to be read again.
func (r *LineReader) peekNames() (names []string, err error) {
	first, ended, err := r.readLine()
	if err == io.EOF || err == nil && !ended {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.pushed = &first
	d := json.NewDecoder(strings.NewReader(first))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, &DamageError{1, 0, "it begins no object"}
	}
	for d.More() {
		name, err := d.Token()
		if err == nil {
			_, err = d.Token()
		}
		if err != nil {
			return nil, &DamageError{1, 0, err.Error()}
		}
		names = append(names, fmt.Sprint(name))
		if err := checkWidth(len(names)); err != nil {
			return nil, err
		}
	}
	return names, nil
}
