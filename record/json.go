package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/bbprof/bbprof/corpus"
)

// appendJSON appends an object with all columns, in their order. What is not known is null;
// what is carried through is a string, also an empty one.
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
			return nil, fmt.Errorf("%s is %.40q, which is no %s", c.Name, cell, c.Type)
		default:
			line = append(line, cell...)
		}
	}
	return append(line, '}', '\n'), nil
}

// appendString quotes a string.
func appendString(line []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			e.Encode(s) // of a string, into memory: cannot fail
			return append(line, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		}
	}
	line = append(line, '"')
	line = append(line, s...)
	return append(line, '"')
}

// parseJSON reads an object of scalars.
func (l *Lines) parseJSON(line string, cells []string) ([]string, error) {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	if len(object) != len(l.schema) {
		return nil, fmt.Errorf("%d columns, of %d", len(object), len(l.schema))
	}
	for _, c := range l.schema {
		value, ok := object[c.Name]
		if !ok {
			return nil, fmt.Errorf("%s is missing", c.Name)
		}
		cell := ""
		switch v := value.(type) {
		case nil:
		case string:
			cell = v
		case json.Number:
			cell = v.String()
		case bool:
			cell = fmt.Sprint(v)
		default:
			return nil, fmt.Errorf("%s is no text, number or flag", c.Name)
		}
		if !c.fits(cell) {
			return nil, fmt.Errorf("%s is %.40q, which is no %s", c.Name, cell, c.Type)
		}
		cells = append(cells, corpus.OneLine(cell))
	}
	return cells, nil
}

// peekNames are the names in the first object, in their order; that line is then read again.
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
	}
	return names, nil
}
