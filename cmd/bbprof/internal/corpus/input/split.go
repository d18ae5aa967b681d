package input

import "strings"

// Split splits a line into cells at comma, and appends them to cells. A cell may be quoted, with "" for a quote in
// it (RFC 4180), but a quoted cell ends at the latest with its line: a stray quote must not swallow the following
// lines. open is the index of a cell with an unclosed quote, else -1. Beyond MaxColumns cells, the rest of the
// line forms one more.
func Split(line string, comma byte, cells []string) (_ []string, open int) {
	open = -1
	for {
		if len(cells) >= MaxColumns {
			return append(cells, line), open
		}
		var (
			cell, rest string
			more       bool
		)
		if quoted, ok := strings.CutPrefix(strings.TrimLeft(line, blanks(comma)), `"`); ok {
			var closed bool
			cell, rest, closed = cutQuoted(quoted)
			if !closed {
				open = len(cells)
			}
			_, rest, more = cutByte(rest, comma) // text after the closing quote is dropped
		} else {
			cell, rest, more = cutByte(line, comma)
		}
		cells = append(cells, cell)
		if !more {
			return cells, open
		}
		line = rest
	}
}

func cutByte(s string, at byte) (before, after string, found bool) {
	if i := strings.IndexByte(s, at); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// blanks lists the characters allowed before a quote.
func blanks(comma byte) string {
	if comma == '\t' {
		return " "
	}
	return " \t"
}

// cutQuoted returns the text up to the closing quote, and the rest.
func cutQuoted(s string) (text, rest string, closed bool) {
	text, rest, closed = strings.Cut(s, `"`)
	if !strings.HasPrefix(rest, `"`) {
		return text, rest, closed // the usual case: no copy
	}
	var b strings.Builder
	b.WriteString(text)
	for strings.HasPrefix(rest, `"`) {
		b.WriteByte('"')
		text, rest, closed = strings.Cut(rest[1:], `"`)
		b.WriteString(text)
	}
	return b.String(), rest, closed
}
