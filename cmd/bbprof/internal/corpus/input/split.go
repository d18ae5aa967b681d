package input

import "strings"

// Split splits a line into cells at comma, and appends them to cells. A cell may be quoted, with "" for a quote in
// it (RFC 4180), but a quoted cell ends at the latest with its line: a stray quote must not swallow the following
// lines. open is the index of a cell with an unclosed quote, else -1. Beyond MaxColumns cells, the rest of the
// line forms one more.
func Split(line string, comma byte, cells []string) (_ []string, open int) {
	open = -1
	separator, blanks := string(rune(comma)), strings.ReplaceAll(" \t", string(rune(comma)), "") // blanks may precede a quote
	for more := true; more; {
		if len(cells) >= MaxColumns {
			return append(cells, line), open
		}
		var cell string
		if quoted, ok := strings.CutPrefix(strings.TrimLeft(line, blanks), `"`); ok {
			var closed bool
			if cell, line, closed = cutQuoted(quoted); !closed {
				open = len(cells)
			}
			_, line, more = strings.Cut(line, separator) // text after the closing quote is dropped
		} else {
			cell, line, more = strings.Cut(line, separator)
		}
		cells = append(cells, cell)
	}
	return cells, open
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
